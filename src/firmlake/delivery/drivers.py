"""How each database is reached: address and login, sending of rows, errors of its library.

postgres://HOST/DATABASE                     libpq finds the password: PGPASSWORD, PGPASSFILE or ~/.pgpass
duckdb:FILE                                  a new file is its owner's alone
snowflake://ACCOUNT/DATABASE?warehouse=...   SNOWFLAKE_USER with SNOWFLAKE_PASSWORD or SNOWFLAKE_PRIVATE_KEY_PATH
bigquery://PROJECT/DATASET?location=EU       GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's service account

Snowflake and BigQuery were tested without an account: local endpoints answered the requests of the real libraries.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError, LockHeldError, Translation, UsageError, first_line, needed, translated
from firmlake.core.files import sync_folder
from firmlake.core.sql import quote_name, quote_text, read_queries
from firmlake.delivery.database import BIGQUERY, DUCKDB, POSTGRES, ROWS_AT_ONCE, SNOWFLAKE, Database
from firmlake.delivery.files import row_groups
from firmlake.delivery.selection import arrow_schema
from firmlake.tables.schemas import Table

_SQL = read_queries(__file__)
_UNCHANGED = "The tables are unchanged. Fix this in the database, then load again"


@contextmanager
def open_database(
    address: str, schema: str, memory_limit: str, now: Callable[[], datetime] = utc_now
) -> Iterator[Database]:
    """Connect to the database of an address, and create the schema in it unless it exists.

    Args:
        address: As above, without a password.
        schema: The schema of the tables; for BigQuery, the dataset if the address names none.
        memory_limit: The most memory that DuckDB may use for a file.
        now: The clock, UTC.

    Raises:
        UsageError: The address is invalid or holds a password, or a library is missing.
        LockHeldError: Another load into the schema is running, or another process has the file open. Wait.
        FirmlakeError: The database cannot be reached. Check the address and the login.
    """
    match address.partition(":")[0]:
        case "duckdb":
            opening = _open_duckdb(Path(address.removeprefix("duckdb:")), schema, memory_limit)
        case "snowflake":
            opening = _open_snowflake(address, schema)
        case "bigquery":
            opening = _open_bigquery(address, schema)
        case _:
            opening = _open_postgres(address, schema)
    with opening as database:
        database.address, database.now = address, now
        yield database


class _Postgres(Database):
    """Rows are sent by COPY."""

    dialect = POSTGRES
    columns_query = _SQL["postgres_columns"]
    remnants = "The backups and the WAL archive of {name}, if there are any, hold earlier rows until they expire"

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Copy batches into a table as CSV, which distinguishes null from an empty text."""
        columns, count = ", ".join(quote_name(column.name) for column in table.columns), 0
        statement = f"COPY {self.at(name)} ({columns}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
        with self.translated(), self._cursor.copy(statement) as copy:
            for batch in batches:
                copy.write(_as_csv(batch))
                count += batch.num_rows
        return count

    def read_parts(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts, using a cursor of the server."""
        connection = self._cursor.connection
        with self.translated(), connection.transaction(), connection.cursor("firmlake_rows") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield rows

    def reclaim(self, tables: Sequence[str]) -> str:
        """Rewrite tables and statistics, which quote values, without deleted rows; wait up to a minute for readers."""
        self.run("SET lock_timeout = '60s'")
        for table in tables:
            self.run(f"VACUUM (FULL, ANALYZE) {self.at(table)}")
        self.run("VACUUM (FULL) pg_catalog.pg_statistic")  # the server skips it if the login does not own the database
        return super().reclaim(tables)


@contextmanager
def _open_postgres(address: str, schema: str) -> Iterator[Database]:
    """Connect, and lock the schema against other loads."""
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
    translations = _postgres_translations()
    with translated(name, *translations):
        connection = psycopg.connect(address, autocommit=True, application_name="firmlake load")
    with connection:
        opened = _Postgres(connection.cursor(), name, schema, *translations)
        ((is_free,),) = opened.run(_SQL["postgres_lock"].format(text=quote_text(schema)))
        if not is_free:
            raise LockHeldError(f"Another load into schema {schema} of {name} is running", "Wait until it ends")
        opened.run("SET client_min_messages = warning")
        # Looked up first, because the login may not be allowed to create it.
        if not opened.run(_SQL["postgres_schema"].format(text=quote_text(schema))):
            opened.run(f"CREATE SCHEMA {quote_name(schema)}")
        try:
            yield opened
        finally:  # unlocked at once, because the server notices the end of a connection only later
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")


def _postgres_translations() -> tuple[Translation, ...]:
    from psycopg import Error, OperationalError, errors

    return (
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
        Translation(Error, _UNCHANGED),
    )


def _as_csv(batch: pa.RecordBatch) -> bytes:
    frame = cast("pl.DataFrame", pl.from_arrow(batch)).with_columns(
        pl.col(pl.String).str.replace_all("\x00", "\ufffd", literal=True)
    )
    written = io.BytesIO()
    frame.write_csv(written, include_header=False, quote_style="non_numeric")
    return written.getvalue()


_DUCKDB_TRANSLATIONS = (
    Translation((duckdb.OperationalError, duckdb.InterruptException), "The tables are unchanged. Load again to resume"),
    Translation(duckdb.Error, _UNCHANGED),
)


class _Duckdb(Database):
    """Rows are read from Arrow; a memory limit applies."""

    dialect = DUCKDB
    columns_query = _SQL["duckdb_columns"]
    memory_limit = ""
    is_to_rewrite = False

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Insert batches into a table, one batch in memory at a time.

        This uses half the memory limit, because the warehouse sorts the rows at the same time, with its own limit.
        """
        number = self.memory_limit.rstrip(" BGMi")
        with self.translated():
            self._cursor.register("rows_to_load", pa.RecordBatchReader.from_batches(arrow_schema(table), batches))
            self.run(f"SET memory_limit = '{int(number) / 2}{self.memory_limit.removeprefix(number)}'")
            try:
                ((count,),) = self.run(f"INSERT INTO {self.at(name)} FROM rows_to_load")
            finally:
                self.run(f"SET memory_limit = '{self.memory_limit}'")
                self._cursor.unregister("rows_to_load")
        return int(count)

    def reclaim(self, tables: Sequence[str]) -> str:
        """Rewrite the whole file when it is closed, because its free blocks hold deleted rows."""
        self.is_to_rewrite = True
        return super().reclaim(tables)


@contextmanager
def _open_duckdb(path: Path, schema: str, memory_limit: str) -> Iterator[Database]:
    """Open a DuckDB file for writing, and create it if it does not exist."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder {path.absolute().parent} does not exist", "Create it, or name another file")
    # What DuckDB creates, its log too, has no more permissions than the file; it holds names of persons.
    umask = os.umask(~(path.stat().st_mode if path.exists() else 0o600) & 0o777)
    try:
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
            if not connection.execute(_SQL["duckdb_files"]).fetchall():
                raise FirmlakeError(f"{path} is not a DuckDB database", "Name another file")
            opened = _Duckdb(connection, f"duckdb:{path}", schema, *_DUCKDB_TRANSLATIONS)
            opened.memory_limit = memory_limit
            opened.run(f"CREATE SCHEMA IF NOT EXISTS {quote_name(schema)}")
            yield opened
        if opened.is_to_rewrite:
            _rewrite(path, memory_limit)
    finally:
        os.umask(umask)


def _rewrite(path: Path, memory_limit: str) -> None:
    """Copy everything in a file, including what others made there, into a new file, which replaces it."""
    aside = path.with_name(f".{path.name}.part")
    aside.unlink(missing_ok=True)
    opening = duckdb.connect(config={"memory_limit": memory_limit})
    with translated(f"duckdb:{path}", *_DUCKDB_TRANSLATIONS), opening as connection:
        connection.execute(f"ATTACH {quote_text(path)} AS held (READ_ONLY)")
        ((version,),) = connection.execute(_SQL["duckdb_version"]).fetchall()
        connection.execute(f"ATTACH {quote_text(aside)} AS rewritten (STORAGE_VERSION {quote_text(version)})")
        connection.execute("COPY FROM DATABASE held TO rewritten")
    aside.replace(path)
    sync_folder(path.parent)


_KEY_FILE = "SNOWFLAKE_PRIVATE_KEY_PATH"
_PASSWORD = "SNOWFLAKE_PASSWORD"  # noqa: S105 - the name of the variable


class _Snowflake(Database):
    """Parquet files are put on a table's own stage, then copied into it."""

    dialect = SNOWFLAKE
    columns_query = _SQL["snowflake_columns"]
    remnants = "{name} keeps deleted rows for its Time Travel (DATA_RETENTION_TIME_IN_DAYS), then for Fail-safe"

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:  # noqa: ARG002
        """Put the rows on the stage file by file, then copy them all into the table."""
        count, stage = 0, f"@{self._schema}.%{name}"
        with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
            for number, rows in enumerate(row_groups(batches)):
                path = Path(folder) / f"{number:06}.parquet"
                pq.write_table(rows, path, compression="zstd")
                self.run(f"PUT 'file://{path}' {stage} AUTO_COMPRESS = FALSE OVERWRITE = TRUE")
                path.unlink()
                count += rows.num_rows
        if count:
            self.run(
                f"COPY INTO {self.at(name)} FROM {stage} PURGE = TRUE "
                "FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
            )
        return count


@contextmanager
def _open_snowflake(address: str, schema: str) -> Iterator[Database]:
    parts = urlsplit(address)
    if parts.password:
        raise UsageError(
            "The address of Snowflake holds a password", f"Leave it out, and set {_PASSWORD} or {_KEY_FILE}"
        )
    if not (parts.hostname and parts.path.strip("/")):
        raise UsageError("The address of Snowflake is incomplete", "Write snowflake://ACCOUNT/DATABASE?warehouse=NAME")
    if not schema.isidentifier():
        raise UsageError(f"{schema!r} is not a plain schema name", "Use letters, digits and underscores")
    with needed("Snowflake", "its ADBC driver", "snowflake"):
        import adbc_driver_snowflake.dbapi as driver
        from adbc_driver_manager import Error
    name, secret = f"snowflake://{parts.hostname}{parts.path}", os.environ.get(_PASSWORD, "")
    login = Translation(
        Error, "Check it, SNOWFLAKE_USER, its key or password, and its rights; then load again to resume"
    )
    with translated(name, login, secret=secret):
        # Statements begin and end the transactions.
        options = _snowflake_options(parts.hostname, parts.path.strip("/"), parts.query, schema)
        connection = driver.connect(db_kwargs=options, autocommit=True)
    with connection, connection.cursor() as cursor:
        opened = _Snowflake(cursor, name, schema, login, secret=secret)
        # The session is then in this schema, where tables that are renamed stay.
        opened.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        yield opened


def _snowflake_options(account: str, database: str, query: str, schema: str) -> dict[str, str]:
    """Return the options of the driver. SNOWFLAKE_HOST and SNOWFLAKE_PORT are for private links and tests."""
    options = {
        "account": account,
        "db": database,
        "schema": schema.upper(),
        "client_option.app_name": "firmlake",
        "client_option.disable_telemetry": "true",
        **{key: value for key, value in parse_qsl(query) if key in ("warehouse", "role", "region")},
        **{f"uri.{key}": os.environ.get(f"SNOWFLAKE_{key.upper()}", "") for key in ("host", "port", "protocol")},
    }
    login = {"username": os.environ.get("SNOWFLAKE_USER", "")}
    if key_file := os.environ.get(_KEY_FILE):
        options |= {"auth_type": "auth_jwt", "client_option.jwt_private_key": key_file}
    else:
        login["password"] = os.environ.get(_PASSWORD, "")
    return login | {f"adbc.snowflake.sql.{key}": value for key, value in options.items() if value}


_DATASET = re.compile(r"\w+")


class _Bigquery(Database):
    """Parquet files are loaded by jobs; statements run in one session, in which transactions work.

    Google's own client is used: the ADBC driver for BigQuery (1.11) binds one row at a time and has no transactions.
    """

    dialect = BIGQUERY
    columns_query = _SQL["bigquery_columns"]
    remnants = "{name} keeps deleted rows for its time travel (7 days, or as the dataset says) and 7 days more"

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self.translated():
            return [row.values() for row in self._cursor.query(statement).result()]

    def read_parts(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts."""
        with self.translated():
            rows = (row.values() for row in self._cursor.query(statement).result(page_size=ROWS_AT_ONCE))
            while part := list(islice(rows, ROWS_AT_ONCE)):
                yield part

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Write batches to one Parquet file, and load it by one job, which appends all rows or none."""
        from google.cloud.bigquery import LoadJobConfig

        schema = arrow_schema(table)
        with tempfile.TemporaryFile(prefix="firmlake-", suffix=".parquet") as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for rows in row_groups(batches):
                    writer.write_table(rows.cast(schema))
            file.seek(0)
            if count := int(pq.read_metadata(file).num_rows):
                how = LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND")
                how.create_disposition = "CREATE_NEVER"
                place = f"{self._cursor.project}.{self.at(name)}"
                with self.translated():
                    self._cursor.load_table_from_file(file, place, rewind=True, job_config=how).result()
        return count


@contextmanager
def _open_bigquery(address: str, schema: str) -> Iterator[Database]:
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/") or schema
    if not project or "@" in project or not _DATASET.fullmatch(dataset):
        raise UsageError("The address of BigQuery is invalid", "Write bigquery://PROJECT/DATASET?location=EU")
    with needed("BigQuery", "Google's client", "bigquery"):
        from google.api_core.exceptions import GoogleAPIError, NotFound
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import bigquery
        from requests import RequestException
    name, location = f"bigquery://{project}/{dataset}", dict(parse_qsl(parts.query)).get("location")
    login = Translation(
        (GoogleAPIError, GoogleAuthError, RequestException, ValueError),  # ValueError: settings disagree
        "Check it, the login (GOOGLE_APPLICATION_CREDENTIALS or gcloud) and its rights; then load again to resume",
    )
    with translated(name, login):
        client = bigquery.Client(project, location=location)
        try:
            found = client.get_dataset(dataset)
        except NotFound:
            found = None
        if found is None and location is None:
            raise UsageError(
                f"{name} does not exist, and the address names no location to create it in",
                "Add a location, such as ?location=EU",
            )
        found = found or client.create_dataset(dataset, exists_ok=True)
        client = bigquery.Client(project, location=found.location)  # a session works in one location
        session = client.query("SELECT 1", job_config=bigquery.QueryJobConfig(create_session=True))
        session.result()
        client.default_query_job_config = bigquery.QueryJobConfig(
            connection_properties=[bigquery.ConnectionProperty("session_id", session.session_info.session_id)]
        )
    opened = _Bigquery(client, name, dataset, login)
    try:
        yield opened
    finally:
        with suppress(FirmlakeError):  # BigQuery would otherwise keep the session for a day
            opened.run("CALL BQ.ABORT_SESSION()")
        client.close()
