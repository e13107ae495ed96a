"""`python -m benchmarks.waiting`: how long people wait for each query of the cookbook and for each command.

Writes results/waiting.md and .json. Elapsed seconds are those of the machine as it is; CPU seconds compare better.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from benchmarks import service
from benchmarks.lists import write_companies
from benchmarks.machine import describe_machine
from firmlake_sandbox.numbers import sample_numbers

_QUERY = re.compile(r"^### (.*?)\n.*?```sql\n(.*?)```", re.S | re.M)
_EXAMPLES = ("BE", "0403227515"), ("FR", "356000000"), ("NL", "33011433")
"""Companies of the sample world that the cookbook asks about."""
_BUSY = """
    SELECT company_number FROM relationships JOIN latest_accounts USING (country, company_number)
    WHERE country = ? GROUP BY company_number ORDER BY count(*) DESC, company_number LIMIT 1
"""
"""The company of a country with the most owners and holdings, whose answers take longest."""
_GIVEN_UP_AFTER = 60.0
_MEMORY = "512MB"
_LIST = "sample"

Row = dict[str, Any]


class Question(NamedTuple):
    """A query of the cookbook."""

    title: str
    sql: str
    is_about_one: bool


def main() -> None:
    """Measure each size, then write the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.waiting", description=__doc__)
    parser.add_argument("--companies", type=int, nargs="*", default=[10_000, 100_000], help="sizes")
    parser.add_argument("--repeat", type=int, default=5, help="times that each query is asked")
    parser.add_argument("--work", type=Path, help="folder that keeps the data of each size, and measures it again")
    parser.add_argument("--name", default="waiting", help="of the result; empty prints it only")
    arguments = parser.parse_args()
    measured = {}
    with tempfile.TemporaryDirectory() as temporary:
        for count in sorted(arguments.companies):
            folder = (arguments.work or Path(temporary)).absolute() / str(count)
            measured[count] = [*_made(count, folder), *_measure(folder, arguments.repeat)]
    result = {"machine": describe_machine(), "repeated": arguments.repeat, "measured": measured}
    table = _render(result)
    sys.stdout.write(table)
    if arguments.name:
        path = Path(__file__).parent / "results" / arguments.name
        path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        path.with_suffix(".md").write_text(table)


# ---------------------------------------------------------------------------------------------------------------------


def _made(count: int, folder: Path) -> list[Row]:
    """Fetch so many companies, unless the folder holds them already; returns what that took."""
    rows = folder / "made.json"
    if not rows.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rows.write_text(json.dumps(list(_make(count, folder))))
    made: list[Row] = json.loads(rows.read_bytes())
    return made


def _make(count: int, folder: Path) -> Iterator[Row]:
    company_list = write_companies(folder / f"{_LIST}.csv", sample_numbers(count))
    with service.start() as (base_url, _):
        changes = [f"api.base_url={base_url}", "api.requests_per_minute=0", f"paths.data={folder / 'data'}"]
        given = [part for change in changes for part in ("--set", change)]
        run = ["run", str(company_list), "--out", str(folder / "back.csv")]
        yield _command("run LIST --out, first time", [*run, *given], folder)
        yield _command("run LIST --out, nothing to fetch", [*run, *given], folder)
        yield _command("plan LIST", ["plan", str(company_list), *given], folder)


def _measure(folder: Path, repeat: int) -> Iterator[Row]:
    """Measure queries and commands over the companies that a folder holds."""
    data = folder / "data"
    warehouse = data / "warehouse" / "firmlake.duckdb"
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for question in _questions(warehouse):
            row = processes.submit(_ask, warehouse, question, repeat).result()
            sys.stderr.write(f"{row['what']}: {row['p50']:.3f} s, {row['cpu']:.3f} CPU s\n")
            yield row
    country, company = next(iter(_busy_companies(warehouse).values()))
    for title, command in {
        "--help": ["--help"],
        "status": ["status"],
        "query, one company": ["query", f"FROM trend WHERE country = '{country}' AND company_number = '{company}'"],
        "changes": ["changes"],
        "list export, CSV": ["list", "export", _LIST, "--out", str(folder / "list-back.csv")],
        "report": ["report", "--to", str(folder / "report.html")],
        "export": ["export", str(folder / "export")],
        "verify": ["verify"],
    }.items():
        yield _command(title, command if command == ["--help"] else [*command, "--data", str(data)], folder)


