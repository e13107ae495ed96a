"""A data folder that is run, killed, cut off and lied to, and what its content must be afterwards."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

import firmlake_sandbox
from firmlake.cli import firmlake
from firmlake.core.files import ZstdError, decompress_frames
from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import Sandbox
from spellings import SPELLINGS, holds_piece

TOKEN = "canary/7f3a9c51+e0d24b86~token=="
"""The token of all runs here; it must be found nowhere. It holds what JSON, addresses and base64 spell otherwise."""

KILLED = Path(__file__).with_name("killed.py")
"""Runs firmlake and kills it at an instant."""

Content = dict[str, tuple[int, str]]

_VARIES = {"run_id", "valid_from_run", "request_id", "fetched_at", "paid_at"}
"""Names of a run, and times: they differ between two runs over the same world."""
_TABLES = (
    "companies", "financials", "financial_joint_committees", "lookalikes", "relationships", "company_state",
)  # fmt: skip


def sized(sample: Iterable[object], full: Iterable[object], *, timeout: int = 600) -> list[Any]:
    """The cases of the default run, and those of `-m reliability`."""
    marks = [pytest.mark.reliability, pytest.mark.timeout(timeout)]
    return [
        *(pytest.param(case, id=f"slice-{_name(case)}") for case in sample),
        *(pytest.param(case, id=f"full-{_name(case)}", marks=marks) for case in full),
    ]


class Result(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def content(self) -> Any:
        return json.loads(self.out)

    @property
    def error_line(self) -> str:
        """The one line that says what happened; a traceback is none."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("firmlake: ")]
        assert len(lines) == 1, self.err
        return lines[0]


class Lake:
    """A data folder of its own and the command line on it, against one sandbox.

    Attributes:
        numbers: The companies of its list: (country, company number).
        environment: What the commands see.
        said: All that they printed.
    """

    def __init__(self, folder: Path, sandbox: Sandbox, count: int, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.sandbox = folder, sandbox
        self.data, self.list = folder / "data", folder / "list.csv"
        self.numbers = firmlake_sandbox.sample_numbers(count)
        self.list.write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in self.numbers))
        self.said: list[str] = []
        self.environment = {
            "FIRMLAKE_API__BASE_URL": sandbox.base_url,
            "FIRMLAKE_API_TOKEN": sandbox.token,
            "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
            "FIRMLAKE_API__RETRY_WAIT_MAX_SECONDS": "0.01",
            "FIRMLAKE_PATHS__DATA": str(self.data),
            "FIRMLAKE_RUN__CHECK": "false",
            "FIRMLAKE_CONFIG": str(_empty_file(folder / "firmlake.toml")),
            "COLUMNS": "300",
            "NO_COLOR": "1",
        }
        for name, value in settings.items():
            self.set(name, value)

    @property
    def folders(self) -> Folders:
        return Folders(self.data)

    def set(self, name: str, value: object) -> None:
        """Set `run__shard_companies` and the like."""
        self.environment[f"FIRMLAKE_{name.upper()}"] = str(value)

    def call(self, *arguments: str) -> Result:
        """Run a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.environment), redirect_stdout(out), redirect_stderr(err):
            code = firmlake.main([*arguments], standalone_mode=False)
        self.said += [out.getvalue(), err.getvalue()]
        return Result(code, out.getvalue(), err.getvalue())

    def run(self, *options: str) -> Result:
        return self.call("run", str(self.list), "--json", *options)

    def start(self, *arguments: str, code: Iterable[str] = ("-m", "firmlake"), **options: Any) -> subprocess.Popen[str]:
        """Run a command in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, *code, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def end(self, process: subprocess.Popen[str], seconds: float = 60) -> Result:
        """Wait for a process that was started; it must leave no other behind."""
        out, err = process.communicate(timeout=seconds)
        self.said += [out, err]
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
        return Result(process.returncode, out, err)

    def content(self, without: tuple[str, str] = ("", "")) -> Content:
        """Rows and hash of every table about companies but one, whenever and by whichever run they were fetched."""
        with open_warehouse(self.folders) as connection:
            return {table: _hash(connection, table, without) for table in _TABLES}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with open_warehouse(self.folders) as connection:
            return connection.execute(sql).fetchall()

    def ledger(self) -> dict[str, Any]:
        return self.sandbox.ledger(summary=True)["summary"]

    def strays(self) -> list[Path]:
        """What a crash may leave and the next run must clear away."""
        return [path for path in self.data.rglob("*") if ".part" in path.name or path.name.startswith(".verify-")]

    def is_finished(self) -> bool:
        """Whether a run over the list has been published."""
        return (self.data / "warehouse/firmlake.duckdb").exists()


class Undisturbed(NamedTuple):
    """What a run over so many companies gives when nothing goes wrong.

    Attributes:
        lake: Where it ran.
        content: All rows.
        requests: How many requests it took.
        charged: What it cost.
        company: A company that exists and has several pages of periods, if one is among them.
        neighbours: The content without that company.
    """

    lake: Lake
    content: Content
    requests: int
    charged: int
    company: tuple[str, str]
    neighbours: Content


def assert_whole(lake: Lake, expected: Undisturbed) -> None:
    """Nothing lost, nothing double, nobody paid twice, nothing left lying about, and landed = staged = warehouse."""
    assert lake.content() == expected.content
    ledger = lake.ledger()
    assert ledger["companies_charged_again"] == 0
    assert ledger["credits_charged"] == expected.charged
    assert lake.call("verify", "--json").code == 0, lake.said[-1]
    assert not (strays := lake.strays()), strays


def assert_accounted(summary: dict[str, Any]) -> None:
    """Every company is in exactly one status of each dataset."""
    for dataset, counts in summary["datasets"].items():
        assert sum(counts.values()) == summary["company_count"], dataset


def poll(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.002)


def name_of(company: tuple[str, str]) -> str:
    """A company as the sandbox's rules and charges have it."""
    return "".join(company)


@contextmanager
def faults(sandbox: Sandbox, *rules: dict[str, Any]) -> Iterator[None]:
    """Let the service be so for a while."""
    sandbox.set_faults(list(rules))
    try:
        yield
    finally:
        sandbox.set_faults([])


def find_token(folder: Path, said: Iterable[str]) -> list[str]:
    """Where the token is to be read, though it must not be: whole, in any spelling, also in what is compressed."""
    spelled = {spell(TOKEN).encode() for spell in SPELLINGS.values()} | {spell(TOKEN[:-2]).encode() for spell in _PLAIN}
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    found = [str(path) for path in files if any(secret in content for content in _contents(path) for secret in spelled)]
    return found + [text for text in said if holds_piece(text, TOKEN)]


_PLAIN = (SPELLINGS["plain"], SPELLINGS["base64"])


def _contents(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.suffix == ".zst":
        with suppress(ZstdError):  # damaged by a test
            yield decompress_frames(path.read_bytes())


def _hash(connection: Any, table: str, without: tuple[str, str]) -> tuple[int, str]:
    row_hash = f"hash({', '.join(c.name for c in TABLES[table].columns if c.name not in _VARIES)})"
    sql = f"SELECT count(*), bit_xor({row_hash}), sum({row_hash}::HUGEINT) FROM {table}"
    sql = f"{sql} WHERE (country, company_number) <> (?, ?)"
    count, mixed, total = connection.execute(sql, without).fetchall()[0]
    return count, f"{mixed}/{total}"


def _empty_file(path: Path) -> Path:
    path.touch()
    return path


def _name(case: object) -> str:
    return "-".join(map(str, case)) if isinstance(case, tuple) else str(case)
