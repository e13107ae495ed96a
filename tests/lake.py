"""Firmlake as its users have it: a data folder, a list, settings, and the command line on them.

`Lake(folder, service, 12)` has a list of twelve companies of the sandbox; `call` runs a command in this process and
`start` in one of its own, both with the environment of the lake. Without a service it is the command line on a data
folder that was made by hand: `Lake(folders.data.parent)`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from firmlake.cli import carry_out
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import sample_numbers

TOKEN = "canary/7f3a9c51+e0d24b86~token=="
"""The token of the sandbox of all tests. It holds what JSON, addresses and base64 spell otherwise."""

Content = dict[str, tuple[int, str]]

_VARIES = {"run_id", "valid_from_run", "request_id", "fetched_at", "paid_at"}
"""Names of a run, and times: they differ between two runs over the same world."""
_TABLES = (
    "companies", "financials", "financial_joint_committees", "lookalikes", "relationships", "company_state",
)  # fmt: skip


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
    """A data folder of its own and the command line on it, against one service.

    Attributes:
        service: A sandbox, or another service with a `base_url`.
        list: The file of its list.
        numbers: The companies of its list: (country, company number).
        environment: What the commands see besides the environment of this process.
        said: All that they printed.
    """

    def __init__(
        self, folder: Path, service: Any = None, companies: int | Iterable[tuple[str, str]] = (), **settings: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.service = folder, service
        self.data, self.list = folder / "data", folder / "list.csv"
        self.numbers: list[tuple[str, str]] = []
        self.said: list[str] = []
        (folder / "firmlake.toml").touch()
        self.environment = {
            "FIRMLAKE_PATHS__DATA": str(self.data),
            "FIRMLAKE_RUN__CHECK": "false",
            "FIRMLAKE_CONFIG": str(folder / "firmlake.toml"),
            "COLUMNS": "300",
            "NO_COLOR": "1",
        }
        if service is not None:
            self.environment |= {
                "FIRMLAKE_API__BASE_URL": service.base_url,
                "FIRMLAKE_API_TOKEN": service.token,
                "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
                "FIRMLAKE_API__RETRY_WAIT_MAX_SECONDS": "0.01",
            }
            self.write(companies)
        for name, value in settings.items():
            self.set(name, value)

    @property
    def folders(self) -> Folders:
        return Folders(self.data)

    @property
    def settings(self) -> Settings:
        return load_settings(environment=self.environment)[0]

    def overrides(self, **settings: object) -> dict[str, str]:
        """Its settings and others by dotted key, as `--set` and flows take them."""
        named = {name: value for name, value in self.environment.items() if name.startswith("FIRMLAKE_")}
        own = {name[9:].lower(): value for name, value in named.items() if "__" in name}
        return {name.replace("__", "."): str(value) for name, value in {**own, **settings}.items()}

    def set(self, name: str, value: object) -> None:
        """Set `run__shard_companies` and the like."""
        self.environment[f"FIRMLAKE_{name.upper()}"] = str(value)

    def write(self, companies: int | Iterable[tuple[str, str]], path: Path | None = None) -> Path:
        """Write a list of companies, or of so many that the sandbox has."""
        numbers = sample_numbers(companies) if isinstance(companies, int) else list(companies)
        if path is None:
            self.numbers = numbers
        path = path or self.list
        path.write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in numbers))
        return path

    # --- commands ----------------------------------------------------------------------------------------------------

    def call(self, *arguments: str, input: str | None = None) -> Result:
        """Run a command in this process, with its standard input if a text is given."""
        out, err = io.StringIO(), io.StringIO()
        stdin = sys.stdin if input is None else io.TextIOWrapper(io.BytesIO(input.encode()))
        with (
            patch.dict(os.environ, self.environment), patch.object(sys, "stdin", stdin),
            redirect_stdout(out), redirect_stderr(err),
        ):  # fmt: skip
            code = carry_out(arguments)
        self.said += [out.getvalue(), err.getvalue()]
        return Result(code, out.getvalue(), err.getvalue())

    def run(self, *options: str) -> Result:
        return self.call("run", str(self.list), "--json", *options)

    def start(self, *arguments: str, code: Iterable[str] = ("-m", "firmlake"), **options: Any) -> subprocess.Popen[str]:
        """Run a command in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, *code, *arguments],
            cwd=self.folder,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def variables(self) -> dict[str, str]:
        """The environment of its processes: this one's, without what is of firmlake or Prefect, and its own."""
        foreign = ("FIRMLAKE_", "PREFECT_")
        return {**{name: text for name, text in os.environ.items() if not name.startswith(foreign)}, **self.environment}

    def end(self, process: subprocess.Popen[str], seconds: float = 60) -> Result:
        """Wait for a process that was started; it must leave no other behind."""
        ended = self.ended(process, seconds)
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
        return ended

    def ended(self, process: subprocess.Popen[str], seconds: float = 60) -> Result:
        """Wait for a process whose group may live on for a moment."""
        out, err = process.communicate(timeout=seconds)
        self.said += [out, err]
        return Result(process.returncode, out, err)

    # --- what came of them -------------------------------------------------------------------------------------------

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with open_warehouse(self.folders) as connection:
            return connection.execute(sql).fetchall()

    def content(self, without: tuple[str, str] = ("", "")) -> Content:
        """Rows and hash of every table about companies but one, whenever and by whichever run they were fetched."""
        with open_warehouse(self.folders) as connection:
            return {table: _hash(connection, table, without) for table in _TABLES}

    def ledger(self) -> dict[str, Any]:
        """What the sandbox was asked and has charged."""
        return self.service.ledger(summary=True)["summary"]

    def requests(self) -> int:
        """How many requests the sandbox received."""
        return int(self.ledger()["requests"])

    def strays(self) -> list[Path]:
        """What a crash may leave and the next run must clear away."""
        return [path for path in self.data.rglob("*") if ".part" in path.name or path.name.startswith(".verify-")]


def wait_until(condition: Callable[[], Any], seconds: float = 60, what: str = "it", pause: float = 0.02) -> Any:
    """Poll until a condition holds; gives what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
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


def _hash(connection: Any, table: str, without: tuple[str, str]) -> tuple[int, str]:
    row_hash = f"hash({', '.join(c.name for c in TABLES[table].columns if c.name not in _VARIES)})"
    sql = f"SELECT count(*), bit_xor({row_hash}), sum({row_hash}::HUGEINT) FROM {table}"
    sql = f"{sql} WHERE (country, company_number) <> (?, ?)"
    count, mixed, total = connection.execute(sql, without).fetchall()[0]
    return count, f"{mixed}/{total}"
