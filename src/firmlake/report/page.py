"""The report: one HTML file that needs no network and no script, made from the newest generation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from firmlake.core.errors import FirmlakeError, first_line
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.report.alert_rows import alert_row
from firmlake.report.alerts import ALERT_RULES, AlertCounts, count_alerts, read_alerts
from firmlake.report.bill import Day
from firmlake.report.document import TOO_LARGE, Tile, block, document, draw_tiles, marked, sections
from firmlake.report.doubts import find_doubts
from firmlake.report.figures import read_figures
from firmlake.report.portfolio import PORTFOLIO
from firmlake.report.section import shown_text
from firmlake.report.sections import COUNT_FINDINGS, PREPARE, SECTIONS
from firmlake.report.status import read_status
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.views import definitions

__all__ = ["Report", "make_report", "write_report"]


class Report(NamedTuple):
    """A report that was written: its path, and the figures at its top by name."""

    path: Path
    tiles: dict[str, Any]


class Made(NamedTuple):
    """A report in memory: its HTML, and the figures at its top."""

    html: str
    tiles: list[Tile]


def write_report(
    folders: Folders,
    now: datetime,
    path: Path | None = None,
    *,
    memory_limit: str,
    company_list: str = "",
    run: RunSettings | None = None,
) -> Report:
    """Write the report on the newest generation.

    A section that needs more memory than `memory_limit` is replaced by a note.

    Args:
        folders: The data folder.
        now: UTC.
        path: The file; None writes report.html into the data folder.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        company_list: Restrict the report to the companies of this list; empty reports on all.
        run: The settings of runs, for the bill of the next four weeks; None leaves it out.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
        FirmlakeError: Nothing was published yet, a version without views published it, or DuckDB cannot compute a
            figure. The message says what to do.
    """
    path = path or folders.data / "report.html"
    bill = read_status(folders, company_list, run, now).bill if run else None
    try:
        with open_warehouse(folders, locked=True, memory_limit=memory_limit, company_list=company_list) as connection:
            page = make_report(connection, now, bill.days if bill else (), company_list)
    except duckdb.Error as error:
        raise FirmlakeError(
            f"No report was written: a figure in it cannot be computed ({first_line(error)})",
            "You can still query the tables with `firmlake query`",
        ) from error
    write_file(path, lambda aside: aside.write_text(page.html, "utf-8"), folders.readers)
    return Report(path, {tile.name: f"{tile.shown} ({tile.note})" if tile.note else tile.shown for tile in page.tiles})


def make_report(
    connection: duckdb.DuckDBPyConnection, now: datetime, dues: Iterable[Day] = (), company_list: str = ""
) -> Made:
    """Write the report on an open generation as one HTML document.

    Args:
        connection: A generation with a run in it, restricted to `company_list` if that is not empty.
        now: UTC; shown in the heading.
        dues: `Bill.days`, for the bill of the next four weeks.
        company_list: Name of the list that the report is about; shown in the heading.

    Returns:
        HTML that loads nothing, and the figures at its top. Names come from outside, so they are escaped and isolated
        from the text around them.

    Raises:
        FirmlakeError: The generation holds no run, or lacks the views of this version. The message says what to do.
        duckdb.Error: DuckDB cannot compute a figure.
    """
    try:
        _prepare(connection)
        for due in dues:
            connection.execute("INSERT INTO due VALUES (?, ?, ?)", [due.day, due.credits, due.free_refreshes])
        tiles = read_figures(connection).tiles()
    except (duckdb.CatalogException, duckdb.BinderException):
        raise FirmlakeError(
            "The newest generation lacks the views of this version", "`firmlake replay` makes it again"
        ) from None
    loads = connection.execute("SELECT generation, run_id FROM loads ORDER BY generation DESC LIMIT 1").fetchall()
    if not loads:
        raise FirmlakeError("The warehouse holds no run yet", "`firmlake run LIST` fetches one")
    generation, run_id = loads[0]
    counts = _count_alerts(connection)
    if counts:
        tone = "bad" if counts.opened else ""
        tiles[1] = Tile("Open alerts", f"{counts.open:,}", f"{counts.opened:,} opened on the day of the last run", tone)
    body = [sections(connection, PORTFOLIO)]
    if counts:
        rows = [alert_row(alert, with_company=True) for alert in read_alerts(connection, limit=_ALERTS_MAX)]
        body += [block("Alerts", "Open alerts", _ALERTS, rows, counts.open), sections(connection, (ALERT_RULES,))]
    head = _HEAD.format(
        of=f": <bdi>{shown_text(company_list)}</bdi>" if company_list else "",
        made=f"{now:%d %b %Y, %H:%M} UTC",
        generation=generation,
        run_id=shown_text(run_id),
        tiles=draw_tiles(tiles),
        doubts=_doubts(connection),
    )
    title = f"firmlake report, generation {generation}{f', {company_list}' if company_list else ''}"
    return Made(document(title, head, "\n".join([*body, sections(connection, SECTIONS)])), tiles)


# ---------------------------------------------------------------------------------------------------------------------

_ALERTS = "The most severe and newest first; `firmlake alerts` lists all of them."
_ALERTS_MAX = 12
_HEAD = """<h1>firmlake report{of}</h1>
<p>Made {made} from generation {generation}, load {run_id}.</p>
{tiles}
<p>Figures of accounts are of the newest accounts, without doubtful ones. A change compares the companies that have the
figure both times; a number of companies counts all.</p>
{doubts}"""


def _prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute once what several sections use. What takes too much memory is computed by each of them, or left out."""
    connection.execute(PREPARE)
    for check in definitions():
        if check.kind == "check":
            values = [check.parameters, check.name]
            try:
                connection.execute(COUNT_FINDINGS.format(check.sql), [*values, check.meaning])
            except duckdb.OutOfMemoryException:
                connection.execute("INSERT INTO found VALUES (?, ?, ?, NULL)", [*values, TOO_LARGE])


def _count_alerts(connection: duckdb.DuckDBPyConnection) -> AlertCounts | None:
    ((run_id,),) = connection.execute("SELECT run_id FROM last_run").fetchall()
    return count_alerts(connection, run_id, whole_day=True)


def _doubts(connection: duckdb.DuckDBPyConnection) -> str:
    """Tell what to look at in the last run."""
    ((run_id,),) = connection.execute("SELECT run_id FROM last_run").fetchall()
    return "".join(f'<p class="doubt">{marked(line)}.</p>\n' for line in find_doubts(connection, run_id))
