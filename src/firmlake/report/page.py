"""The report and the page of a company: HTML made from the newest generation, without network or script."""

# ruff: noqa: S608 - statements are put together from texts of this module

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from firmlake.core.company import Company
from firmlake.core.errors import FirmlakeError, UsageError, first_line
from firmlake.core.files import write_file
from firmlake.core.folders import Folders
from firmlake.core.parts import fetch_dicts
from firmlake.core.settings import RunSettings
from firmlake.core.sql import quote_text
from firmlake.core.text import count_of
from firmlake.report.bill import Day
from firmlake.report.feed import alert_row, count_alerts, read_alerts
from firmlake.report.render import MINUS, Part, Tile, draw_rows, draw_section, render_page, shown_change, shown_number
from firmlake.report.sections import SectionTables, read_sections
from firmlake.report.status import read_status
from firmlake.report.summary import find_doubts
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.views import Definition, definitions

_ALERTS = "The most severe and newest first; `firmlake alerts` lists all of them."
_ALERTS_MAX = 12


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
    with (
        _explained("report"),
        open_warehouse(folders, locked=True, memory_limit=memory_limit, company_list=company_list) as connection,
    ):
        page = make_report(connection, now, bill.days if bill else (), company_list)
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
    tables = SectionTables(connection, "report", dues=dues)
    try:
        tables.prepare("FROM last_run")
        figures = read_figures(connection).tiles()
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
    for section in read_sections("report"):
        if section.chapter != "Alerts":
            parts.append(draw_section(connection, tables, section))
        elif counts:
            rows = [alert_row(alert, with_company=True) for alert in read_alerts(connection, limit=_ALERTS_MAX)]
            parts.append(draw_rows("Alerts", "Open alerts", _ALERTS, rows, counts.open))
            parts.append(draw_section(connection, tables, section))
    title = f"firmlake report, generation {generation}{f', {company_list}' if company_list else ''}"
    html = render_page(
        "report.html", title, parts, company_list=company_list, made=f"{now:%d %b %Y, %H:%M} UTC",
        generation=generation, run_id=load_id, figures=figures, doubts=map(str, find_doubts(connection, last_run)),
    )  # fmt: skip
    return Made(html, figures)


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
    with _explained("page"), open_warehouse(folders, locked=True, memory_limit=memory_limit) as connection:
        page = make_company_page(connection, company, now)
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
    tables = SectionTables(connection, "company", company=company)
    found = fetch_dicts(connection.execute(_COMPANY))
    if not found:
        raise UsageError(
            f"The warehouse does not hold {company}", f"`firmlake company {company}` fetches it, for a credit"
        )
    head = found[0]
    alerts = [alert_row(alert) for alert in read_alerts(connection, company, with_closed=True)]
    parts = [draw_rows("Alerts", "Alerts", "Open alerts first, then closed ones.", alerts)] if alerts else []
    parts += [draw_section(connection, tables, section) for section in read_sections("company")]
    name = head.pop("name")
    return render_page(
        "company.html", f"{name or company.company_number}, firmlake", parts, name=name or company, **head,
        made=f"{now:%d %b %Y, %H:%M} UTC", figures=_company_tiles(fetch_dicts(connection.execute(_COMPANY_FIGURES))),
    )  # fmt: skip


class Figures(NamedTuple):
    """The figures of a portfolio.

    `companies`, `with_accounts` and `doubtful` count companies. The others are of the newest accounts and
    leave out doubtful ones.

    Attributes:
        now: The figures by name, and under `NAME_companies` the number of companies that have the figure.
        before: The same as they stood before the last run; empty if it was the first.
        compared: What a change is measured between: each figure before and now, over the companies that have it both
            times; the numbers of companies as they were and are.
        run_at: When the run before the last ended, UTC; None if there is none.
        not_found: The number of companies that the service does not know.
    """

    now: dict[str, Any]
    before: dict[str, Any]
    compared: dict[str, tuple[Any, Any]]
    run_at: datetime | None
    not_found: int

    def tiles(self) -> list[Tile]:
        """Write each figure as a tile: of how many companies it is, and its change since the run before."""
        return [self._tile(name, label, better) for name, (label, better) in _LABELS.items()]

    def _tile(self, name: str, label: str, better: int) -> Tile:
        value = self.now[name]
        shown = "-" if value is None else shown_number(name, value)
        before, after = self.compared.get(name, (None, None))
        change = shown_change(name, before, after)
        since = [f"{change} since {self.run_at:%d %b %Y}"] if change and self.run_at else []
        unchanged = ["unchanged"] if before is not None and not change else []
        tone = ""
        if change and better:
            tone = "bad" if change.startswith(MINUS) == (better > 0) else "good"
        return Tile(label, shown, ", ".join([*self._left_out(name), *since, *unchanged]), tone)

    def _left_out(self, name: str) -> list[str]:
        """Say which companies a figure is of."""
        if name == "companies" and self.not_found:
            return [f"{self.not_found:,} of them unknown to the service"]
        if name not in _OF_ACCOUNTS:
            return []
        doubtful = self.now["doubtful"]
        of = f"of {count_of(self.now[f'{name}_companies'], 'company')}"
        return [of, f"{doubtful:,} doubtful left out"] if doubtful else [of]


