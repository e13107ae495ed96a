"""The figures at the top of the report: the portfolio now, and how it stood before the last run."""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from firmlake.core.parts import fetch_dicts
from firmlake.core.sql import quote_text
from firmlake.report.document import Tile
from firmlake.report.numbers import MINUS, shown_change, shown_number
from firmlake.warehouse.views import Definition, definitions

__all__ = ["Figures", "read_figures"]


class Figures(NamedTuple):
    """The figures of a portfolio.

    Attributes:
        now: The figures by name of their column, in order.
        before: The same as they stood before the last run; empty if it was the first.
        run_at: When the run before the last ended, UTC; None if there is none.
    """

    now: dict[str, Any]
    before: dict[str, Any]
    run_at: datetime | None

    def tiles(self) -> list[Tile]:
        """Write each figure as a tile, with its change since the run before."""
        return [self._tile(name, self.now[name]) for name in _LABELS]

    def _tile(self, name: str, value: Any) -> Tile:
        label, better = _LABELS[name]
        doubtful = self.now["doubtful"] if name in _SUMS else 0
        notes = [f"{doubtful:,} doubtful left out"] if doubtful else []
        shown = "-" if value is None else ("EUR " * name.endswith("_eur") + shown_number(name, value))
        change = shown_change(name, self.before.get(name), value)
        if not change or self.run_at is None:
            return Tile(label, shown, ", ".join([*notes, *(["unchanged"] if self.before else [])]))
        rose = not change.startswith(MINUS)
        tone = "" if better == 0 else ("good" if rose == (better > 0) else "bad")
        return Tile(label, shown, ", ".join([*notes, f"{change} since {self.run_at:%d %b %Y}"]), tone)


def read_figures(connection: duckdb.DuckDBPyConnection) -> Figures:
    """Read the figures of a generation whose table `shown` holds the portfolio.

    The portfolio before the last run is that of now, except for the companies whose accounts the run changed: their
    earlier accounts are taken from history, and pass through the same definitions.
    """
    ((count,),) = connection.execute("SELECT count(*) FROM companies").fetchall()
    now = {"companies": count} | _ask(connection, _FIGURES.format("shown"))
    earlier = connection.execute(_EARLIER).fetchall()
    if not earlier:
        return Figures(now, {}, None)
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
    before = {"companies": count} | _ask(connection, _FIGURES.format(_BEFORE))
    return Figures(now, before, run_at)


# ---------------------------------------------------------------------------------------------------------------------

_LABELS = {
    "companies": ("Companies", 0),
    "with_accounts": ("With accounts", 0),
    "revenue_eur": ("Annual revenue, newest accounts", 1),
    "employees": ("Employees", 1),
    "growth": ("Revenue growth, median", 1),
    "equity_fraction": ("Equity ratio, median", 1),
    "distress": ("In distress (Altman)", -1),
    "negative_equity": ("Negative equity", -1),
}
"""Name of each figure, and whether more is better (1), worse (-1) or neither (0)."""
_SUMS = ("revenue_eur", "employees")
"""The figures that leave out doubtful accounts, such as those filed in another unit, which would outweigh the rest."""
_COLUMNS = """
    country, company_number, is_comparable, revenue_annual, employee_count, revenue_growth,
    equity_fraction, zone, equity
"""
_FIGURES = """
    SELECT
        count(*) AS with_accounts,
        sum(revenue_annual) FILTER (is_comparable) AS revenue_eur,
        sum(employee_count) FILTER (is_comparable) AS employees,
        median(revenue_growth::DOUBLE) AS growth,
        median(equity_fraction::DOUBLE) AS equity_fraction,
        count(*) FILTER (zone = 'distress') AS distress,
        count(*) FILTER (equity < 0) AS negative_equity,
        count(*) FILTER (NOT is_comparable) AS doubtful
    FROM {}
"""
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


def _ask(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    (values,) = fetch_dicts(connection.execute(sql))
    return values
