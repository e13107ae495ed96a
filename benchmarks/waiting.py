"""`python -m benchmarks.waiting`: how long people wait for each query of the cookbook and for each command.

Writes results/waiting.md and .json; sizes that are not measured again stay there. Elapsed seconds are those of the
machine as it is; CPU seconds compare better.

    python -m benchmarks.waiting --companies 10000 100000 1000000 --work /data/waiting
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import duckdb

from benchmarks import service
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
_MEGABYTES = 700
_LIMITS = {"report": 30.0, "verify": 60.0}
_LIST = "sample"

Row = dict[str, Any]
T = TypeVar("T")


class Question(NamedTuple):
    """A query of the cookbook."""

    title: str
    sql: str
    limit: float


def main() -> None:
    """Measure each size, then write the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.waiting", description=__doc__)
    parser.add_argument("--companies", type=int, nargs="*", default=[10_000, 100_000], help="sizes")
    parser.add_argument("--repeat", type=int, default=5, help="times that each query is asked")
    parser.add_argument("--work", type=Path, help="folder that keeps the data of each size, and measures it again")
    parser.add_argument("--name", default="waiting", help="of the result; empty prints it only")
    arguments = parser.parse_args()
    sizes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for count in sorted(arguments.companies):
            folder = (arguments.work or Path(temporary)).absolute() / str(count)
            rows = [*_made(count, folder), *_measure(folder, arguments.repeat)]
            sizes[str(count)] = {"machine": describe_machine(), "repeated": arguments.repeat, "rows": rows}
    if arguments.name:
        path = Path(__file__).parent / "results" / f"{arguments.name}.json"
        known = json.loads(path.read_bytes()) if path.exists() else {}
        sizes = dict(sorted((known | sizes).items(), key=lambda size: int(size[0])))
        path.write_text(json.dumps(sizes, indent=1) + "\n")
        path.with_suffix(".md").write_text(_render(sizes))
    sys.stdout.write(_render(sizes))


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
    company_list = _write_list(folder / f"{_LIST}.csv", count)
    with service.start() as (base_url, _):
        changes = [f"api.base_url={base_url}", "api.requests_per_minute=0", f"paths.data={folder / 'data'}"]
        given = [part for change in changes for part in ("--set", change)]
        run = ["run", str(company_list), "--out", str(folder / "back.csv")]
        yield _command("run LIST --out, first time", [*run, *given], folder)
        yield _command("run LIST --out, nothing to fetch", [*run, *given], folder)
        yield _command("plan LIST", ["plan", str(company_list), *given], folder)


def _write_list(path: Path, count: int) -> Path:
    """Write a list with a name for each company, which queries of the cookbook group by."""
    lines = (f"{country},{number},Segment {at % 50}\n" for at, (country, number) in enumerate(sample_numbers(count)))
    with path.open("w") as file:
        file.writelines(["country,company_number,name\n", *lines])
    return path


def _measure(folder: Path, repeat: int) -> Iterator[Row]:
    """Measure queries and commands over the companies that a folder holds."""
    data = folder / "data"
    warehouse = data / "warehouse" / "firmlake.duckdb"
    busy = _apart(_busy_companies, warehouse)
    for question in _questions(busy):
        try:
            row = _apart(_ask, warehouse, question, repeat)
        except BrokenProcessPool:
            row = {"what": question.title, "failed": "DuckDB crashed"}
        sys.stderr.write(f"{row['what']}: {row.get('failed') or row['cpu']}\n")
        yield row
    country, company = next(iter(busy.values()))
    shutil.rmtree(folder / "export", ignore_errors=True)  # what is there already would not be exported again
    for title, command in {
        "--help": ["--help"],
        "status": ["status"],
        "query, one company": ["query", f"FROM trend WHERE country = '{country}' AND company_number = '{company}'"],
        "changes": ["changes"],
        "list export, CSV": ["list", "export", _LIST, "--out", str(folder / "list-back.csv")],
        "report": ["report", "--to", str(folder / "report.html")],
        "export": ["export", str(folder / "export")],
        "verify --processes 2": ["verify", "--processes", "2"],
    }.items():
        yield _command(title, command if command == ["--help"] else [*command, "--data", str(data)], folder)


