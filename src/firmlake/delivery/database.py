"""A database as the target of loads: tables are staged one by one, then published together in one transaction.

_firmlake_loading_<table>           the rows of a table while they are sent
_firmlake_staging_<load>_<table>    all rows of a table, so that an interrupted load can resume
_firmlake_loads                     one row for each load, written in the transaction that publishes the tables
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

import duckdb
import msgspec
import pyarrow as pa

from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError, Translation, translated
from firmlake.core.sql import quote_name, quote_text
from firmlake.delivery.files import Source
from firmlake.delivery.record import ColumnShape, DeliveredTable, Record, describe_table
from firmlake.delivery.selection import CHANGE
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table, comment_of

Shape = tuple[tuple[str, str], ...]
"""Name and type of each column of a table, as the database spells them."""

LOADS = Table(
    "_firmlake_loads",
    "A load by firmlake; the newest row describes the current contents of the other tables",
    ("load_id",),
    (
        Column("load_id", "text", "Name of the load, derived from its content"),
        Column("loaded_at", "timestamp", "When the load was committed, UTC"),
        Column("mode", "text", "whole, or changes since base_generation"),
        Column("run_id", "text", "Last run included"),
        Column("generation", "integer", "Generation of the warehouse that was loaded"),
        Column("published_at", "timestamp", "When that generation was published, UTC"),
        Column("made_at", "text", "Time and size of the file of that generation, to tell it from another"),
        Column("base_generation", "integer", "Generation whose changes were loaded", "the load was whole"),
        Column("schema_version", "integer", "Version of the shape of the tables"),
        Column("firmlake_version", "text", "Version of firmlake"),
        Column("tables", "json", "Columns and types of each table that was loaded"),
        Column("row_counts", "json", "Rows that were staged for each table: all rows, or the changed ones"),
    ),
)

_LOADING, _STAGING = "_firmlake_loading_", "_firmlake_staging_"
ROWS_AT_ONCE = 50_000
"""Rows that are read from a database at once."""
_DUCKDB_TYPES = ("VARCHAR", "BIGINT", "DECIMAL", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMPTZ")
"""The types of exported columns, as DuckDB and manifests spell them. DECIMAL is followed by precision and scale."""


class Dialect(NamedTuple):
    """How the SQL of one database differs from the others, and the statements that loads and scripts consist of.

    Attributes:
        types: Its spelling of `_DUCKDB_TYPES`.
        quote: The character around names; empty if names are not quoted, so that users need not quote them either.
        comment: A comment as part of a column or table; empty if comments are separate statements.
        has_keys: Whether primary keys are declared.
        has_backslashes: Whether backslashes escape quotes in texts; otherwise a quote is doubled.
        has_apart_ddl: Whether tables are created, altered and dropped outside transactions, because the database would
            commit the transaction or refuse the statement.
    """

    types: tuple[str, ...]
    quote: str = '"'
    comment: str = ""
    has_keys: bool = False
    has_backslashes: bool = False
    has_apart_ddl: bool = False

    def quoted(self, name: str) -> str:
        """Return the name of a column as statements spell it."""
        return f"{self.quote}{name}{self.quote}"

    def schema(self, name: str) -> str:
        """Return the name of a schema as statements spell it."""
        return quote_name(name) if self.quote == '"' else name

    def names(self, table: DeliveredTable) -> str:
        """Return the names of a table's columns as statements list them."""
        return ", ".join(self.quoted(column.name) for column in table.columns)

    def type(self, duckdb_type: str) -> str:
        """Return the spelling of a type that DuckDB spells like this."""
        name, bracket, size = duckdb_type.partition("(")
        return self.types[_DUCKDB_TYPES.index(name)] + bracket + size

    def literal(self, value: object) -> str:
        """Return a value as statements spell it."""
        if value is None or isinstance(value, int):
            return "NULL" if value is None else str(value)
        if self.has_backslashes:
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        return quote_text(value)

    def create_table(self, name: str, table: DeliveredTable, more: str = "") -> str:
        """Create an empty table with these columns; `more` stands before its name."""
        lines = (f"  {self._declared(column, '' if column.nullable else ' NOT NULL')}" for column in table.columns)
        comment = self._inline(comment_of(table.meaning, table.key))
        return f"CREATE TABLE {more}{name} (\n" + ",\n".join(lines) + f"\n){comment}"

    def add_column(self, name: str, column: ColumnShape) -> str:
        """Add a column. It is null until the rows are replaced."""
        return f"ALTER TABLE {name} ADD COLUMN {self._declared(column)}"

    def add_key(self, name: str, table: DeliveredTable) -> Iterator[str]:
        """Declare the primary key, if the database has keys and no column of the key may be null."""
        if self.has_keys and table.strict_key:
            yield f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(self.quoted, table.key))})"

    def comments(self, name: str, table: DeliveredTable) -> Iterator[str]:
        """Set the comments of the table and its columns, unless the statement that creates the table includes them."""
        if self.comment:
            return
        yield f"COMMENT ON TABLE {name} IS {self.literal(comment_of(table.meaning, table.key))}"
        for column in table.columns:
            yield f"COMMENT ON COLUMN {name}.{self.quoted(column.name)} IS {self.literal(column.comment)}"

    def replace_rows(self, name: str, staged: str, table: DeliveredTable) -> Iterator[str]:
        """Make a table hold exactly the staged rows, writing only those that differ.

        Readers with an open transaction keep what they saw, and views on the table stay valid.
        """
        rest = (column.name for column in table.columns if column.name not in table.key)
        same_key, columns = self._same_key(name, staged, table), self.names(table)
        same_row = [same_key, *(self._compared(name, staged, column, "IS NOT DISTINCT FROM") for column in rest)]
        yield f"DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM {staged} WHERE {' AND '.join(same_row)})"
        yield (
            f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE {same_key})"
        )

    def apply_changes(self, name: str, staged: str, table: DeliveredTable) -> Iterator[str]:
        """Apply the staged changes to a table that holds the previous generation."""
        columns = self.names(table)
        yield f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {self._same_key(name, staged, table)})"
        yield f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {staged} WHERE {CHANGE.name} <> 'delete'"

    def _declared(self, column: ColumnShape, null: str = "") -> str:
        return f"{self.quoted(column.name)} {self.type(column.type)}{null}{self._inline(column.comment)}"

    def _inline(self, comment: str) -> str:
        return " " + self.comment.format(self.literal(comment)) if self.comment else ""

    def _same_key(self, name: str, staged: str, table: DeliveredTable) -> str:
        nullable = {column.name for column in table.columns if column.nullable}
        operators = {key: "IS NOT DISTINCT FROM" if key in nullable else "=" for key in table.key}
        return " AND ".join(self._compared(name, staged, key, operator) for key, operator in operators.items())

    def _compared(self, name: str, staged: str, column: str, operator: str) -> str:
        """Compare a column of two tables, without their schema, which not every database allows before a column."""
        bare_staged, bare_name = staged.rpartition(".")[2], name.rpartition(".")[2]
        return f"{bare_staged}.{self.quoted(column)} {operator} {bare_name}.{self.quoted(column)}"


