"""Commands that look: status, query, report, company."""

from __future__ import annotations

from pathlib import Path

import click

from firmlake.cli.call import Call, command
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED
from firmlake.core.sample import SAMPLE_SETTINGS
from firmlake.core.steps import utc_now
from firmlake.terminal.echo import echo

__all__ = ["company", "query", "report", "status"]


@click.command()
@click.option("--metrics", type=click.Path(path_type=Path), metavar="FILE", help="Write it as OpenMetrics text too.")
@command
def status(call: Call, metrics: Path | None) -> None:
    """Show the last run, what runs now, what is unfinished or parked and why, and what to do next."""
    from firmlake.core.files import write_file
    from firmlake.core.run import Folders
    from firmlake.report.metrics import render_metrics
    from firmlake.report.status import read_status
    from firmlake.terminal.status import show_status

    found = read_status(Folders.of(call.settings()))
    if metrics:
        text = render_metrics(found).encode()
        write_file(metrics, lambda aside: aside.write_bytes(text))
    call.answer(found, lambda: show_status(found, utc_now()))


@click.command()
@click.argument("sql")
@click.option("--allow-files", is_flag=True, help="Let SQL read and write files, and load extensions.")
@command
def query(call: Call, sql: str, allow_files: bool) -> None:
    """Ask the newest generation of the warehouse, in DuckDB's SQL; it is read-only.

    SQL reaches nothing else, so that a question from elsewhere can neither read a file nor write one.
    """
    from firmlake.core.run import Folders
    from firmlake.terminal.runs import show_query
    from firmlake.warehouse.generations import ask

    columns, rows = ask(Folders.of(call.settings()), sql, locked=not allow_files)
    call.answer([dict(zip(columns, row, strict=True)) for row in rows], lambda: show_query(columns, rows))


@click.command()
@click.option(
    "--to", "path", type=click.Path(path_type=Path), help="File to write; else report.html in the data folder."
)
@command
def report(call: Call, path: Path | None) -> None:
    """Write one HTML file to look at: runs and cost, coverage, changes, health, groups, findings."""
    from firmlake.core.run import Folders
    from firmlake.report.page import write_report

    settings = call.settings()
    memory = settings.run.duckdb_memory
    path, _ = write_report(Folders.of(settings), utc_now(), path, memory_limit=memory)
    call.answer({"report": str(path)}, lambda: echo(str(path)))


@click.command()
@click.argument("country", type=click.Choice(["BE", "NL", "FR"], case_sensitive=False))
@click.argument("company_number")
@click.option("--dataset", "datasets", multiple=True, type=click.Choice(["financials", "lookalikes", "relationships"]))
@click.option("--sandbox", "is_demo", is_flag=True, help="Ask the embedded service.")
@command
def company(call: Call, country: str, company_number: str, datasets: tuple[str, ...], is_demo: bool) -> int:
    """Ask the service for one company, and publish and print what it says. Costs a credit outside its paid window.

    The answers land in the data folder and count like those of any run; --sandbox uses the data folder of the demo.
    """
    from firmlake.enrich import lookup
    from firmlake.terminal.runs import show_company

    demo = {key.replace(".", "__"): value for key, value in SAMPLE_SETTINGS.items()} if is_demo else {}
    settings = call.settings(**demo)
    wanted = lookup.read_company(country.upper(), company_number)
    found = lookup.fetch_company(settings, wanted, datasets or settings.run.datasets)
    call.answer(lookup.as_content(found), lambda: show_company(found))
    if found.shortfall:
        call.say(f"firmlake: {found.shortfall}")
        return found.shortfall.exit_code
    return EXIT_DONE if found.is_found else EXIT_SOME_FAILED
