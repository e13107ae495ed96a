"""The report and the page of a company: HTML made from the newest generation, without network or script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, UsageError, first_line
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.sql import fetch_dicts
from firmlake.core.text import count_of
from firmlake.report.bill import Day
from firmlake.report.causes import find_doubts
from firmlake.report.feed import alert_row, count_alerts, read_alerts
from firmlake.report.render import MINUS, Part, Tile, draw_alerts, draw_section, render_page, shown_change, shown_number
from firmlake.report.sections import SectionTables, read_sections
from firmlake.report.status import read_status
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.incomplete import describe_service

_ALERTS = "The most severe and newest first; `firmlake alerts` lists all of them."
_ALERTS_MAX = 12

_LABELS = {
    "companies": ("Companies", 0),
    "with_accounts": ("With accounts", 0),
    "revenue_amount": ("Annual revenue, newest accounts", 1),
    "employees": ("Employees", 1),
    "growth": ("Revenue growth, median", 1),
    "equity_fraction": ("Equity ratio, median", 1),
    "distress": ("In distress (Altman)", -1),
    "negative_equity": ("Negative equity", -1),
}
"""Name of each figure, and whether more is better (1), worse (-1) or neither (0)."""

_COMPANY_TILES = {
    "revenue_amount": "Revenue, annual",
    "revenue_growth": "Revenue growth",
    "net_margin": "Net margin",
    "employee_count": "Employees",
    "total_assets_amount": "Total assets",
    "equity_fraction": "Equity ratio",
    "health_indicator": "Health indicator",
    "z": "Altman's Z''",
}


def write_report(
    folders: Folders,
    now: datetime,
    path: Path | None = None,
    *,
    memory_limit: str,
    company_list: str = "",
    run: RunSettings | None = None,
) -> Path:
    """Write the report on the newest generation, and return its file.

    A section that needs more memory than `memory_limit` is replaced by a note.

    Args:
        now: UTC.
        path: None writes report.html into the data folder.
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
    with (
        _explained("report"),
        open_warehouse(folders, locked=True, memory_limit=memory_limit, company_list=company_list) as connection,
    ):
        html = make_report(connection, now, bill.days if bill else (), company_list)
    write_file(path, lambda aside: aside.write_text(html, "utf-8"), folders.readers)
    return path


def make_report(
    connection: duckdb.DuckDBPyConnection, now: datetime, dues: Iterable[Day] = (), company_list: str = ""
) -> str:
    """Write the report on an open generation as one HTML document, which loads nothing.

    Names come from outside, so they are escaped and isolated from the text around them. The generation is restricted to
    `company_list` if that is not empty. `now` (UTC) is shown in the heading, as the list is; `dues` are `Bill.days`.

    Raises:
        FirmlakeError: The generation holds no run, or lacks the views of this version. The message says what to do.
        duckdb.Error: DuckDB cannot compute a figure.
    """
    tables = SectionTables(connection, "report", dues=dues)
    first, *sections = read_sections("report")
    try:
        tables.prepare("FROM last_run")
        tables.prepare(first.sql)
        figures = _report_tiles({row["side"]: row for row in fetch_dicts(connection.execute(first.sql))})
    except (duckdb.CatalogException, duckdb.BinderException):
        raise _lacks_views() from None
    loads = connection.execute("SELECT generation, run_id FROM loads ORDER BY generation DESC LIMIT 1").fetchall()
    if not loads:
        raise FirmlakeError("The warehouse holds no run yet", "`firmlake run LIST` fetches one")
    generation, load_id = loads[0]
    ((last_run,),) = connection.execute("SELECT run_id FROM last_run").fetchall()
    counts = count_alerts(connection, last_run, whole_day=True)
    if counts:
        tone = "bad" if counts.opened else ""
        figures[1] = Tile(
            "Open alerts", f"{counts.open:,}", f"{counts.opened:,} opened on the day of the last run", tone
        )
    parts: list[Part] = []
    for section in sections:
        if section.chapter != "Alerts":
            parts.append(draw_section(connection, tables, section))
        elif counts:
            rows = [alert_row(alert, with_company=True) for alert in read_alerts(connection, limit=_ALERTS_MAX)]
            parts.append(draw_alerts("Open alerts", _ALERTS, rows, counts.open))
            parts.append(draw_section(connection, tables, section))
    title = f"firmlake report, generation {generation}{f', {company_list}' if company_list else ''}"
    return render_page(
        "report.html", title, parts, company_list=company_list, made=f"{now:%d %b %Y, %H:%M} UTC",
        generation=generation, run_id=load_id, service=describe_service(connection),
        figures=figures, doubts=map(str, find_doubts(connection, last_run)),
    )  # fmt: skip


