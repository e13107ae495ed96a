"""How each database is reached: address and login, sending of rows, errors of its library.

postgres://HOST/DATABASE                     libpq finds the password: PGPASSWORD, PGPASSFILE or ~/.pgpass
duckdb:FILE                                  a new file is its owner's alone
snowflake://ACCOUNT/DATABASE?warehouse=...   SNOWFLAKE_USER with SNOWFLAKE_PASSWORD or SNOWFLAKE_PRIVATE_KEY_PATH
bigquery://PROJECT/DATASET?location=EU       GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine's service account

Snowflake and BigQuery were tested without an account: local endpoints answered the requests of the real libraries.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import FirmlakeError, LockHeldError, UsageError, first_line, needed
from firmlake.core.files import sync_folder
from firmlake.core.sql import quote_name, quote_text, read_queries
from firmlake.core.work import utc_now
from firmlake.delivery.database import DIALECTS, Database
from firmlake.delivery.files import row_groups

_SQL = read_queries(__file__)


@contextmanager
def open_database(
    address: str, schema: str, memory_limit: str, now: Callable[[], datetime] = utc_now
) -> Iterator[Database]:
    """Connect to the database of an address, and create the schema in it unless it exists.

    Args:
        address: As above, without a password.
        schema: For BigQuery, the dataset if the address names none.
        memory_limit: The most memory that DuckDB may use for a file.

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

    dialect = DIALECTS["postgres"]

    def ingest(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Copy rows into a table as CSV, which distinguishes null from an empty text."""
        columns = ", ".join(map(quote_name, rows.schema.names))
        statement = f"COPY {self.at(name)} ({columns}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
        with self.translated(), self._cursor.copy(statement) as copy:
            for batch in rows:
                frame = cast("pl.DataFrame", pl.from_arrow(batch))
                frame = frame.with_columns(pl.col(pl.String).str.replace_all("\x00", "\ufffd", literal=True))
                copy.write(frame.write_csv(include_header=False, quote_style="non_numeric").encode())

    def iterate(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows as the server sends them."""
        return cast("Iterator[tuple[Any, ...]]", self._cursor.stream(query))

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
    with _Postgres.dialect.translated(name):
        connection = psycopg.connect(address, autocommit=True, application_name="firmlake load")
    with connection:
        opened = _Postgres(connection.cursor(), name, schema)
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


class _Duckdb(Database):
    """Rows are read from Arrow; a memory limit applies."""

    dialect = DIALECTS["duckdb"]
    memory_limit = ""
    is_to_rewrite = False

    def ingest(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Insert rows into a table, one batch in memory at a time.

        This uses half the memory limit, because the warehouse sorts the rows at the same time, with its own limit.
        """
        number = self.memory_limit.rstrip(" BGMi")
        self._cursor.register("rows_to_load", rows)
        self.run(f"SET memory_limit = '{int(number) / 2}{self.memory_limit.removeprefix(number)}'")
        try:
            self.run(f"INSERT INTO {self.at(name)} FROM rows_to_load")
        finally:
            self.run(f"SET memory_limit = '{self.memory_limit}'")
            self._cursor.unregister("rows_to_load")

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
            opened = _Duckdb(connection, f"duckdb:{path}", schema)
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
    with _Duckdb.dialect.translated(f"duckdb:{path}"), opening as connection:
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

    dialect = DIALECTS["snowflake"]

    def ingest(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Put the rows on the stage file by file, then copy them all into the table."""
        stage, count = f"@{self._schema}.%{name}", 0
        with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
            for count, group in enumerate(row_groups(rows), 1):
                path = Path(folder) / f"{count:06}.parquet"
                pq.write_table(group, path, compression="zstd")
                self.run(f"PUT 'file://{path}' {stage} AUTO_COMPRESS = FALSE OVERWRITE = TRUE")
                path.unlink()
        if count:
            self.run(
                f"COPY INTO {self.at(name)} FROM {stage} PURGE = TRUE "
                "FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
            )


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
    name, secret = f"snowflake://{parts.hostname}{parts.path}", os.environ.get(_PASSWORD, "")
    with _Snowflake.dialect.translated(name, secret):
        # Statements begin and end the transactions.
        options = _snowflake_options(parts.hostname, parts.path.strip("/"), parts.query, schema)
        connection = driver.connect(db_kwargs=options, autocommit=True)
    with connection, connection.cursor() as cursor:
        opened = _Snowflake(cursor, name, schema, secret)
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

    dialect = DIALECTS["bigquery"]

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self.translated():
            return list(self.iterate(statement))

    def iterate(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows page by page."""
        return (row.values() for row in self._cursor.query(query).result())

    def ingest(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Write rows to one Parquet file, and load it by one job, which appends all rows or none."""
        from google.cloud.bigquery import LoadJobConfig

        with tempfile.TemporaryFile(prefix="firmlake-", suffix=".parquet") as file:
            with pq.ParquetWriter(file, rows.schema, compression="zstd") as writer:
                for group in row_groups(rows):
                    writer.write_table(group)
            file.seek(0)
            if pq.read_metadata(file).num_rows:
                how = LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND")
                how.create_disposition = "CREATE_NEVER"
                place = f"{self._cursor.project}.{self.at(name)}"
                with self.translated():
                    self._cursor.load_table_from_file(file, place, rewind=True, job_config=how).result()


@contextmanager
def _open_bigquery(address: str, schema: str) -> Iterator[Database]:
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/") or schema
    if not project or "@" in project or not _DATASET.fullmatch(dataset):
        raise UsageError("The address of BigQuery is invalid", "Write bigquery://PROJECT/DATASET?location=EU")
    with needed("BigQuery", "Google's client", "bigquery"):
        from google.api_core.exceptions import NotFound
        from google.cloud import bigquery
    name, location = f"bigquery://{project}/{dataset}", dict(parse_qsl(parts.query)).get("location")
    with _Bigquery.dialect.translated(name):
        client = bigquery.Client(project, location=location)
        try:
            found = client.get_dataset(dataset)
        except NotFound:
            if location is None:
                raise UsageError(
                    f"{name} does not exist, and the address names no location to create it in",
                    "Add a location, such as ?location=EU",
                ) from None
            found = client.create_dataset(dataset, exists_ok=True)
        client = bigquery.Client(project, location=found.location)  # a session works in one location
        session = client.query("SELECT 1", job_config=bigquery.QueryJobConfig(create_session=True))
        session.result()
        client.default_query_job_config = bigquery.QueryJobConfig(
            connection_properties=[bigquery.ConnectionProperty("session_id", session.session_info.session_id)]
        )
    opened = _Bigquery(client, name, dataset)
    try:
        yield opened
    finally:
        with suppress(FirmlakeError):  # BigQuery would otherwise keep the session for a day
            opened.run("CALL BQ.ABORT_SESSION()")
        client.close()
