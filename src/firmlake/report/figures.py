"""The figures at the top of the report: the portfolio now, and how it stood before the last run."""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from firmlake.core.parts import fetch_dicts
from firmlake.core.sql import quote_text
from firmlake.core.text import count_of
from firmlake.report.document import Tile
from firmlake.report.numbers import MINUS, shown_change, shown_number
from firmlake.warehouse.views import Definition, definitions

__all__ = ["Figures", "read_figures"]


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
    """Read the figures of a generation whose table `shown` holds the portfolio.

    The portfolio before the last run is that of now, except for the companies whose accounts the run changed: their
    earlier accounts are taken from history, and pass through the same definitions.
    """
    ((count, not_found),) = connection.execute(_COMPANIES).fetchall()
    now = {"companies": count} | _read_portfolio(connection, "shown")
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
        for of, other in ((_BEFORE, "shown"), ("shown", _BEFORE))
    )
    compared = {name: (before[name], now[name]) for name in ("companies", "with_accounts")}
    compared |= {name: (same_before[name], same_now[name]) for name in _OF_ACCOUNTS}
    return Figures(now, before, compared, run_at, not_found)


# ---------------------------------------------------------------------------------------------------------------------

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
    SELECT {_COLUMNS} FROM shown ANTI JOIN changed USING (country, company_number)
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
