"""The sections of the report and of a company's page: one SQL file each in `sections/`.

A file of a section begins with its title, its chapter, how its rows are drawn if not as a table, and an explanation:

    -- title: Newest accounts
    -- chapter: The portfolio
    -- chart: classes
    -- Companies by the year in which their newest accounts end.
    SELECT ...

The files of `charts/` are the charts there are. Some columns say more about a row: `depth` indents it, `number` stands
in small letters under the first column, `total` is how many rows there are of which the query returns the first,
`shown_as` says as which measure the numbers of the row are written, and `remark` of the first row follows the
explanation. Sections of a company read the variables `country` and `number`.

The number in a file's name is its place on the page. A file without a number begins with `-- table:` or `-- view:`. It
is made before the first section that reads it; it serves one page, or both if it stands outside their folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.sql import quote_text, read_queries
from firmlake.report.bill import Day
from firmlake.warehouse.views import definitions, derive_aside

_SQL = read_queries(__file__)

TOO_LARGE = "Not computed, because it needs more memory than run.duckdb_memory allows."
"""Shown instead of a section or count that is too costly, for a very large ownership graph or warehouse."""

_FOLDER = Path(__file__).with_name("sections")
_HEAD = re.compile(r"-- (title|chapter|chart|table|view): (.*)")


class Section(NamedTuple):
    """A section of a page, named such as `report/newest_accounts`, after its page and file.

    `chart` is a file of `charts/`; empty for a table. What stands in backticks in `about` is code.
    """

    name: str
    title: str
    chapter: str
    chart: str
    about: str
    sql: str


class SectionTables:
    """The tables that the sections of a page (report or company) read, each made once.

    The generation is restricted to a company list if the page is about one. `dues` are `Bill.days`.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        page: str,
        *,
        company: Company | None = None,
        dues: Iterable[Day] = (),
    ) -> None:
        self._connection, self._dues = connection, dues
        self._definitions = _read_definitions(page)
        self._ready: set[str] = set()
        for variable, value in zip(("country", "number"), company or (None, None), strict=True):
            connection.execute(f"SET VARIABLE {variable} = ?", [value])

    def prepare(self, sql: str) -> None:
        """Make the tables that a query reads, unless they are there."""
        for name in re.findall(r"\w+", sql):
            if name in self._ready:
                continue
            make = _MADE_IN_STEPS.get(name)
            if make:
                make(self)
            elif name in self._definitions:
                kind, definition = self._definitions[name]
                self.prepare(definition)
                self._connection.execute(f"CREATE OR REPLACE TEMP {kind} {name} AS {definition}")
            else:
                continue
            self._ready.add(name)

    def _fill_due(self) -> None:
        self._connection.execute("CREATE OR REPLACE TEMP TABLE due (day DATE, credits BIGINT, free_refreshes BIGINT)")
        for due in self._dues:
            self._connection.execute("INSERT INTO due VALUES (?, ?, ?)", [due.day, due.credits, due.free_refreshes])

    def _count_findings(self) -> None:
        """Count what each check finds. The view `findings`, which runs all of them, needs several times the memory."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE found (severity TEXT, check_name TEXT, what TEXT, found BIGINT)"
        )
        for check in definitions():
            if check.kind == "check":
                values = [check.parameters, check.name]
                count = f"INSERT INTO found SELECT ?, ?, ?, count(*) FROM ({check.sql})"  # noqa: S608 - our own
                try:
                    self._connection.execute(count, [*values, check.meaning])
                except duckdb.OutOfMemoryException:
                    self._connection.execute("INSERT INTO found VALUES (?, ?, ?, NULL)", [*values, TOO_LARGE])

    def _make_portfolio_before(self) -> None:
        """Make the portfolio as it stood after the earlier run; empty if there is none.

        It is that of now, except for the companies whose accounts changed since: their earlier accounts are taken from
        history, and pass through the same definitions.
        """
        self.prepare("FROM earlier_run")
        earlier = [run_id for (run_id,) in self._connection.execute("SELECT run_id FROM earlier_run").fetchall()]
        if not earlier:
            self._connection.execute("CREATE OR REPLACE TEMP TABLE portfolio_before AS FROM portfolio WHERE false")
            return
        changed = self._connection.sql(_SQL["changed"], params={"run": earlier[0]}).to_arrow_table()
        with self._connection.cursor() as aside:
            aside.register("changed", changed)
            derive_aside(aside, "company", {"financials": _SQL["financials_before"].format(run=quote_text(earlier[0]))})
            self._connection.register("changed_portfolio", aside.sql("FROM portfolio").to_arrow_table())
        self._connection.register("changed", changed)
        self._connection.execute(_SQL["portfolio_before"])
        for name in ("changed", "changed_portfolio"):
            self._connection.unregister(name)


_MADE_IN_STEPS: dict[str, Callable[[SectionTables], None]] = {
    "due": SectionTables._fill_due,
    "found": SectionTables._count_findings,
    "portfolio_before": SectionTables._make_portfolio_before,
}
"""The tables that no single query makes."""


@cache
def read_sections(page: str) -> tuple[Section, ...]:
    """Read the sections of a page, in the order in which it shows them."""
    return tuple(_read_section(page, path) for path in sorted((_FOLDER / page).glob("[0-9]*.sql")))


def find_section(name: str) -> Section:
    """Return the section with a name such as `report/newest_accounts`; UsageError suggests a similar name."""
    known = {section.name: section for page in ("report", "company") for section in read_sections(page)}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"There is no section {name!r}", f"{hint}The sections are: {', '.join(known)}")
    return known[name]


def read_frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a query as a frame."""
    frame = pl.from_arrow(relation.to_arrow_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


@cache
def _read_definitions(page: str) -> dict[str, tuple[str, str]]:
    """Return kind and query of the tables and views that sections of a page read, by name."""
    paths = [*_FOLDER.glob("*.sql"), *(_FOLDER / page).glob("[a-z]*.sql")]
    return {path.stem: (path.read_text("utf-8")[3:].partition(":")[0], _read(path)[2]) for path in paths}


def _read_section(page: str, path: Path) -> Section:
    values, about, sql = _read(path)
    name = f"{page}/{path.stem.partition('_')[2]}"
    return Section(name, values["title"], values["chapter"], values.get("chart", ""), about, sql)


def _read(path: Path) -> tuple[dict[str, str], str, str]:
    """Read a file: the values at its beginning, its explanation, and its query."""
    lines = path.read_text("utf-8").splitlines()
    count = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    found = [(_HEAD.fullmatch(line), line) for line in lines[:count]]
    about = " ".join(line.removeprefix("-- ") for match, line in found if not match)
    return {match[1]: match[2] for match, _ in found if match}, about, "\n".join(lines[count:])
