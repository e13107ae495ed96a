"""What is measured, as data, and how: each piece in a process of its own, one after the other, verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks import service
from benchmarks.answers import POOL, Answers, expected_totals
from benchmarks.lists import write_companies, write_mixed
from firmlake_sandbox.numbers import sample_numbers

__all__ = ["PEERS", "SCENARIOS", "Bench", "WrongError"]

Facts = dict[str, Any]

_SHARD = 5_000
_AT_ONCE = 100
"""Companies of a shard and of a request, by default."""


def _first_plan(count: int, _: Facts) -> Facts:
    """Say what a plan must come to before anything is held."""
    shards = [min(_SHARD, count - start) for start in range(0, count, _SHARD)]
    request_count = sum(ceil(size / _AT_ONCE) for size in shards)
    requests = {"lookalikes": request_count, "relationships": request_count}
    return {"target_count": 3 * count, "credit_count": count, **requests}


def _plan(count: int, tables: Facts) -> Facts:
    """Say what it must come to when all are asked for again: who was found is paid for."""
    return {**_first_plan(count, tables), "credit_count": tables["not_found"]}


def _list_back(count: int, tables: Facts) -> Facts:
    """Say what a list must come back with: every line, each with the figures of its company."""
    return {"lines": count, "companies": count, "not_found": tables["not_found"]}


class Scenario(NamedTuple):
    """One kind of measurement of firmlake.

    Attributes:
        piece: Of `benchmarks.pieces`.
        facts: What must come of it, by the number of companies and what tables must hold of them.
        week: Of the service's answers.
        dialect: Of the service's records.
        is_apart: Has a data folder of its own; the others go on with that of `run`.
    """

    piece: str
    facts: Callable[[int, Facts], Facts] = lambda _, tables: tables
    week: int = 0
    dialect: str = ""
    is_apart: bool = False


SCENARIOS = {
    "first-plan": Scenario("plan", _first_plan, is_apart=True),
    "prefect": Scenario("prefect", is_apart=True),
    "run": Scenario("run"),
    "plan": Scenario("plan", _plan),
    "export": Scenario("export"),
    **{f"list-{ending}": Scenario(f"list-{ending}", _list_back) for ending in ("csv", "parquet", "xlsx")},
    "load-duckdb": Scenario("load-duckdb"),
    **({"load-postgres": Scenario("load-postgres")} if "BENCHMARK_POSTGRES" in os.environ else {}),
    "report": Scenario("report", lambda count, _: {"companies": count}),
    "replay": Scenario("replay"),
    "replay2": Scenario("replay2"),
    "weekly": Scenario("run", week=1),
    **{
        dialect: Scenario("run", dialect=dialect, is_apart=True)
        for dialect in ("nulls-omitted", "fields-added", "numbers-as-text")
    },
}
"""In the order in which they are measured; `intake` has a list of its own: see `Bench.intake`."""

PEERS = {"plain": "plain.py", "dlt": "with_dlt.py", "airbyte": "with_airbyte.py"}
_HERE = Path(__file__).parent


class WrongError(Exception):
    """What a run made is not what the company numbers say it must."""


class Bench:
    """Measures, and keeps what it measured.

    Args:
        work: Folder for lists and data.
        environments: Folder with a virtual environment for each peer.
        pool: Different companies of the service.
        say: Gets a line for each measurement.
    """

    def __init__(
        self, work: Path, environments: Path, pool: int = POOL, say: Callable[[str], object] = lambda line: None
    ) -> None:
        self._work = work
        self._pool = pool
        self._environments = environments
        self._say = say
        self.measured: list[dict[str, Any]] = []

    def round(self, count: int, scenarios: Sequence[str], peers: Sequence[str]) -> None:
        """Measure `run` and these once over the first so many companies of the sandbox's sample."""
        companies = sample_numbers(count)
        company_list = write_companies(self._work / f"{count}.csv", companies)
        wanted = {name: SCENARIOS[name] for name in SCENARIOS if name in ("run", *scenarios)}
        for dialect, week in sorted({(scenario.dialect, scenario.week) for scenario in wanted.values()}):
            chosen = {name: each for name, each in wanted.items() if (each.dialect, each.week) == (dialect, week)}
            tables: Facts = msgspec.to_builtins(expected_totals(Answers(self._pool, week, dialect), companies))
            with service.start(pool=self._pool, week=week, dialect=dialect) as (base_url, pid):
                arguments = ["--list", str(company_list), "--base-url", base_url]
                for peer in peers if (dialect, week) == ("", 0) else []:
                    command = [str(_environment(self._environments, peer)), str(_HERE / "peers" / PEERS[peer])]
                    self._measure(peer, "run", count, [*command, *arguments], tables, pid, is_apart=True)
                for name, scenario in chosen.items():
                    command, facts = [*_piece(scenario), *arguments], scenario.facts(count, tables)
                    self._measure("firmlake", name, count, command, facts, pid, scenario.is_apart)
        shutil.rmtree(self._work / "data", ignore_errors=True)

    def intake(self, count: int) -> None:
        """Read a list of so many lines, with repaired, refused, repeated and blank ones among them."""
        company_list = self._work / "mixed.csv"
        facts = write_mixed(company_list, count)
        command = [*_piece(Scenario("intake")), "--list", str(company_list)]
        self._measure("firmlake", "intake", count, command, facts, None, is_apart=True)
        company_list.unlink()

    def _measure(
        self, who: str, what: str, count: int, command: list[str], facts: Facts, service_pid: int | None, is_apart: bool
    ) -> None:
        data = self._work / (f"{who}-{what}" if is_apart else "data")
        data.mkdir(exist_ok=True)
        before = service.cpu_seconds(service_pid) if service_pid else 0.0
        result = _result([*command, "--data", str(data)])
        if service_pid:
            result["service_cpu_seconds"] = service.cpu_seconds(service_pid) - before
        if is_apart:
            shutil.rmtree(data)
        if (found := result.pop("facts")) != facts:
            raise WrongError(f"{who} {what} over {count}: {found}, where {facts} was right")
        self.measured.append({"who": who, "scenario": what, "count": count, **result})
        stages = " ".join(f"{name} {1000 * of / count:.4f}" for name, of in result.get("stages", {}).items())
        self._say(
            f"{who} {what} {count}: {1000 * result['cpu_seconds'] / count:.4f} CPU s per 1,000, "
            f"{count / result['wall_seconds']:.0f}/s, {result['peak_bytes'] / 1e6:.0f} MB {stages}"
        )


# ---------------------------------------------------------------------------------------------------------------------


def _piece(scenario: Scenario) -> list[str]:
    return [sys.executable, "-m", "benchmarks.measure", scenario.piece]


def _environment(folder: Path, peer: str) -> Path:
    """Give a peer's Python, in an environment of its own that is made once."""
    python = folder / peer / "bin" / "python"
    if not python.exists():
        requirements = _HERE / "peers" / f"requirements-{peer}.txt"
        subprocess.run([sys.executable, "-m", "venv", str(folder / peer)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(requirements)], check=True)
    return python


def _result(command: list[str]) -> dict[str, Any]:
    environment = {
        **service.ENVIRONMENT,
        "BENCHMARK_BEGAN": str(time.time()),
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "RUNTIME__LOG_LEVEL": "CRITICAL",
    }
    process = subprocess.run(command, cwd=service.ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result
