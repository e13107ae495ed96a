"""One company on one page, from what the warehouse holds: figures, peers, owners, changes, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, UsageError, first_line
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.report.alerts import alert_row, read_alerts
from firmlake.report.company_sections import COMPANY, FIGURES, PREPARE, SECTIONS, SOURCES
from firmlake.report.document import Tile, block, document, draw_tiles, sections
from firmlake.report.feed import Event, describe, read_changes
from firmlake.report.numbers import shown_number
from firmlake.report.section import shown_text
from firmlake.warehouse.generations import open_warehouse

__all__ = ["make_company_page", "write_company_page"]


def write_company_page(folders: Folders, company: Company, now: datetime, path: Path, *, memory_limit: str) -> None:
    """Write the page of a company from the newest generation, without a request.

    Args:
        folders: The data folder.
        company: The company.
        now: UTC; shown in the heading.
        path: The HTML file.
        memory_limit: Memory limit of DuckDB, such as "512MB".

    Raises:
        UsageError: The warehouse does not hold the company. The message names the command that fetches it.
        FirmlakeError: Nothing was published yet, a version without views published it, or DuckDB cannot compute a
            figure. The message says what to do.
    """
    try:
        with open_warehouse(folders, locked=True, memory_limit=memory_limit) as connection:
            page = make_company_page(connection, company, now)
    except (duckdb.CatalogException, duckdb.BinderException):
        raise FirmlakeError(
            "The newest generation lacks the views of this version", "`firmlake replay` makes it again"
        ) from None
    except duckdb.Error as error:
        raise FirmlakeError(
            f"No page was written: a figure in it cannot be computed ({first_line(error)})",
            "You can still query the tables with `firmlake query`",
        ) from error
    write_file(path, lambda aside: aside.write_text(page, "utf-8"))


def make_company_page(connection: duckdb.DuckDBPyConnection, company: Company, now: datetime) -> str:
    """Write the page of a company as one HTML document.

    Args:
        connection: A generation.
        company: The company.
        now: UTC; shown in the heading.

    Raises:
        UsageError: The warehouse does not hold the company.
        duckdb.Error: DuckDB cannot compute a figure.
    """
    connection.execute("SET VARIABLE country = ?", [company.country])
    connection.execute("SET VARIABLE number = ?", [company.company_number])
    held = _rows(connection, COMPANY)
    if not held:
        raise UsageError(
            f"The warehouse does not hold {company.country} {company.company_number}",
            f"`firmlake company {company.country} {company.company_number}` fetches it, for a credit",
        )
    head = held[0]
    shown = {name: shown_text(value) for name, value in head.items()}
    text = _HEAD.format(
        **shown | {"name": shown_text(head["name"] or f"{company.country} {company.company_number}")},
        made=f"{now:%d %b %Y, %H:%M} UTC",
        at=f" in <bdi>{shown['place']}</bdi>" if head["place"] else "",
        tiles=draw_tiles(_tiles(_rows(connection, FIGURES))),
    )
    connection.execute(PREPARE)
    events = [_event(event) for event in read_changes(connection, "1970-01-01", company=company)]
    alerts = read_alerts(connection, company, with_closed=True)
    parts = (
        block("Alerts", "Alerts", "Open alerts first, then closed ones.", [alert_row(alert) for alert in alerts])
        if alerts
        else "",
        sections(connection, SECTIONS),
        block("Changes", "Change history", "Changes that runs found, newest first.", events),
        sections(connection, SOURCES),
    )
    return document(f"{head['name'] or company.company_number}, firmlake", text, "\n".join(parts))


# ---------------------------------------------------------------------------------------------------------------------

_HEAD = """<h1><bdi>{name}</bdi></h1>
<p><bdi>{number}</bdi>{at}. Status: {status}. Made {made} from generation {generation}.</p>
{tiles}
"""


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    relation = connection.sql(sql)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def _tiles(found: Sequence[dict[str, Any]]) -> list[Tile]:
    if not found:
        return [Tile("Accounts", "none held")]
    row = found[0]
    note = row["incomparable_because"] or f"accounts to {row['end_date']:%d %b %Y}"
    tone = "bad" if row["incomparable_because"] else ""

    def shown(name: str) -> str:
        value = row[name]
        return "-" if value is None else shown_number(name, value)

    zone = f"zone: {row['zone']}" if row["zone"] else ""
    return [
        Tile("Revenue, annual", shown("revenue_amount"), note, tone),
        Tile("Revenue growth", shown("revenue_growth")),
        Tile("Net margin", shown("net_margin")),
        Tile("Employees", shown("employee_count")),
        Tile("Total assets", shown("total_assets_amount"), note, tone),
        Tile("Equity ratio", shown("equity_fraction")),
        Tile("Health indicator", shown("health_indicator")),
        Tile("Altman's Z''", shown("z"), zone, {"distress": "bad", "safe": "good"}.get(row["zone"] or "", "")),
    ]


def _event(event: Event) -> dict[str, Any]:
    about, change = describe(event)
    kind = event.kind.replace("_", " ")
    return {"found": event.found_at.date() if event.found_at else None, "event": kind, "about": about, "change": change}
