"""A DuckDB file as the target of loads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from firmlake.core.errors import FirmlakeError, LockHeldError, Translation, UsageError, first_line, translated
from firmlake.core.files import sync_folder
from firmlake.core.sql import quote_name, quote_text
from firmlake.delivery.dialects import DUCKDB
from firmlake.delivery.selection import arrow_schema
from firmlake.tables.schemas import Table

_ROWS = 50_000
_VERSION = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'held'"
_FILES = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL AND type = 'duckdb'"
"""There is none for `:memory:`, for a CSV, JSON or Parquet file, which DuckDB reads through a database in memory, and
for a database of another kind, such as SQLite, which it opens by an extension."""
_COLUMNS = (
    "SELECT table_name, column_name, replace(data_type, 'TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ') "
    "FROM duckdb_columns() WHERE schema_name = ? ORDER BY column_index"
)


class DuckdbConnection:
    """A connection that works on one schema; see `firmlake.delivery.database.Connection`."""

    dialect = DUCKDB

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, schema: str, memory_limit: str) -> None:
        self._connection = connection
        self._memory_limit = memory_limit
        self._schema = schema
        self.is_to_rewrite = False
        self.name = f"duckdb:{path}"
        self.schema = quote_name(schema)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with _translated(self.name):
            return self._connection.execute(statement, list(values)).fetchall()

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Insert batches into a table, one batch in memory at a time.

        This uses half the memory limit, because the warehouse sorts the rows at the same time, with its own limit.
        """
        rows = pa.RecordBatchReader.from_batches(arrow_schema(table), batches)
        with _translated(self.name):
            self._connection.register("rows_to_load", rows)
            self._connection.execute(f"SET memory_limit = '{_half(self._memory_limit)}'")
            try:
                inserted = f"INSERT INTO {self.schema}.{name} FROM rows_to_load"
                ((count,),) = self._connection.execute(inserted).fetchall()
            finally:
                self._connection.execute(f"SET memory_limit = '{self._memory_limit}'")
                self._connection.unregister("rows_to_load")
        return int(count)

    def read(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts."""
        with _translated(self.name):
            cursor = self._connection.cursor().execute(statement)
            while rows := cursor.fetchmany(_ROWS):
                yield rows

    def reclaim(self, tables: Sequence[str]) -> str:  # noqa: ARG002
        """Rewrite the whole file when it is closed, because its free blocks hold deleted rows."""
        self.is_to_rewrite = True
        return ""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. An error rolls it back."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self.run("COMMIT")

    def create_schema(self) -> None:
        """Create the schema unless it exists."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")

    def columns(self) -> list[tuple[Any, ...]]:
        """List table, name and type of each column in the schema, in order."""
        return self.run(_COLUMNS, (self._schema,))


@contextmanager
def open_duckdb(path: Path, schema: str, memory_limit: str) -> Iterator[DuckdbConnection]:
    """Open a DuckDB file for writing, and create it if it does not exist.

    Raises:
        UsageError: The folder of the file does not exist. Name another one.
        LockHeldError: Another process has the file open. Close it there.
        FirmlakeError: The file is not a DuckDB database. Name another one.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder {path.absolute().parent} does not exist", "Create it, or name another file")
    with _making_files(path.stat().st_mode if path.exists() else 0o600):  # the file holds names of persons
        try:
            # For a database of another kind, DuckDB would download an extension.
            connection = duckdb.connect(
                str(path), config={"memory_limit": memory_limit, "autoinstall_known_extensions": False}
            )
        except duckdb.OperationalError as error:  # no database, held by another process, or our own warehouse
            if isinstance(error, duckdb.IOException) and "lock" in str(error).lower():
                raise LockHeldError(f"{path} is open in another process", "Close it there, then load again") from None
            raise FirmlakeError(f"{path} cannot be opened: {first_line(error)}", "Name another file") from None
        with connection:
            if not connection.execute(_FILES).fetchall():
                raise FirmlakeError(f"{path} is not a DuckDB database", "Name another file")
            yield (opened := DuckdbConnection(connection, path, schema, memory_limit))
        if opened.is_to_rewrite:
            _rewrite(path, memory_limit)


# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def _making_files(mode: int) -> Iterator[None]:
    """Make DuckDB create files, including its log, with no more permissions than `mode`."""
    before = os.umask(~mode & 0o777)
    try:
        yield
    finally:
        os.umask(before)


def _half(memory_limit: str) -> str:
    number = memory_limit.rstrip(" BGMi")
    return f"{int(number) / 2}{memory_limit.removeprefix(number)}"


def _rewrite(path: Path, memory_limit: str) -> None:
    """Copy everything in a file, including what others made there, into a new file, which replaces it."""
    aside = path.with_name(f".{path.name}.part")
    aside.unlink(missing_ok=True)
    with _translated(f"duckdb:{path}"), duckdb.connect(config={"memory_limit": memory_limit}) as connection:
        connection.execute(f"ATTACH {quote_text(path)} AS held (READ_ONLY)")
        ((version,),) = connection.execute(_VERSION).fetchall()
        connection.execute(
            f"ATTACH {quote_text(aside)} AS rewritten (STORAGE_VERSION {quote_text(version.rstrip('+'))})"
        )
        connection.execute("COPY FROM DATABASE held TO rewritten")
    aside.replace(path)
    sync_folder(path.parent)


def _translated(name: str) -> AbstractContextManager[None]:
    passing = (duckdb.OperationalError, duckdb.InterruptException)
    return translated(
        name,
        Translation(passing, "The tables are unchanged. Load again to resume"),
        Translation(duckdb.Error, "The tables are unchanged. Fix this in the database, then load again"),
    )