# With a primary key, DuckDB rejects a row that is deleted and inserted again in one transaction.
DUCKDB = Dialect(_DUCKDB_TYPES)
POSTGRES = Dialect(
    ("text", "bigint", "numeric", "double precision", "boolean", "date", "timestamp with time zone"), has_keys=True
)
# Its COPY refuses to put the times of Parquet files into a column with a zone; they are in UTC.
REDSHIFT = Dialect(("VARCHAR(MAX)", "BIGINT", "DECIMAL", "DOUBLE PRECISION", "BOOLEAN", "DATE", "TIMESTAMP"))
SNOWFLAKE = Dialect(
    ("VARCHAR", "NUMBER(38,0)", "NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_TZ"),
    quote="",
    has_backslashes=True,
    has_apart_ddl=True,
)
BIGQUERY = Dialect(
    ("STRING", "INT64", "NUMERIC", "FLOAT64", "BOOL", "DATE", "TIMESTAMP"),
    quote="`",
    comment="OPTIONS (description = {})",
    has_backslashes=True,
    has_apart_ddl=True,
)
DATABRICKS = Dialect(
    ("STRING", "BIGINT", "DECIMAL", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"),
    quote="`",
    comment="COMMENT {}",
    has_backslashes=True,
)


class Database:
    """The tables of one schema in a database, as the target of loads; `drivers` has a subclass for each database.

    It raises `FirmlakeError`s, whose messages never hold credentials.

    Args:
        cursor: Runs statements, as the DB-API says; each is its own transaction unless one was begun.
        name: The database without credentials, for messages and records.
        schema: The schema of the tables, which exists, as users spell it.
        translations: What the user does about errors of the library.
        secret: A text to hide in messages.

    Attributes:
        key: Names the record and the lock of the target in the data folder.
        address: What `drivers` opened.
        now: The clock, UTC.
    """

    dialect: ClassVar[Dialect]
    columns_query: ClassVar[str]
    """Selects table, name and type of each column in the schema, in order, with types as the database spells them."""
    remnants: ClassVar[str] = ""
    """Where the database `{name}` itself keeps deleted rows, for the user."""
    next_step = "Load into another schema (--schema), or add --take-over to replace what it holds"
    logs_deliveries = True

    def __init__(self, cursor: Any, name: str, schema: str, *translations: Translation, secret: str = "") -> None:
        self._cursor, self._schema = cursor, schema
        self._translations, self._secret = translations, secret
        self.name = self.address = name
        self.key = f"{name} {schema}"
        self.now = utc_now
        self._last_loaded_at: datetime | None = None
        self._loaded_columns: dict[str, set[str]] = {}

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self.translated():
            self._cursor.execute(statement)
            return self._cursor.fetchall() if self._cursor.description else []

    def read_parts(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts, so that a large table need not fit into memory."""
        with self.translated():
            self._cursor.execute(statement)
            while rows := self._cursor.fetchmany(ROWS_AT_ONCE):
                yield rows

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Write batches into an empty table, and return the number of rows."""
        raise NotImplementedError

    def reclaim(self, tables: Sequence[str]) -> str:  # noqa: ARG002
        """Overwrite or free the space of deleted rows; return where they may still be, or an empty text."""
        return self.remnants.format(name=self.name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. An error rolls it back."""
        self.run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            with suppress(FirmlakeError):  # the connection may be gone, and the transaction with it
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def translated(self) -> AbstractContextManager[None]:
        """Turn errors of the library into one line."""
        return translated(self.name, *self._translations, secret=self._secret)

    def held(self) -> Record | None:
        """Read the record of the newest load; None before the first."""
        if LOADS.name not in self.shapes():
            return None
        columns = ", ".join(column.name for column in LOADS.columns)
        rows = self.run(f"SELECT {columns} FROM {self.at(LOADS.name)} ORDER BY loaded_at DESC, generation DESC LIMIT 1")
        if not rows:
            return None
        self._last_loaded_at, record = _without_zone(rows[0][1]), _record_of(rows[0])
        self._loaded_columns = {table.name: {column.name for column in table.columns} for table in record.tables}
        return record

    def choose_tables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Add the tables that earlier loads put into the schema, so that all its tables are of the same generation."""
        existing = self.shapes()
        kept = (name for name in WAREHOUSE_TABLES if name in self._loaded_columns and name in existing)
        return tuple(dict.fromkeys((*names, *kept)))

    def differences(self, connection: duckdb.DuckDBPyConnection, prefix: str, held: Record) -> Iterator[str]:
        """Yield how the schema differs from what was loaded: tables, columns and types first, then counts.

        A value that somebody replaced by another value goes unnoticed, because finding it would take reading every row.

        Args:
            connection: The warehouse.
            prefix: Where it holds the generation that was loaded last.
            held: The last load.
        """
        existing = self.shapes()
        for table in held.tables:
            shape = dict(existing.get(table.name, ()))
            if not shape:
                yield f"{table.name} is gone"
            for column in table.columns:
                if column.name not in shape:
                    yield f"{table.name} has no column {column.name}"
                elif shape[column.name] != column.type:
                    yield f"{table.name}.{column.name} is {shape[column.name]} instead of {column.type}"
        for table in held.tables:
            columns = [column.name for column in table.columns]
            counted = ", ".join(("count(*)", *(f"count({column})" for column in columns)))
            expected = connection.execute(f"SELECT {counted} FROM {prefix}{table.name}").fetchall()[0]
            for name, count, wanted in zip(("", *columns), self._count(table.name, columns), expected, strict=True):
                if count != wanted:
                    what = f"values of {name}" if name else "rows"
                    yield f"{table.name} has {count:,} {what} instead of {wanted:,}"

    def begin(self, record: Record) -> set[str]:
        """Create the table of records, and remove what other or killed loads staged.

        Returns:
            The names of the tables that this load has already staged.
        """
        existing = self.shapes()
        if LOADS.name not in existing:
            with self._ddl():
                self.run(self.dialect.create_table(self.at(LOADS.name), describe_table(LOADS)))
                self._comment(describe_table(LOADS))
        ours = _staging(record, "")
        with self._ddl():
            for name in existing:
                if name.startswith((_LOADING, _STAGING)) and not name.startswith(ours):
                    self.run(f"DROP TABLE {self.at(name)}")
        return {name.removeprefix(ours) for name in existing if name.startswith(ours)}

    def put(self, record: Record, source: Source) -> DeliveredTable:
        """Stage the rows of a table, and commit them, unless an earlier attempt did.

        If these are all rows, the staged table may later become the table itself.
        """
        name, staged = source.table.name, _staging(record, source.table.name)
        described = describe_table(source.table)
        if staged in self.shapes():
            return msgspec.structs.replace(described, row_count=self._count(staged, ())[0])
        loading = f"{_LOADING}{name}"
        with self._ddl():
            self.run(self.dialect.create_table(self.at(loading), described))
            count = self.ingest(loading, source.table, source.batches(source.table))
            for statement in self.dialect.add_key(self.at(loading), described) if record.mode == "whole" else ():
                self.run(statement)
            self.run(f"ALTER TABLE {self.at(loading)} RENAME TO {staged}")
        return msgspec.structs.replace(described, row_count=count)

    def publish(self, record: Record) -> bool:
        """Publish all tables in one transaction. Readers see either the previous load or this one.

        New tables and columns are empty until then, if the database has no transactions for statements that make them.

        Returns:
            True: a load is always written.

        Raises:
            FirmlakeError: A table with one of these names exists, but no load made it. Choose another schema.
        """
        existing = self.shapes()
        tables = [msgspec.structs.replace(table, columns=table.own_columns) for table in record.tables]
        shapes = {
            table.name: tuple(column for column in existing[_staging(record, table.name)] if column[0] != CHANGE.name)
            for table in tables
        }
        make_rows = self.dialect.apply_changes if record.mode == "changes" else self.dialect.replace_rows
        with self._ddl():
            to_fill = {
                table.name: _staging(record, table.name)
                for table in tables
                if not self._become(record, table, shapes[table.name], existing.get(table.name))
            }
            with self.transaction() if self.dialect.has_apart_ddl else nullcontext():
                for table in tables:
                    if table.name in to_fill:
                        for statement in make_rows(self.at(table.name), self.at(to_fill[table.name]), table):
                            self.run(statement)
                values = ", ".join(map(self.dialect.literal, _row_of(record, shapes, self._loaded_at())))
                self.run(f"INSERT INTO {self.at(LOADS.name)} VALUES ({values})")
            for staged in to_fill.values():
                self.run(f"DROP TABLE {self.at(staged)}")
        return True

    def shapes(self) -> dict[str, Shape]:
        """Return the columns of each table that is now in the schema, whoever made it."""
        query = self.columns_query.format(schema=self._schema, text=quote_text(self._schema))
        shapes: dict[str, Shape] = {}
        for table, column, kind in self.run(query):
            shapes[table] = (*shapes.get(table, ()), (column, kind))
        return shapes

    def read(self, table: Table) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a loaded table in parts."""
        columns = ", ".join(self.dialect.quoted(column.name) for column in table.columns)
        return self.read_parts(f"SELECT {columns} FROM {self.at(table.name)}")

    def at(self, name: str) -> str:
        """Return the name of a table as statements spell it."""
        return f"{self.dialect.schema(self._schema)}.{name}"

    def _become(self, record: Record, table: DeliveredTable, staged: Shape, existing: Shape | None) -> bool:
        """Make a table fit for the staged rows; return whether the staged table itself has become the table.

        Raises:
            FirmlakeError: No load made the table, or the type of a column has changed and the table must be dropped.
        """
        name = self.at(table.name)
        if existing is not None and not self._is_ours(table.name, existing, staged):
            raise FirmlakeError(
                f"{self.name}: {name} exists, but no load of firmlake made it", "Load into another schema (--schema)"
            )
        if existing is not None and self._fits(table.name, existing, staged):
            new_columns = [column for column in table.columns if column.name not in dict(existing)]
            for column in new_columns:
                self.run(self.dialect.add_column(name, column))
            if new_columns:
                self._comment(table)
            return False
        if existing is not None and (self.dialect.has_apart_ddl or record.mode == "changes"):
            raise FirmlakeError(
                f"{self.name}: the type of a column in {name} has changed", f"Drop {name}, then load again"
            )
        if existing is not None:
            self.run(f"DROP TABLE {name}")
        if self.dialect.has_apart_ddl:
            self.run(self.dialect.create_table(name, table))
        else:
            self.run(f"ALTER TABLE {self.at(_staging(record, table.name))} RENAME TO {table.name}")
        self._comment(table)
        return not self.dialect.has_apart_ddl

    def _is_ours(self, name: str, existing: Shape, staged: Shape) -> bool:
        """Return whether a load made a table, which may have been killed before it filled the table."""
        is_empty_copy = [column for column, _ in existing] == [column for column, _ in staged]
        return name in self._loaded_columns or (
            self.dialect.has_apart_ddl and is_empty_copy and self._count(name, ()) == [0]
        )

    def _fits(self, name: str, existing: Shape, staged: Shape) -> bool:
        """Return whether rows can be put into a table as it is: its columns have the right types, and none is outdated.

        Columns that somebody else added do not matter.
        """
        columns, loaded = dict(staged), self._loaded_columns.get(name, ())
        return all(columns.get(column) == kind for column, kind in existing if column in columns or column in loaded)

    def _ddl(self) -> AbstractContextManager[object]:
        """Begin a transaction for statements that also create or drop tables, if the database has such transactions."""
        return nullcontext() if self.dialect.has_apart_ddl else self.transaction()

    def _loaded_at(self) -> datetime:
        """Return the time; the newest load stays the last one even if a clock was set back."""
        now = self.now().replace(tzinfo=None)
        return max(now, self._last_loaded_at + timedelta(microseconds=1)) if self._last_loaded_at else now

    def _count(self, name: str, columns: Iterable[str]) -> list[int]:
        """Count the rows of a table, then the values of each column that are not null."""
        counted = ", ".join(("count(*)", *(f"count({self.dialect.quoted(column)})" for column in columns)))
        return [int(count) for count in self.run(f"SELECT {counted} FROM {self.at(name)}")[0]]

    def _comment(self, table: DeliveredTable) -> None:
        for statement in self.dialect.comments(self.at(table.name), table):
            self.run(statement)


def _staging(record: Record, name: str) -> str:
    return f"{_STAGING}{record.delivery_id.rpartition('-')[2]}_{name}"


def _row_of(record: Record, shapes: Mapping[str, Shape], loaded_at: datetime) -> tuple[Any, ...]:
    """Return the row of a load, in the column order of `LOADS`."""
    values = msgspec.structs.asdict(record) | {
        "load_id": record.delivery_id,
        "loaded_at": loaded_at.replace(tzinfo=UTC),
        "published_at": record.published_at.replace(tzinfo=UTC),
        "tables": msgspec.json.encode(shapes).decode(),
        "row_counts": msgspec.json.encode(record.row_counts).decode(),
    }
    return tuple(values[column.name] for column in LOADS.columns)


def _record_of(row: tuple[Any, ...]) -> Record:
    """Read a row of `_firmlake_loads`. Times are in UTC, without a zone; some drivers return decimals for integers."""
    values = dict(zip((column.name for column in LOADS.columns), row, strict=True))
    row_counts = msgspec.json.decode(values["row_counts"], type=dict[str, int])
    tables = tuple(
        DeliveredTable(name, "", (), tuple(ColumnShape(*each, True, "") for each in shape), row_counts.get(name, 0))
        for name, shape in msgspec.json.decode(values["tables"], type=dict[str, Shape]).items()
    )
    base = values["base_generation"]
    return Record(
        delivery_id=values["load_id"],
        format="",
        generation=int(values["generation"]),
        published_at=_without_zone(values["published_at"]),
        schema_version=int(values["schema_version"]),
        base_generation=None if base is None else int(base),
        tables=tables,
        **{name: values[name] for name in ("mode", "run_id", "made_at", "firmlake_version")},
    )


def _without_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
