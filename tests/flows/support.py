"""What flow tests share: settings for a sandbox, `python flows/enrich.py` as a process, and the process table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

import firmlake_sandbox
from firmlake_sandbox import Sandbox

ROOT = Path(__file__).parents[2]
FLOWS = ROOT / "flows"
_MARK = "FLOW_TEST_MARK"
_SECONDS = 60.0


def write_list(path: Path, count: int, seed: int = 0) -> list[str]:
    """Write a company list; returns its companies as country and number in one."""
    numbers = firmlake_sandbox.sample_numbers(count, seed=seed)
    path.write_text("country,company_number\n" + "".join(f"{country},{number}\n" for country, number in numbers))
    return [country + number for country, number in numbers]


def settings_for(sandbox: Sandbox, data: Path, **others: object) -> dict[str, str]:
    """Settings by dotted key, `__` for the dot."""
    values = {
        "api__base_url": sandbox.base_url,
        "api__requests_per_minute": 0,
        "api__retry_wait_max_seconds": 0.01,
        "paths__data": data,
        **others,
    }
    return {name.replace("__", "."): str(value) for name, value in values.items()}


def ask_server(method: str, address: str, content: Any = None) -> httpx.Response:
    """Ask a Prefect server, with the authentication string in the environment, if one is there."""
    auth = tuple(os.environ.get("PREFECT_API_AUTH_STRING", "").split(":", 1))
    return httpx.request(
        method, address, json=content, trust_env=False, auth=(auth[0], auth[1]) if len(auth) == 2 else None
    )


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what went wrong; it is the last, and a traceback is none."""
        *rest, last = self.err.splitlines()
        assert last.startswith("firmlake: "), self.err
        assert not [line for line in rest if line.startswith(("firmlake: ", "Traceback"))], self.err
        return last.removeprefix("firmlake: ")


class ByHand:
    """`python flows/enrich.py` in a folder and home of its own, with no variable of Prefect's or ours."""

    def __init__(self, folder: Path, flow: str = "enrich") -> None:
        self.folder, self.flow = folder, flow
        self.mark = f"{_MARK}={uuid4().hex}"
        (folder / "home").mkdir(parents=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FIRMLAKE_", "PREFECT_"))},
            "HOME": str(folder / "home"),
            "NO_COLOR": "1",
            "COLUMNS": "200",
            _MARK: self.mark.partition("=")[2],
        }
        self.environment.pop("DO_NOT_TRACK", None)

    def start(self, *arguments: str, settings: dict[str, str] | None = None) -> subprocess.Popen[str]:
        flags = [part for key, value in (settings or {}).items() for part in ("--set", f"{key}={value}")]
        return subprocess.Popen(
            [sys.executable, str(FLOWS / f"{self.flow}.py"), *arguments, *flags],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, settings: dict[str, str] | None = None) -> Ended:
        return self.end(self.start(*arguments, settings=settings))

    def end(self, process: subprocess.Popen[str], seconds: float = 90) -> Ended:
        """Wait for a process to end."""
        out, err = process.communicate(timeout=seconds)
        return Ended(process.returncode, out, err)

    def processes(self) -> list[str]:
        """All processes that came of this one, by their command lines."""
        return list(self.process_ids().values())

    def process_ids(self) -> dict[int, str]:
        """The command lines of all processes that came of this one, by their ids."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it has ended, or is somebody else's
        return found


@contextmanager
def killed_at_last(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that a failing test must not leave behind."""
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_until(condition: Callable[[], Any], seconds: float = _SECONDS, what: str = "") -> Any:
    """Poll until a condition holds; gives what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return found


def request_count(sandbox: Sandbox) -> int:
    return int(sandbox.ledger(summary=True)["summary"]["requests"])


def columns(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


class Pool:
    """The deployments as they are shipped, on a server, and workers for them."""

    def __init__(self, by_hand: ByHand, api: str, **variables: str) -> None:
        self._api, self._folder = api, by_hand.folder
        self._environment = {
            **by_hand.environment,
            "PREFECT_API_URL": api,
            "PREFECT_HOME": str(by_hand.folder / "worker"),
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "LAKE_HOME": str(by_hand.folder),
            "LAKE_LIST": str(by_hand.folder / "list.csv"),
            **variables,
        }
        deploy = [sys.executable, "-m", "firmlake.flows.deploy"]
        done = subprocess.run(deploy, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def worker(self, name: str = "one") -> Iterator[subprocess.Popen[bytes]]:
        command = [
            str(Path(sys.executable).with_name("prefect")),
            "worker",
            "start",
            "--pool",
            "firmlake",
            "--name",
            name,
        ]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)

    def start_run(self) -> str:
        weekly = self.ask("GET", "deployments/name/enrich/weekly")
        created = self.ask("POST", f"deployments/{weekly['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
        return str(created["id"])

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        answer = httpx.request(method, f"{self._api}/{path}", json=content, trust_env=False, timeout=60)
        return answer.raise_for_status().json()
