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
from itertools import islice, starmap
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar

import duckdb
import msgspec
import pyarrow as pa

from firmlake.core.errors import FirmlakeError, Translation, translated
from firmlake.core.sql import quote_name, quote_text, read_queries
from firmlake.core.work import utc_now
from firmlake.delivery.record import ColumnShape, DeliveredTable, Record, describe_table
from firmlake.delivery.selection import CHANGE, Source
from firmlake.tables.schemas import WAREHOUSE_TABLES, Table, comment_of, read_tables

_SQL = read_queries(__file__)

Shape = tuple[tuple[str, str], ...]
"""Name and type of each column of a table, as the database spells them."""

LOADS = read_tables(Path(__file__).with_name("loads.toml").read_text("utf-8"))["_firmlake_loads"]

_WHOLE, _CHANGES = ("delete_others", "insert_missing"), ("delete_changed", "insert_changed")
"""Statements of database.sql that fill a table; nothing is to be deleted from a new one."""
_LOADING, _STAGING = "_firmlake_loading_", "_firmlake_staging_"
_ROWS_AT_ONCE = 50_000
"""Rows that are read from a database at once."""


class LibraryError(msgspec.Struct, frozen=True):
    """What the user does about some errors of a database's library: `types` are like module:name; see `Translation`."""

    types: tuple[str, ...]
    next_step: str
    message: str = "{where}: {reason}"


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How the SQL of one database differs from DuckDB's: a row of `dialects.toml`.

    Attributes:
        types: Its spelling of types that it spells differently. DECIMAL is followed by precision and scale.
        quote: The character around names; empty if names are not quoted, so that users need not quote them either.
        comment: A comment as part of a column or table; empty if comments are separate statements.
        has_keys: Whether primary keys are declared.
        has_backslashes: Whether backslashes escape quotes in texts; otherwise a quote is doubled.
        has_apart_ddl: Whether tables are created, altered and dropped outside transactions, because the database would
            commit the transaction or refuse the statement.
        columns: A query for table, name and type of each column in a schema, in order, with its own spelling of types.
        remnants: Where the database `{name}` itself keeps deleted rows, for the user.
        addresses: How a script of `export --ddl` spells the address of an export, by scheme; others it cannot load.
        errors: The first that fits an error is taken.
    """

    types: dict[str, str] = {}
    quote: str = '"'
    comment: str = ""
    has_keys: bool = False
    has_backslashes: bool = False
    has_apart_ddl: bool = False
    columns: str = ""
    remnants: str = ""
    addresses: dict[str, str] = {}
    errors: tuple[LibraryError, ...] = ()

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
        return self.types.get(name, name) + bracket + size

    def literal(self, value: object) -> str:
        """Return a value as statements spell it."""
        if value is None or isinstance(value, int):
            return "NULL" if value is None else str(value)
        if self.has_backslashes:
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        return quote_text(value)

    def translated(self, where: str, secret: str = "") -> AbstractContextManager[None]:
        """Turn errors of the database's library, without a secret, into one line."""
        found = ((tuple(map(resolve_name, each.types)), each.next_step, each.message) for each in self.errors)
        return translated(where, *starmap(Translation, found), secret=secret)

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
        if self.has_keys and table.has_strict_key:
            yield f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(self.quoted, table.key))})"

    def comments(self, name: str, table: DeliveredTable) -> Iterator[str]:
        """Set the comments of the table and its columns, unless the statement that creates the table includes them."""
        if self.comment:
            return
        yield f"COMMENT ON TABLE {name} IS {self.literal(comment_of(table.meaning, table.key))}"
        for column in table.columns:
            yield f"COMMENT ON COLUMN {name}.{self.quoted(column.name)} IS {self.literal(column.comment)}"

    def _declared(self, column: ColumnShape, null: str = "") -> str:
        return f"{self.quoted(column.name)} {self.type(column.type)}{null}{self._inline(column.comment)}"

    def _inline(self, comment: str) -> str:
        return " " + self.comment.format(self.literal(comment)) if self.comment else ""


