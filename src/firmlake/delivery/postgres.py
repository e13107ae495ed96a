"""A PostgreSQL schema as the target of loads. Rows are sent by COPY; libpq finds the credentials."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, cast

import polars as pl
import pyarrow as pa

from firmlake.core.errors import LockHeldError, Translation, UsageError, needed, translated
from firmlake.core.sql import quote_name
from firmlake.delivery.dialects import POSTGRES
from firmlake.tables.schemas import Table

_ROWS = 50_000
_LOCK = 0x6669_726D_6C61  # "firmla"
_COLUMNS = """
    SELECT relname, attname, format_type(atttypid, atttypmod)
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = %s AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY attnum
"""


class PostgresConnection:
    """A connection that works on one schema; see `firmlake.delivery.database.Connection`."""

    dialect = POSTGRES

    def __init__(self, connection: Any, name: str, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.name = name
        self.schema = quote_name(schema)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with _translated(self.name):
            cursor = self._connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Copy batches into a table as CSV, which distinguishes null from an empty text."""
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        count = 0
        with (
            _translated(self.name),
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {self.schema}.{name} ({columns}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')") as copy,
        ):
            for batch in batches:
                copy.write(_as_csv(batch))
                count += batch.num_rows
        return count

    def read(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts, using a server-side cursor."""
        with _translated(self.name), self._connection.transaction(), self._connection.cursor("firmlake_rows") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_ROWS):
                yield rows

    def reclaim(self, tables: Sequence[str]) -> str:
        """Rewrite tables and statistics, which quote values, without deleted rows; wait up to a minute for readers."""
        self.run("SET lock_timeout = '60s'")
        for table in tables:
            self.run(f"VACUUM (FULL, ANALYZE) {table}")
        self.run("VACUUM (FULL) pg_catalog.pg_statistic")  # the server skips it if the login does not own the database
        return f"The backups and the WAL archive of {self.name}, if there are any, hold earlier rows until they expire"

    def transaction(self) -> Any:
        """Begin a transaction. An error rolls it back."""
        return self._connection.transaction()

    def create_schema(self) -> None:
        """Create the schema unless it exists; look it up first, because the login may not be allowed to create it."""
        with _translated(self.name):
            sought = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
            if not self._connection.execute(sought, (self._schema,)).fetchone():
                self._connection.execute(f"CREATE SCHEMA {self.schema}")

    def columns(self) -> list[tuple[Any, ...]]:
        """List table, name and type of each column in the schema, in order."""
        return self.run(_COLUMNS, (self._schema,))


@contextmanager
def open_postgres(address: str, schema: str) -> Iterator[PostgresConnection]:
    """Connect to a PostgreSQL database, and lock the schema against other loads.

    Args:
        address: `postgres://HOST/DATABASE`, without a password: libpq reads PGPASSWORD, PGPASSFILE or ~/.pgpass.
        schema: The schema of the tables.

    Raises:
        UsageError: The address is invalid or holds a password, or psycopg is missing.
        LockHeldError: Another load into the schema is running. Wait until it ends.
        FirmlakeError: The server cannot be reached. Check the address and the login.
    """
    with needed("PostgreSQL", "the library psycopg", "load"):
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    try:
        parts = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise UsageError("The address of the database cannot be read", "Write postgres://HOST/DATABASE") from None
    if parts.get("password") or parts.get("sslpassword"):
        raise UsageError(
            "The address of the database holds a password, which other users of this machine could read",
            "Leave it out, and keep it in ~/.pgpass, PGPASSFILE or PGPASSWORD",
        )
    port = f":{parts['port']}" if parts.get("port") else ""
    name = f"postgres://{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
    with _translated(name):
        connection = psycopg.connect(address, autocommit=True, application_name="firmlake load")
    with connection:
        (is_free,) = connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK & 0x7FFFFFFF, schema)
        ).fetchone() or (False,)
        if not is_free:
            raise LockHeldError(f"Another load into schema {schema} of {name} is running", "Wait until it ends")
        connection.execute("SET client_min_messages = warning")
        try:
            yield PostgresConnection(connection, name, schema)
        finally:  # unlocked at once, because the server notices the end of a connection only later
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")


# ---------------------------------------------------------------------------------------------------------------------


def _as_csv(batch: pa.RecordBatch) -> bytes:
    frame = cast("pl.DataFrame", pl.from_arrow(batch)).with_columns(
        pl.col(pl.String).str.replace_all("\x00", "\ufffd", literal=True)
    )
    written = io.BytesIO()
    frame.write_csv(written, include_header=False, quote_style="non_numeric")
    return written.getvalue()


def _translated(name: str) -> AbstractContextManager[None]:
    from psycopg import Error, OperationalError, errors

    return translated(
        name,
        Translation(
            errors.DependentObjectsStillExist,
            "Drop them, load again, then create them again",
            "{where}: a table must be created again, but views or foreign keys depend on it: {reason}",
        ),
        Translation(
            errors.IntegrityError,
            "The tables are unchanged. Drop the constraint, or the rows that refer to this row, then load again",
        ),
        Translation(
            errors.InsufficientPrivilege, "Allow the login to create the schema, or make it the schema's owner"
        ),
        Translation(
            OperationalError,
            "Check the server and the login (PGUSER, ~/.pgpass), then load again to resume",
            "{where} cannot be used: {reason}",
        ),
        Translation(Error, "The tables are unchanged. Fix this in the database, then load again"),
    )
