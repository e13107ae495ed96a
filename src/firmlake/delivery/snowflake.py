"""A Snowflake schema as the target of loads: Parquet files are put on a stage, then copied into the tables.

This was tested without a Snowflake account: a local endpoint answered the requests of the real ADBC driver.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import Translation, UsageError, needed, translated
from firmlake.delivery.dialects import SNOWFLAKE
from firmlake.delivery.files import row_groups
from firmlake.tables.schemas import Table

_ROWS = 50_000
_KEY_FILE = "SNOWFLAKE_PRIVATE_KEY_PATH"
_PASSWORD = "SNOWFLAKE_PASSWORD"  # noqa: S105 - the name of the variable
_OPTION = "adbc.snowflake.sql."


class SnowflakeConnection:
    """A connection that works on one schema; see `firmlake.delivery.database.Connection`."""

    dialect = SNOWFLAKE

    def __init__(self, connection: Any, name: str, schema: str) -> None:
        self._connection = connection
        self.name = name
        self.schema = schema

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with _translated(self.name), self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:  # noqa: ARG002
        """Write batches as Parquet, put the files on the table's own stage, and copy them in."""
        count, stage = 0, f"@{self.schema}.%{name}"
        with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
            for number, rows in enumerate(row_groups(batches)):
                path = Path(folder) / f"{number:06}.parquet"
                pq.write_table(rows, path, compression="zstd")
                self.run(f"PUT 'file://{path}' {stage} AUTO_COMPRESS = FALSE OVERWRITE = TRUE")
                path.unlink()
                count += rows.num_rows
        if count:
            self.run(
                f"COPY INTO {self.schema}.{name} FROM {stage} PURGE = TRUE "
                "FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
            )
        return count

    def read(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts."""
        with _translated(self.name), self._connection.cursor() as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_ROWS):
                yield rows

    def reclaim(self, tables: Sequence[str]) -> str:  # noqa: ARG002
        """Return how long Snowflake itself keeps deleted rows."""
        return f"{self.name} keeps deleted rows for its Time Travel (DATA_RETENTION_TIME_IN_DAYS), then for Fail-safe"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. An error rolls it back."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def create_schema(self) -> None:
        """Create the schema unless it exists."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")

    def columns(self) -> list[tuple[Any, ...]]:
        """List table, name and type of each column in the schema, in order; names in lower case."""
        rows = self.run(
            "SELECT table_name, column_name, "  # noqa: S608 - a checked name
            "data_type || COALESCE('(' || numeric_precision || ',' || numeric_scale || ')', '') "
            f"FROM information_schema.columns WHERE table_schema = '{self.schema.upper()}' "
            "ORDER BY table_name, ordinal_position"
        )
        return [(table.lower(), column.lower(), kind) for table, column, kind in rows]


@contextmanager
def open_snowflake(address: str, schema: str) -> Iterator[SnowflakeConnection]:
    """Connect to a Snowflake database.

    Args:
        address: `snowflake://ACCOUNT/DATABASE?warehouse=NAME&role=NAME`. The login comes from SNOWFLAKE_USER with
            SNOWFLAKE_PRIVATE_KEY_PATH (a PKCS 8 file) or SNOWFLAKE_PASSWORD.
        schema: The schema of the tables.

    Raises:
        UsageError: The address is invalid or holds a password, the schema name is not plain, or the driver is missing.
        FirmlakeError: Snowflake refuses the login, or cannot be reached. Check the login, then load again.
    """
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
    name = f"snowflake://{parts.hostname}{parts.path}"
    with _translated(name):
        # Statements begin and end the transactions.
        options = _options(parts.hostname, parts.path.strip("/"), parts.query, schema)
        connection = driver.connect(db_kwargs=options, autocommit=True)
    with connection:
        yield SnowflakeConnection(connection, name, schema)


# ---------------------------------------------------------------------------------------------------------------------


def _options(account: str, database: str, query: str, schema: str) -> dict[str, str]:
    """Return the options of the driver. SNOWFLAKE_HOST and SNOWFLAKE_PORT are for private links and tests."""
    options = {
        "username": os.environ.get("SNOWFLAKE_USER", ""),
        f"{_OPTION}account": account,
        f"{_OPTION}db": database,
        f"{_OPTION}schema": schema.upper(),
        f"{_OPTION}client_option.app_name": "firmlake",
        f"{_OPTION}client_option.disable_telemetry": "true",
    }
    options |= {f"{_OPTION}{key}": value for key, value in parse_qsl(query) if key in ("warehouse", "role", "region")}
    for key, variable in (("host", "SNOWFLAKE_HOST"), ("port", "SNOWFLAKE_PORT"), ("protocol", "SNOWFLAKE_PROTOCOL")):
        if value := os.environ.get(variable):
            options[f"{_OPTION}uri.{key}"] = value
    if key_file := os.environ.get(_KEY_FILE):
        options[f"{_OPTION}auth_type"] = "auth_jwt"
        options[f"{_OPTION}client_option.jwt_private_key"] = key_file
    else:
        options["password"] = os.environ.get(_PASSWORD, "")
    return options


def _translated(name: str) -> AbstractContextManager[None]:
    from adbc_driver_manager import Error

    mend = "Check it, SNOWFLAKE_USER, its key or password, and its rights; then load again to resume"
    return translated(name, Translation(Error, mend), secret=os.environ.get(_PASSWORD, ""))
