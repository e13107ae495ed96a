"""What the application asks: the newest generation, opened read-only, with what takes seconds worked out beforehand."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.sql import lock, read_queries
from firmlake.report.feed import alert_row, read_alerts
from firmlake.report.page import make_company_page
from firmlake.report.sections import SectionTables, find_section, read_frame
from firmlake.warehouse.generations import connect_to, explain_rejected, generation_number, newest

PREPARED: Final = ("newest_measures", "findings")
"""Views that become temporary tables of the same name, from which `benchmark` and the list of findings then read."""
_SQL = read_queries(__file__)
_ANSWERS_KEPT = 8
_ROWS_MAX = 10_000
_GROUPS_MAX = 500
_SECONDS_MAX = 30.0
_MEGABYTES_MAX = 64


class Holding:
    """One generation. Opening prepares it, which takes some seconds for a hundred thousand companies.

    Questions are asked one after another, from any thread. `answer` is `ask` with a question of `holding.sql` and its
    values by name, which may have been answered before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = connect_to(path)
        lock(self._connection)
        for view in PREPARED:
            self._connection.execute(f"CREATE TEMP TABLE {view} AS FROM main.{view}")
        self._connection.execute(f"SET VARIABLE groups_max = {_GROUPS_MAX}")
        self._tables = SectionTables(self._connection, "report")
        self.answer = lru_cache(_ANSWERS_KEPT)(lambda question, **values: self.ask(_SQL[question], values))

    @property
    def number(self) -> int:
        """The number of the generation."""
        return generation_number(self.path)

    def ask(self, sql: str, values: Any = None) -> pl.DataFrame:
        """Ask a question of firmlake's own, with its values in order or by name.

        It may read the tables of the report's sections.
        """
        with self._lock:
            self._tables.prepare(sql)
            return read_frame(self._connection.sql(sql, params=values))

    def groups(self) -> pl.DataFrame:
        """List the largest groups, as the report does."""
        found = self.ask(find_section("report/largest_groups").sql).filter(pl.col("members") > 1)
        return found.drop("total").with_columns(pl.selectors.decimal().cast(pl.Float64))

    def alerts(self, company_list: str | None, *, with_closed: bool) -> pl.DataFrame:
        """List the alerts of a company list, or of all companies, the gravest and newest first."""
        with self._lock:
            alerts = read_alerts(self._connection, with_closed=with_closed)
        listed = set(self.answer("listed", list=company_list).rows())
        rows = [
            {name: alert[name] for name in ("name", "country", "company_number")}
            | alert_row(alert)
            | {"because": alert["closed_because"]}
            for alert in alerts
            if company_list is None or (alert["country"], alert["company_number"]) in listed
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def page(self, company: Company) -> str:
        """Write the page of a company, as `firmlake company --page` does."""
        with self._lock:
            return make_company_page(self._connection, company, datetime.now(UTC))

    def ask_freely(self, sql: str) -> tuple[pl.DataFrame, bool]:
        """Ask a question of the user's: read-only, with no file, network or setting in reach, for half a minute.

        Returns the first rows, and whether there are more. UsageError says why DuckDB rejects the query, or that it
        takes too long or gives too much text.
        """
        with self._lock:
            timer = threading.Timer(_SECONDS_MAX, self._connection.interrupt)
            timer.start()
            try:
                kinds = {each.type for each in self._connection.extract_statements(sql)}
                if kinds != {duckdb.StatementType.SELECT}:
                    raise UsageError("This is not a query", "Ask with SELECT or FROM, such as FROM companies LIMIT 10")
                answer = self._connection.sql(sql).limit(_ROWS_MAX + 1)
                # DuckDB measures before anything is copied: one cell may hold a hundred million numbers.
                sizes = answer.aggregate("sum(strlen(COLUMNS(*)::VARCHAR))").fetchall()[0]
                if sum(filter(None, sizes)) > _MEGABYTES_MAX << 20:
                    raise UsageError(f"The rows hold more than {_MEGABYTES_MAX} MB", "Select fewer or shorter columns")
                rows = read_frame(answer)
            except duckdb.InterruptException:
                raise UsageError(f"The query took more than {_SECONDS_MAX:.0f} seconds", "Narrow it down") from None
            except duckdb.Error as error:
                raise explain_rejected(sql, error) from None
            finally:
                timer.cancel()
        return rows.head(_ROWS_MAX), rows.height > _ROWS_MAX


class Newest:
    """The newest generation of a data folder. An earlier one that is still asked stays open until nobody has it."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._lock = threading.Lock()
        self._holding: Holding | None = None

    def holding(self) -> Holding:
        """Return the newest generation; the first call after it was published opens it.

        Raises UsageError if nothing was published yet, and DamagedError if the newest generation is missing or damaged.
        """
        with self._lock:
            path = newest(self._folders)
            if path is None:
                raise UsageError(f"{self._folders.warehouse} holds no generation", "`firmlake run LIST` makes it")
            if self._holding is None or path != self._holding.path:
                self._holding = Holding(path)
            return self._holding


@cache
def _newest_of(data: str) -> Newest:
    return Newest(Folders(Path(data)))


def newest_holding() -> Holding:
    """Return the newest generation in FIRMLAKE_PATHS__DATA, or else of `firmlake demo`."""
    return _newest_of(os.environ.get("FIRMLAKE_PATHS__DATA", "data/sandbox")).holding()
