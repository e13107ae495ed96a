"""The fast service: bulk answers from memory, at a cost that does not matter beside that of any client.

`python -m benchmarks.service` prints a line of JSON with its address and serves until its input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.answers import POOL, Answers

__all__ = ["ENVIRONMENT", "ROOT", "TOKEN", "cpu_seconds", "start"]

ROOT = Path(__file__).parent.parent
TOKEN = "benchmark-token-of-forty-characters-00"  # noqa: S105 - guards nothing; as long as tokens of services
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""For processes that are measured: where Python may not keep what it compiled, every start compiles all anew."""

_PATH = b"/v1/companies/"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class _Company(msgspec.Struct):
    country: str = msgspec.field(name="countryCode")
    number: str = msgspec.field(name="companyNumber")


class _Asked(msgspec.Struct):
    companies: list[_Company]
    limit: int = 4
    offset: int = 0


_ASKED = msgspec.json.Decoder(_Asked)


class _Protocol(asyncio.Protocol):
    """HTTP/1.1 as far as a bulk request needs it."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head := self._received.find(b"\r\n\r\n")) >= 0:
            end = head + 4 + _length(self._received[:head])
            if len(self._received) < end:
                return
            body, self._received = (
                self._answer(self._received[:head], self._received[head + 4 : end]),
                self._received[end:],
            )
            self._transport.write(_HEAD % len(body))
            self._transport.write(body)

    def _answer(self, head: bytes, body: bytes) -> bytes:
        dataset = head.split(b" ", 2)[1].removeprefix(_PATH).decode()
        asked = _ASKED.decode(body)
        companies = ((company.country, company.number) for company in asked.companies)
        return self._answers.body(dataset, companies, asked.limit, asked.offset)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _serve(answers: Answers) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Protocol(answers), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(json.dumps({"base_url": f"http://{host}:{port}"}) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.buffer.read)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser("python -m benchmarks.service", description=__doc__)
    parser.add_argument("--pool", type=int, default=POOL, help="different companies")
    parser.add_argument("--week", type=int, default=0, help="in week 1, 5 %% of the companies are others")
    parser.add_argument("--dialect", default="", help="a dialect of the sandbox, for records")
    arguments = parser.parse_args()
    asyncio.run(_serve(Answers(arguments.pool, arguments.week, arguments.dialect)))


@contextmanager
def start(*, pool: int = POOL, week: int = 0, dialect: str = "") -> Iterator[tuple[str, int]]:
    """Run the service in a process of its own; gives its address and process id."""
    command = [sys.executable, "-m", "benchmarks.service", f"--pool={pool}", f"--week={week}", f"--dialect={dialect}"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())["base_url"], process.pid
        finally:
            process.terminate()


def cpu_seconds(pid: int) -> float:
    """Read how long a process has computed so far; Linux only, elsewhere 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