def _questions(warehouse: Path) -> list[Question]:
    """Read the queries of the cookbook, and ask about the busiest companies instead of the example ones."""
    found = []
    busy = _busy_companies(warehouse)
    for title, sql in _QUERY.findall((service.ROOT / "docs" / "cookbook.md").read_text("utf-8")):
        asked = sql
        for (_, example), (_, number) in busy.items():
            asked = asked.replace(f"'{example}'", f"'{number}'")
        found.append(Question(title, asked, asked != sql))
    return found


def _busy_companies(warehouse: Path) -> dict[tuple[str, str], tuple[str, str]]:
    with duckdb.connect(warehouse, read_only=True) as connection:
        return {
            (country, example): (country, connection.execute(_BUSY, [country]).fetchall()[0][0])
            for country, example in _EXAMPLES
        }


def _ask(warehouse: Path, question: Question, repeat: int) -> Row:
    """Ask a query several times on one connection of a process of its own, as `firmlake query` would once."""
    elapsed, cpu = [], []
    with duckdb.connect(warehouse, read_only=True, config={"memory_limit": _MEMORY}) as connection:
        for _ in range(repeat):
            timer = threading.Timer(_GIVEN_UP_AFTER, connection.interrupt)
            timer.start()
            began, computed = time.perf_counter(), time.process_time()
            try:
                connection.execute(question.sql).fetchall()
            except duckdb.InterruptException:
                return _row(question.title, [_GIVEN_UP_AFTER], [_GIVEN_UP_AFTER], question.is_about_one)
            finally:
                timer.cancel()
            elapsed.append(time.perf_counter() - began)
            cpu.append(time.process_time() - computed)
    row = _row(question.title, elapsed, cpu, question.is_about_one)
    return row | {"first": elapsed[0], "peak_megabytes": _megabytes(resource.getrusage(resource.RUSAGE_SELF))}


def _command(title: str, arguments: list[str], folder: Path) -> Row:
    """Run a command of firmlake once; CPU and memory are those of its process and its children."""
    environment = {**service.ENVIRONMENT, "FIRMLAKE_API_TOKEN": service.TOKEN, "PYTHONPATH": _python_path()}
    began = time.perf_counter()
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "firmlake", *arguments], cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"firmlake {' '.join(arguments)}: {(folder / 'output.txt').read_text()[-2000:]}")
    row = _row(f"`firmlake {title}`", [time.perf_counter() - began], [usage.ru_utime + usage.ru_stime], None)
    sys.stderr.write(f"{row['what']}: {row['p50']:.2f} s\n")
    return row | {"peak_megabytes": _megabytes(usage)}


def _megabytes(usage: resource.struct_rusage) -> int:
    return round(usage.ru_maxrss / 1000)


def _python_path() -> str:
    return os.pathsep.join([str(service.ROOT / "src"), os.environ.get("PYTHONPATH", "")])


def _row(what: str, elapsed: list[float], cpu: list[float], is_about_one: bool | None) -> Row:
    elapsed, cpu = sorted(elapsed), sorted(cpu)
    return {
        "what": what,
        "limit": {True: 0.3, False: 2.0, None: None}[is_about_one],
        "p50": round(elapsed[len(elapsed) // 2], 4),
        "p95": round(elapsed[int(len(elapsed) * 0.95)], 4),
        "cpu": round(cpu[len(cpu) // 2], 4),
    }


def _render(result: dict[str, Any]) -> str:
    machine, measured = result["machine"], result["measured"]
    first = ", ".join(
        f"{row['first']:.2f} s at {count:,}" for count, rows in measured.items() for row in rows if "first" in row
    )
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores; {machine['measured_at']}, commit {machine['commit']}. Each query "
        f"{result['repeated']} times, each command once; elapsed seconds, then CPU seconds (median). Queries about "
        "one company ask about the one with most owners and holdings. **Bold**: CPU above 0.3 s for one company, or "
        f"2 s for the portfolio. First query after a load: {first}.",
        "",
        "| what |" + "".join(f" {count:,}: p50 | p95 | CPU | MB |" for count in measured),
        "|---|" + "---:|---:|---:|---:|" * len(measured),
    ]
    for rows in zip(*measured.values(), strict=True):
        cells = "".join(
            f" {row['p50']:.2f} | {row['p95']:.2f} | {_cpu(row)} | {row.get('peak_megabytes', '')} |" for row in rows
        )
        lines.append(f"| {rows[0]['what']} |{cells}")
    return "\n".join(lines) + "\n"


def _cpu(row: Row) -> str:
    text = f"{row['cpu']:.2f}" if row["cpu"] < _GIVEN_UP_AFTER else f"over {_GIVEN_UP_AFTER:.0f}"
    return f"**{text}**" if row["limit"] and row["cpu"] > row["limit"] else text


if __name__ == "__main__":
    main()
