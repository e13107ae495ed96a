"""The commands `status`, `query`, `report` and `company`."""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firmlake.cli.call import PATH, Call, command
from firmlake.cli.options import choose_format, format_and_out, give_result, of_list
from firmlake.core.clock import utc_now
from firmlake.core.errors import EXIT_DONE, EXIT_SOME_FAILED, UsageError
from firmlake.core.sample import SAMPLE_SETTINGS
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    import duckdb

    from firmlake.core.folders import Folders
    from firmlake.core.settings import RunSettings
    from firmlake.report.sections import Section

_SECTION = re.compile(r"(report|company)/\w*")
_FORMATS = ("csv", "json", "parquet", "xlsx", "markdown")
_LIST_ALONE = click.option(
    "--list", "company_list", default="", metavar="NAME",
    help="Only the companies of this list, and groups with one of them; percentiles, ranks and totals count no others.",
)  # fmt: skip
"""For queries and the report: all tables then hold only these companies."""


@click.command()
@of_list
@click.option(
    "--metrics", type=PATH, metavar="FILE", help="Write the status to this file as OpenMetrics text, and print nothing."
)
@command
def status(call: Call, company_list: str, metrics: Path | None) -> None:
    """Show the last run, what is running, what is unfinished or incomplete and why, and what to do next."""
    from firmlake.api.service import key_of
    from firmlake.core.files import write_file
    from firmlake.report.metrics import render_metrics
    from firmlake.report.status import read_status
    from firmlake.terminal.status import show_status

    settings, folders = call.on_folder()
    found = read_status(folders, company_list, settings.run, key=key_of(settings))
    if metrics:
        text = render_metrics(found).encode()
        mode = 0o600
        with suppress(OSError):  # if there is no file yet, keep the default
            mode = stat.S_IMODE(metrics.stat().st_mode)

        def write(aside: Path) -> None:
            aside.write_bytes(text)
            aside.chmod(mode)  # keep it readable for the collector, which may be another user

        write_file(metrics, write, folders.readers)
        if not call.as_json:
            return
    call.answer(found, lambda: show_status(found, utc_now()))


@click.command()
@click.argument("sql")
@format_and_out(*_FORMATS)
@_LIST_ALONE
@click.option("--held", is_flag=True, help="Query the generation that a gate holds back.")
@click.option("--allow-files", is_flag=True, help="Let SQL read and write files, and load extensions.")
@command
def query(
    call: Call, sql: str, kind: str | None, out: Path | None, company_list: str, held: bool, allow_files: bool
) -> None:
    """Query the newest generation of the warehouse with DuckDB SQL, read-only.

    Without --allow-files, SQL can reach nothing but the warehouse: a query that you got from somebody else can neither
    read nor write a file.

    --out FILE writes .csv, .json, .parquet, .xlsx or .md, whole or not at all. A workbook has the number formats of the
    columns, and text that a spreadsheet would run as a formula stays text.

    Instead of SQL, name a section of the report, such as report/grew_most, or of a company's page, such as
    "company/owners BE 0403227515". `firmlake query report/` lists them.
    """
    from firmlake.core.text import count_of
    from firmlake.report.sections import find_section
    from firmlake.terminal.results import BINARY_FORMATS, show_result, write_binary
    from firmlake.warehouse.generations import asking, find_held

    kind = choose_format(kind, out, call.as_json, _FORMATS)
    if kind in BINARY_FORMATS and not out:
        raise UsageError(f"{kind} is binary and cannot be printed", "Add --out FILE")
    settings, folders = call.on_folder()
    if held and not find_held(folders):
        raise UsageError("No generation is held back", "Query the published one without --held")
    name, _, company = sql.strip().partition(" ")
    section = find_section(name) if _SECTION.fullmatch(name) else None
    sql = section.sql if section else sql
    with asking(folders, sql, locked=not allow_files, company_list=company_list, with_held=held) as connection:
        if section:
            _prepare(connection, section, company, folders, company_list, settings.run)
        if kind in BINARY_FORMATS and out:
            count = write_binary(out, kind, connection, sql)
            call.answer({"rows": count, "file": str(out)}, lambda: call.say(f"{count_of(count, 'row')} in {out}"))
            return
        give_result(call, "row", connection.execute(sql), kind, out, show_result)


def _prepare(
    connection: duckdb.DuckDBPyConnection,
    section: Section,
    company: str,
    folders: Folders,
    company_list: str,
    run: RunSettings,
) -> None:
    """Make what a section reads. Its page is about one company, or it falls due by the settings of runs."""
    from firmlake.intake.identifiers import read_named_company
    from firmlake.report.sections import SectionTables
    from firmlake.report.status import read_status

    page = section.name.partition("/")[0]
    if bool(company) != (page == "company"):
        subject, example = ("one company", " BE 0403227515") if page == "company" else ("all companies", "")
        raise UsageError(f"{section.name} is about {subject}", f"Ask `firmlake query '{section.name}{example}'`")
    bill = read_status(folders, company_list, run).bill if "due" in section.sql else None
    asked = read_named_company(company) if company else None
    SectionTables(connection, page, company=asked, dues=bill.days if bill else ()).prepare(section.sql)


@click.command()
@click.option("--to", "path", type=PATH, help="File to write. Default: report.html in the data folder.")
@_LIST_ALONE
@command
def report(call: Call, path: Path | None, company_list: str) -> None:
    """Write a report as one HTML file: the portfolio in charts, movers, changes, groups, findings, runs and cost."""
    from firmlake.report.page import write_report

    settings, folders = call.on_folder()
    memory = settings.run.duckdb_memory
    path, _ = write_report(folders, utc_now(), path, memory_limit=memory, company_list=company_list, run=settings.run)
    call.answer({"report": str(path)}, lambda: echo(str(path)))


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="COUNTRY NUMBER")
@click.option(
    "--dataset", "datasets", multiple=True, type=click.Choice(["financials", "lookalikes", "relationships"]),
    help="Fetch only this dataset; repeatable. Default: run.datasets.",
)  # fmt: skip
@click.option(
    "--page",
    type=PATH,
    metavar="FILE",
    help="Write what the warehouse holds about the company to an HTML file; fetch nothing.",
)
@click.option("--sandbox", "is_demo", is_flag=True, help="Use the embedded service.")
@command
def company(call: Call, words: tuple[str, ...], datasets: tuple[str, ...], page: Path | None, is_demo: bool) -> int:
    """Fetch one company, such as BE 0403227515, publish its data and print it. Costs at most one credit.

    The answers are stored in the data folder like those of any run; --sandbox uses the data folder of the demo. With
    --page, nothing is fetched. The page shows figures over ten years, peers, owners, changes, and the origin of each
    figure.
    """
    from firmlake.core.folders import Folders
    from firmlake.enrich import lookup
    from firmlake.intake.identifiers import read_named_company
    from firmlake.terminal.runs import show_company

    settings = call.settings(SAMPLE_SETTINGS if is_demo else {})
    wanted = read_named_company(" ".join(words))
    if page:
        from firmlake.report.page import write_company_page

        write_company_page(Folders.existing(settings), wanted, utc_now(), page, memory_limit=settings.run.duckdb_memory)
        call.answer({"page": str(page)}, lambda: echo(str(page)))
        return EXIT_DONE
    found = lookup.fetch_company(settings, wanted, datasets or settings.run.datasets)
    call.answer(lookup.as_content(found), lambda: show_company(found))
    if found.shortfall:
        call.say(f"firmlake: {found.shortfall}")
        return found.shortfall.exit_code
    return EXIT_DONE if found.is_found else EXIT_SOME_FAILED