def write_company_page(folders: Folders, company: Company, now: datetime, path: Path, *, memory_limit: str) -> None:
    """Write the page of a company from the newest generation, without a request. `now` (UTC) is shown in the heading.

    Raises UsageError if the warehouse does not hold the company, and FirmlakeError as `write_report`.
    """
    with _explained("page"), open_warehouse(folders, locked=True, memory_limit=memory_limit) as connection:
        page = make_company_page(connection, company, now)
    write_file(path, lambda aside: aside.write_text(page, "utf-8"))


def make_company_page(connection: duckdb.DuckDBPyConnection, company: Company, now: datetime) -> str:
    """Write the page of a company as one HTML document. `now` (UTC) is shown in the heading.

    Raises UsageError if the warehouse does not hold the company, and duckdb.Error if a figure cannot be computed.
    """
    tables = SectionTables(connection, "company", company=company)
    figures, *sections = read_sections("company")
    found = fetch_dicts(connection.execute(figures.sql))
    if not found:
        raise UsageError(
            f"The warehouse does not hold {company}", f"`firmlake company {company}` fetches it, for a credit"
        )
    head = found[0] | {"name": found[0]["name"] or str(company)}
    alerts = [alert_row(alert) for alert in read_alerts(connection, company, with_closed=True)]
    parts = [draw_alerts("Alerts", "Open alerts first, then closed ones.", alerts)] if alerts else []
    parts += [draw_section(connection, tables, section) for section in sections]
    title = f"{found[0]['name'] or company.company_number}, firmlake"
    return render_page(
        "company.html", title, parts, service=describe_service(connection), made=f"{now:%d %b %Y, %H:%M} UTC",
        figures=_company_tiles(head), **head,
    )  # fmt: skip


def _report_tiles(sides: dict[str, dict[str, Any]]) -> list[Tile]:
    """Write each figure as a tile: of how many companies it is, and its change since the earlier run."""
    now, before, after = (sides.get(side, {}) for side in ("now", "before", "after"))
    tiles = []
    for name, (label, better) in _LABELS.items():
        notes, is_compared = _left_out(name, now), before.get(name) is not None and after.get(name) is not None
        change = shown_change(name, before[name], after[name]) if is_compared else ""
        if is_compared:
            notes.append(f"{change} since {now['compared_with']:%d %b %Y}" if change else "unchanged")
        tone = ("bad" if change.startswith(MINUS) == (better > 0) else "good") if change and better else ""
        tiles.append(Tile(label, "-" if now[name] is None else shown_number(name, now[name]), ", ".join(notes), tone))
    return tiles


def _left_out(name: str, now: dict[str, Any]) -> list[str]:
    """Say which companies a figure is of."""
    if name == "companies" and now["not_found"]:
        return [f"{now['not_found']:,} of them unknown to the service"]
    if f"{name}_companies" not in now:
        return []
    of = f"of {count_of(now[f'{name}_companies'], 'company')}"
    return [of, f"{now['doubtful']:,} doubtful left out"] if now["doubtful"] else [of]


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Say why a report or page was not written, and what to do."""
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException):
        raise _lacks_views() from None
    except duckdb.Error as error:
        raise FirmlakeError(
            f"No {what} was written: a figure in it cannot be computed ({first_line(error)})",
            "You can still query the tables with `firmlake query`",
        ) from error


def _lacks_views() -> FirmlakeError:
    return FirmlakeError("The newest generation lacks the views of this version", "`firmlake replay` makes it again")


def _company_tiles(row: dict[str, Any]) -> list[Tile]:
    if row["end_date"] is None:
        return [Tile("Accounts", "none held")]
    note = row["incomparable_because"] or f"accounts to {row['end_date']:%d %b %Y}"
    tone = "bad" if row["incomparable_because"] else ""
    figures = {name: "-" if row[name] is None else shown_number(name, row[name]) for name in _COMPANY_TILES}
    zone = f"zone: {row['zone']}" if row["zone"] else ""
    about = {
        "revenue_amount": (note, tone),
        "total_assets_amount": (note, tone),
        "z": (zone, {"distress": "bad", "safe": "good"}.get(row["zone"] or "", "")),
    }
    return [Tile(label, figures[name], *about.get(name, ())) for name, label in _COMPANY_TILES.items()]