DIALECTS = msgspec.toml.decode(Path(__file__).with_name("dialects.toml").read_bytes(), type=dict[str, Dialect])
"""The databases of loads, and the warehouses of scripts."""


class Database:
    """The tables of one schema in a database, as the target of loads; `drivers` has a subclass for each database.

    It raises `FirmlakeError`s, whose messages never hold credentials.

    Args:
        cursor: Runs statements, as the DB-API says; each is its own transaction unless one was begun.
        name: The database without credentials, for messages and records.
        schema: The schema of the tables, which exists, as users spell it.
        secret: A text to hide in messages.

    Attributes:
        key: Names the record and the lock of the target in the data folder.
        address: What `drivers` opened.
    """

    dialect: ClassVar[Dialect]
    next_step = "Load into another schema (--schema), or add --take-over to replace what it holds"
    logs_deliveries = True

    def __init__(self, cursor: Any, name: str, schema: str, secret: str = "") -> None:
        self._cursor, self._schema, self._secret = cursor, schema, secret
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

    def run_all(self, statements: Iterable[str]) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.run(statement)

    def iterate(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows, which need not fit into memory."""
        self._cursor.execute(query)
        return iter(self._cursor.fetchone, None)

    def ingest(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Write rows into an empty table."""
        raise NotImplementedError

    def reclaim(self, tables: Sequence[str]) -> str:  # noqa: ARG002
        """Overwrite or free the space of deleted rows; return where they may still be, or an empty text."""
        return self.dialect.remnants.format(name=self.name)

    def translated(self) -> AbstractContextManager[None]:
        """Turn errors of the library into one line."""
        return self.dialect.translated(self.name, self._secret)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. An error rolls it back."""
        self.run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:  # a signal too: half a load must not be committed
            with suppress(FirmlakeError):  # the connection may be gone, and the transaction with it
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

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
        """Yield how the schema differs from the load `held`: tables, columns and types first, then counts.

        A value that somebody replaced by another value goes unnoticed, because finding it would take reading every row.
        `prefix` is where the connection has the generation that was loaded.
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
        """Create the table of records, remove what other or killed loads staged, and return what this one staged."""
        existing, ours = self.shapes(), _staging(record, "")
        rests = [name for name in existing if name.startswith((_LOADING, _STAGING)) and not name.startswith(ours)]
        with self._ddl():
            if LOADS.name not in existing:
                self._create(describe_table(LOADS))
            self.run_all(f"DROP TABLE {self.at(name)}" for name in rests)
        return {name.removeprefix(ours) for name in existing if name.startswith(ours)}

    def put(self, record: Record, source: Source) -> DeliveredTable:
        """Stage the rows of a table, and commit them, unless an earlier attempt did."""
        described = describe_table(source.table)
        loading, staged = f"{_LOADING}{described.name}", _staging(record, described.name)
        if staged not in self.shapes():
            with self._ddl():
                self.run(self.dialect.create_table(self.at(loading), described))
                self.ingest(loading, source.read())
                self.run(f"ALTER TABLE {self.at(loading)} RENAME TO {staged}")
        columns = tuple(column for column in described.columns if column.name != CHANGE.name)
        return msgspec.structs.replace(described, columns=columns, row_count=self._count(staged, ())[0])

    def publish(self, record: Record) -> bool:
        """Publish all tables in one transaction. Readers see either the previous load or this one.

        New tables and columns are empty until then, if the database has no transactions for statements that make them.
        Always returns True. Raises FirmlakeError if a table of such a name exists, but no load made it.
        """
        existing = self.shapes()
        staged = {
            table.name: tuple(column for column in existing[_staging(record, table.name)] if column[0] != CHANGE.name)
            for table in record.tables
        }
        with self._ddl():
            is_new = {
                table.name: self._prepare(table, shape, existing.get(table.name), is_whole=record.mode != "changes")
                for table, shape in zip(record.tables, staged.values(), strict=True)
            }
            with self.transaction() if self.dialect.has_apart_ddl else nullcontext():
                for table in record.tables:
                    statements = _CHANGES if record.mode == "changes" else _WHOLE[is_new[table.name] :]
                    self._fill(table, _staging(record, table.name), statements)
                    if is_new[table.name]:
                        self.run_all(self.dialect.add_key(self.at(table.name), table))
                values = ", ".join(map(self.dialect.literal, _row_of(record, staged, self._loaded_at())))
                self.run(f"INSERT INTO {self.at(LOADS.name)} VALUES ({values})")
            self.run_all(f"DROP TABLE {self.at(_staging(record, name))}" for name in staged)
        return True

    def shapes(self) -> dict[str, Shape]:
        """Return the columns of each table that is now in the schema, whoever made it."""
        query = self.dialect.columns.format(schema=self._schema, text=quote_text(self._schema))
        shapes: dict[str, Shape] = {}
        for table, column, kind in self.run(query):
            shapes[table] = (*shapes.get(table, ()), (column, kind))
        return shapes

    def read(self, table: Table) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a loaded table in parts."""
        columns = ", ".join(self.dialect.quoted(column.name) for column in table.columns)
        with self.translated():
            rows = self.iterate(f"SELECT {columns} FROM {self.at(table.name)}")
            while part := list(islice(rows, _ROWS_AT_ONCE)):
                yield part

    def at(self, name: str) -> str:
        """Return the name of a table as statements spell it."""
        return f"{self.dialect.schema(self._schema)}.{name}"

    def _prepare(self, table: DeliveredTable, staged: Shape, existing: Shape | None, *, is_whole: bool) -> bool:
        """Make a table fit for the staged rows; return whether it is new, and so empty."""
        name = self.at(table.name)
        if existing is not None and not self._is_ours(table.name, existing, staged):
            raise FirmlakeError(
                f"{self.name}: {name} exists, but no load of firmlake made it", "Load into another schema (--schema)"
            )
        if existing is not None and self._fits(table.name, existing, staged):
            if new := [column for column in table.columns if column.name not in dict(existing)]:
                self.run_all(self.dialect.add_column(name, column) for column in new)
                self.run_all(self.dialect.comments(name, table))
            return False
        if existing is not None and (self.dialect.has_apart_ddl or not is_whole):
            raise FirmlakeError(
                f"{self.name}: the type of a column in {name} has changed", f"Drop {name}, then load again"
            )
        if existing is not None:
            self.run(f"DROP TABLE {name}")
        self._create(table)
        return True

    def _create(self, table: DeliveredTable) -> None:
        """Create an empty table with its comments."""
        name = self.at(table.name)
        self.run_all([self.dialect.create_table(name, table), *self.dialect.comments(name, table)])

    def _fill(self, table: DeliveredTable, staging: str, statements: Sequence[str]) -> None:
        """Make a table hold exactly the staged rows, writing only those that differ, or apply staged changes to it.

        Readers with an open transaction keep what they saw, and views on the table stay valid.
        """
        same = dict[str, str]()
        for column in table.columns:
            name, is_plain = self.dialect.quoted(column.name), column.name in table.key and not column.nullable
            operator = "=" if is_plain else "IS NOT DISTINCT FROM"
            # Without their schema, which not every database allows before a column.
            same[column.name] = f"{staging}.{name} {operator} {table.name}.{name}"
        parts = {
            "table": self.at(table.name),
            "staged": self.at(staging),
            "columns": self.dialect.names(table),
            "same_key": " AND ".join(same[name] for name in table.key),
            "same_row": " AND ".join(same.values()),
        }
        self.run_all(_SQL[name].format(**parts) for name in statements)

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
    return Record(
        delivery_id=values["load_id"],
        format="",
        generation=int(values["generation"]),
        published_at=_without_zone(values["published_at"]),
        schema_version=int(values["schema_version"]),
        tables=tables,
        **{name: values[name] for name in ("mode", "run_id", "made_at", "firmlake_version")},
    )


def _without_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