def read_figures(connection: duckdb.DuckDBPyConnection) -> Figures:
    """Read the figures of a generation.

    The portfolio before the last run is that of now, except for the companies whose accounts the run changed: their
    earlier accounts are taken from history, and pass through the same definitions.
    """
    SectionTables(connection, "report").prepare(_EARLIER)
    ((count, not_found),) = connection.execute(_COMPANIES).fetchall()
    now = {"companies": count} | _read_portfolio(connection, "portfolio")
    earlier = connection.execute(_EARLIER).fetchall()
    if not earlier:
        return Figures(now, {}, {}, None, not_found)
    run_id, run_at = earlier[0]
    changed = connection.sql(_CHANGED, params={"run": run_id}).to_arrow_table()
    with connection.cursor() as aside:
        aside.register("changed", changed)
        aside.execute(_FINANCIALS_THEN.replace("$run", quote_text(run_id)))
        for table in _made_at_load("portfolio"):
            aside.execute(f"CREATE TEMP TABLE {table.name} AS {table.sql}")
        then = aside.sql(f"SELECT {_COLUMNS} FROM portfolio").to_arrow_table()
    connection.register("changed", changed)
    connection.register("shown_then", then)
    ((count,),) = connection.execute("SELECT count(*) FROM companies_as_of(?)", [run_id]).fetchall()
    before = {"companies": count} | _read_portfolio(connection, _BEFORE)
    same_before, same_now = (
        _ask(connection, _FIGURES.format(_SAME.format(of=of, other=other)))
        for of, other in ((_BEFORE, "portfolio"), ("portfolio", _BEFORE))
    )
    compared = {name: (before[name], now[name]) for name in ("companies", "with_accounts")}
    compared |= {name: (same_before[name], same_now[name]) for name in _OF_ACCOUNTS}
    return Figures(now, before, compared, run_at, not_found)


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
_OF_ACCOUNTS = {
    "revenue_amount": ("revenue_annual", "sum(revenue_annual)"),
    "employees": ("employee_count", "sum(employee_count)"),
    "growth": ("revenue_growth", "median(revenue_growth::DOUBLE)"),
    "equity_fraction": ("equity_fraction", "median(equity_fraction::DOUBLE)"),
    "distress": ("zone", "count(*) FILTER (zone = 'distress')"),
    "negative_equity": ("equity", "count(*) FILTER (equity < 0)"),
}
"""For each figure of accounts, the column of the portfolio that a company needs to have it, and its SQL."""
_MEASURES = [column for column, _ in _OF_ACCOUNTS.values()]
_COLUMNS = f"country, company_number, is_comparable, {', '.join(_MEASURES)}"
_COMPANIES = """
    SELECT count(*), count(*) FILTER (status = 'not found')
    FROM companies LEFT JOIN company_status USING (country, company_number)
"""
_COUNTS = "SELECT count(*) AS with_accounts, count(*) FILTER (NOT is_comparable) AS doubtful FROM {}"
_FIGURES = f"""
    SELECT {", ".join(f"{sql} AS {name}" for name, (_, sql) in _OF_ACCOUNTS.items())},
        {", ".join(f"count({column}) AS {name}_companies" for name, (column, _) in _OF_ACCOUNTS.items())}
    FROM {{}} WHERE is_comparable
"""
_SAME = f"""(
    SELECT of.is_comparable, {", ".join(f"if(other.{one} IS NULL, NULL, of.{one}) AS {one}" for one in _MEASURES)}
    FROM {{of}} of JOIN {{other}} other USING (country, company_number) WHERE other.is_comparable
)"""
"""One of two portfolios, with only those values that the other has too."""
_BEFORE = f"""(
    SELECT {_COLUMNS} FROM portfolio ANTI JOIN changed USING (country, company_number)
    UNION ALL BY NAME FROM shown_then
)"""
_EARLIER = """
    SELECT run_id, max(finished_at)
    FROM loads JOIN runs USING (run_id)
    WHERE generation < (SELECT min(generation) FROM loads JOIN last_fetch USING (run_id))
    GROUP BY run_id ORDER BY max(generation) DESC LIMIT 1
"""
_CHANGED = """
    SELECT DISTINCT country, company_number FROM (
        SELECT country, company_number, valid_from_run AS run_id FROM financials
        UNION ALL SELECT country, company_number, valid_to_run FROM financials_history
    )
    ANTI JOIN (SELECT run_id FROM runs_as_of($run)) USING (run_id)
"""
_FINANCIALS_THEN = """
    CREATE TEMP TABLE financials AS
    SELECT *, 0 AS position FROM financials_as_of($run) SEMI JOIN changed USING (country, company_number)
"""


_OF_COMPANY = "country = getvariable('country') AND company_number = getvariable('number')"
_COMPANY = f"""
    SELECT name, place, country || ' ' || company_number AS number, status,
        (SELECT max(generation) FROM loads) AS generation
    FROM companies JOIN company_status USING (country, company_number) WHERE {_OF_COMPANY}
"""
_COMPANY_FIGURES = f"""
    SELECT end_date, revenue_annual AS revenue_amount, revenue_growth, net_margin,
        total_assets AS total_assets_amount, equity_fraction, employee_count, health_indicator, z, zone,
        incomparable_because
    FROM portfolio WHERE {_OF_COMPANY}
"""


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


def _company_tiles(found: list[dict[str, Any]]) -> list[Tile]:
    if not found:
        return [Tile("Accounts", "none held")]
    row = found[0]
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


def _made_at_load(name: str) -> list[Definition]:
    """List the tables made at load that a table needs, itself the last; here they are made of other accounts."""
    made = {definition.name: definition for definition in definitions()}
    needed, left = set(), [name]
    while left:
        needed.add(one := left.pop())
        left += [read for read in made[one].reads if read in made and read not in needed]
    return [definition for definition in definitions() if definition.name in needed and definition.kind == "table"]


def _read_portfolio(connection: duckdb.DuckDBPyConnection, portfolio: str) -> dict[str, Any]:
    return _ask(connection, _COUNTS.format(portfolio)) | _ask(connection, _FIGURES.format(portfolio))


def _ask(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    (values,) = fetch_dicts(connection.execute(sql))
    return values