def _apart(work: Callable[..., T], *arguments: object) -> T:
    """Do something in a process of its own: one that is started counts the peak memory of this one as its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _questions(busy: dict[tuple[str, str], tuple[str, str]]) -> list[Question]:
    """Read the queries of the cookbook, and ask about the busiest companies instead of the example ones."""
    found = []
    for title, sql in _QUERY.findall((service.ROOT / "docs" / "cookbook.md").read_text("utf-8")):
        asked = sql
        for (_, example), (_, number) in busy.items():
            asked = asked.replace(f"'{example}'", f"'{number}'")
        found.append(Question(title, asked, 0.3 if asked != sql else 2.0))
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
        connection.execute("SET enable_progress_bar = false")
        for _ in range(repeat):
            timer = threading.Timer(_GIVEN_UP_AFTER, connection.interrupt)
            timer.start()
            began, computed = time.perf_counter(), time.process_time()
            try:
                connection.execute(question.sql).fetchall()
            except duckdb.InterruptException:
                return _row(question.title, [_GIVEN_UP_AFTER], [_GIVEN_UP_AFTER], question.limit)
            except duckdb.OutOfMemoryException:
                return {"what": question.title, "failed": f"takes more than {_MEMORY}"}
            finally:
                timer.cancel()
            elapsed.append(time.perf_counter() - began)
            cpu.append(time.process_time() - computed)
    row = _row(question.title, elapsed, cpu, question.limit)
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
    row = _row(
        f"`firmlake {title}`",
        [time.perf_counter() - began],
        [usage.ru_utime + usage.ru_stime],
        _LIMITS.get(arguments[0]),
    )
    sys.stderr.write(f"{row['what']}: {row['p50']:.2f} s\n")
    return row | {"peak_megabytes": _megabytes(usage)}


def _megabytes(usage: resource.struct_rusage) -> int:
    return round(usage.ru_maxrss / 1000)


def _python_path() -> str:
    return os.pathsep.join([str(service.ROOT / "src"), os.environ.get("PYTHONPATH", "")])


def _row(what: str, elapsed: list[float], cpu: list[float], limit: float | None) -> Row:
    elapsed, cpu = sorted(elapsed), sorted(cpu)
    return {
        "what": what,
        "limit": limit,
        "p50": round(elapsed[len(elapsed) // 2], 4),
        "p95": round(elapsed[int(len(elapsed) * 0.95)], 4),
        "cpu": round(cpu[len(cpu) // 2], 4),
    }


def _render(sizes: dict[str, Any]) -> str:
    lines = [
        "Elapsed seconds, then CPU seconds (median) and the peak memory of a process. Queries about one company ask "
        "about the one with most owners and holdings; DuckDB may use "
        + _MEMORY
        + " for them. **Bold**: more CPU seconds than "
        "0.3 for one company, 2 for the portfolio, 30 for the report or 60 for verify, or more than 700 MB.",
        "",
    ]
    for count, size in sizes.items():
        machine = size["machine"]
        first = next(row["first"] for row in size["rows"] if "first" in row)
        lines.append(
            f"- {int(count):,} companies: {machine['cpu']}, {machine['cores']} cores; {machine['measured_at']}, commit "
            f"{machine['commit']}. Each query {size['repeated']} times, each command once. First query: {first:.2f} s."
        )
    lines += [
        "",
        "| what |" + "".join(f" {int(count):,}: p50 | p95 | CPU | MB |" for count in sizes),
        "|---|" + "---:|---:|---:|---:|" * len(sizes),
    ]
    by_title = [{row["what"]: row for row in size["rows"]} for size in sizes.values()]
    for title in dict.fromkeys(title for rows in by_title for title in rows):
        lines.append(f"| {title} |" + "".join(_cells(rows.get(title)) for rows in by_title))
    return "\n".join(lines) + "\n"


def _cells(row: Row | None) -> str:
    """Write the cells of a query or command at one size; empty if it was not measured."""
    if row is None or "failed" in row:
        return f" {row['failed'] if row else ''} | | | |"
    cpu = f"{row['cpu']:.2f}" if row["cpu"] < _GIVEN_UP_AFTER or row["limit"] is None else f"over {_GIVEN_UP_AFTER:.0f}"
    megabytes = row.get("peak_megabytes", 0)
    return (
        f" {row['p50']:.2f} | {row['p95']:.2f} | {_bold(cpu, row['limit'] and row['cpu'] > row['limit'])} |"
        f" {_bold(str(megabytes), megabytes > _MEGABYTES)} |"
    )


def _bold(text: str, is_bold: object) -> str:
    return f"**{text}**" if is_bold else text


if __name__ == "__main__":
    main()
