"""What the application asks: the newest generation, opened read-only, with what takes seconds worked out beforehand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.sql import lock
from firmlake.report.feed import Alert, read_alerts
from firmlake.report.page import make_company_page
from firmlake.report.sections import SectionTables, read_frame
from firmlake.warehouse.generations import connect_to, explain_rejected, generation_number, newest

PREPARED: Final = ("newest_measures", "findings")
"""Views that become temporary tables of the same name, from which `benchmark` and the list of findings then read."""
_ROWS_MAX = 10_000
_GROUPS_MAX = 500
_SECONDS_MAX = 30.0
_MEGABYTES_MAX = 64


class Holding:
    """One generation. Questions are asked one after another, from any thread."""

    def __init__(self, path: Path) -> None:
        """Open a generation and prepare it, which takes some seconds for a hundred thousand companies."""
        self.path = path
        self._lock = threading.Lock()
        self._connection = connect_to(path)
        lock(self._connection)
        for view in PREPARED:
            self._connection.execute(f"CREATE TEMP TABLE {view} AS FROM main.{view}")
        self._connection.execute(f"SET VARIABLE groups_max = {_GROUPS_MAX}")
        self._tables = SectionTables(self._connection, "report")

    @property
    def number(self) -> int:
        """The number of the generation."""
        return generation_number(self.path)

    def ask(self, sql: str, values: Any = None) -> pl.DataFrame:
        """Ask a question of firmlake's own.

        Args:
            sql: A query; it may read the tables of the report's sections.
            values: The values of its parameters, in order or by name.
        """
        with self._lock:
            self._tables.prepare(sql)
            return read_frame(self._connection.sql(sql, params=values))

    def page(self, company: Company) -> str:
        """Write the page of a company, as `firmlake company --page` does.

        Raises:
            UsageError: The warehouse does not hold the company.
        """
        with self._lock:
            return make_company_page(self._connection, company, datetime.now(UTC))

    def alerts(self, *, with_closed: bool) -> list[Alert]:
        """Read the alerts."""
        with self._lock:
            return read_alerts(self._connection, with_closed=with_closed)

    def ask_freely(self, sql: str) -> tuple[pl.DataFrame, bool]:
        """Ask a question of the user's: read-only, with no file, network or setting in reach, for half a minute.

        Returns:
            The first rows, and whether there are more.

        Raises:
            UsageError: DuckDB rejects the query, or it takes too long or gives too much text. The message says why.
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

    def close(self) -> None:
        """Close the generation."""
        with self._lock:
            self._connection.close()


class Newest:
    """The newest generation that is prepared; a newer one is prepared aside, while this one goes on answering.

    Args:
        folders: The data folder.
        tell: Called with a line when a generation was opened.
    """

    def __init__(self, folders: Folders, tell: Callable[[str], object] = lambda line: None) -> None:
        self._folders = folders
        self._tell = tell
        self._lock = threading.Lock()
        self._held: Holding | None = None
        self._before: Holding | None = None
        self._coming: threading.Thread | None = None

    def holding(self) -> Holding:
        """Return the newest prepared generation. The first call opens one, later calls never wait.

        Raises:
            UsageError: Nothing was published yet.
            DamagedError: The newest generation is missing or damaged; the message says what to do.
        """
        with self._lock:
            path = newest(self._folders)
            if path is None:
                raise UsageError(f"{self._folders.warehouse} holds no generation", "`firmlake run LIST` makes it")
            if self._held is None:
                self._open(path)
            elif path != self._held.path and not (self._coming and self._coming.is_alive()):
                self._coming = threading.Thread(target=self._open, args=(path,), daemon=True)
                self._coming.start()
            assert self._held
            return self._held

    def _open(self, path: Path) -> None:
        opened = Holding(path)
        if self._before:
            self._before.close()  # the one after it stays open, since a session may be about to ask it
        self._before, self._held = self._held, opened
        self._tell(f"Generation {self._held.number} is open")


_shown: list[Newest] = []


def show_folder(folders: Folders, tell: Callable[[str], object] = lambda line: None) -> None:
    """Show this data folder in this process from now on; the notebook finds it, whoever runs it."""
    _shown[:] = [Newest(folders, tell)]


def newest_holding() -> Holding:
    """Return the newest generation. Without `show_folder`, that of FIRMLAKE_PATHS__DATA, or else of `firmlake demo`.

    Raises:
        UsageError: Nothing was published yet.
    """
    if not _shown:
        show_folder(Folders(Path(os.environ.get("FIRMLAKE_PATHS__DATA", "data/sandbox"))))
    return _shown[0].holding()
