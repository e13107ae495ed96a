"""A database as the target of loads: tables are staged one by one, then published together in one transaction.

_staging_<table>    the staged rows of a table; each table is committed separately
_firmlake_staged    the tables staged so far, so that an interrupted load can resume
_firmlake_loads     one row for each load, written in the transaction that publishes the tables
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import duckdb
import msgspec
import pyarrow as pa

from firmlake.core.errors import FirmlakeError
from firmlake.delivery.dialects import (
    Dialect,
    add_column,
    add_key,
    apply_changes,
    comments,
    create_table,
    replace_rows,
)
from firmlake.delivery.files import Source
from firmlake.delivery.record import ColumnShape, DeliveredTable, Record, describe_table
from firmlake.delivery.selection import CHANGE
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table

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
        Column("made_at", "text", "Time and size of the file of that generation; `firmlake forget` rebuilds the file"),
        Column("base_generation", "integer", "Generation whose changes were loaded", "the load was whole"),
        Column("schema_version", "integer", "Version of the shape of the tables"),
        Column("firmlake_version", "text", "Version of firmlake"),
        Column("tables", "json", "Columns and types of each table that was loaded"),
        Column("row_counts", "json", "Rows that were staged for each table: all rows, or the changed ones"),
    ),
)

STAGED = Table(
    "_firmlake_staged",
    "A table that an unfinished load has staged",
    ("load_id", "table_name"),
    (
        Column("load_id", "text", "Name of the load"),
        Column("table_name", "text", "Table"),
        Column("described", "json", "Its columns, key and number of rows"),
    ),
)


class Connection(Protocol):
    """A connection to a database, bound to a schema. It raises `FirmlakeError`s, whose messages never hold credentials.

    Attributes:
        name: The database without credentials, for messages and records.
        schema: The schema of the tables, quoted where the database needs it.
    """

    name: str
    schema: str
    dialect: Dialect

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        ...

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Write batches into an empty table, and return the number of rows."""
        ...

    def read(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts, so that a large table need not fit into memory."""
        ...

    def reclaim(self, tables: Sequence[str]) -> str:
        """Overwrite or free the space of deleted rows; return where they may still be, or an empty text."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Run a transaction. An error rolls it back."""
        ...

    def create_schema(self) -> None:
        """Create the schema unless it exists."""
        ...

    def columns(self) -> list[tuple[Any, ...]]:
        """List table, name and type of each column in the schema, in order, with types as the database spells them."""
        ...


class Database:
    """The tables of one schema in a database, as the target of loads.

    Args:
        connection: The database.
        schema: The schema, as users spell it.
        address: What `open_target` opened.
        now: The clock, UTC.
    """

    next_step = "Load into another schema (--schema), or add --take-over to replace what it holds"
    logs_deliveries = True

    def __init__(self, connection: Connection, schema: str, address: str, now: Callable[[], datetime]) -> None:
        self._connection, self._now = connection, now
        self._run = connection.run
        self.name = connection.name
        self.key = f"{connection.name} {schema}"
        self.address = address
        self.dialect = connection.dialect
        self._last_loaded_at: datetime | None = None

    def held(self) -> Record | None:
        """Read the record of the newest load; None before the first."""
        if LOADS.name not in self.shapes():
            return None
        columns = ", ".join(column.name for column in LOADS.columns)
        rows = self._run(
            f"SELECT {columns} FROM {self._at(LOADS.name)} ORDER BY loaded_at DESC, generation DESC LIMIT 1"
        )
        if not rows:
            return None
        self._last_loaded_at = _without_zone(rows[0][1])
        return _record_of(rows[0])

    def choose_tables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Add the tables that earlier loads put into the schema, so that all its tables are of the same generation."""
        made, existing = self.made(), self.shapes()
        kept = (name for name in WAREHOUSE_TABLES if name in made and name in existing)
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
            for name, count, wanted in zip(("", *columns), self.count(table.name, columns), expected, strict=True):
                if count != wanted:
                    what = f"values of {name}" if name else "rows"
                    yield f"{table.name} has {count:,} {what} instead of {wanted:,}"

    def begin(self, record: Record) -> dict[str, DeliveredTable]:
        """Create the schema and the tables of records, and remove tables staged by other, unfinished loads.

        Returns:
            The tables that this load has already staged.
        """
        self._connection.create_schema()
        existing = self.shapes()
        for table in map(describe_table, (LOADS, STAGED)):
            if table.name not in existing:
                with self._with_ddl():
                    self._run(create_table(self._at(table.name), table, self.dialect))
                    self._comment(table)
        rows = self._run(f"SELECT load_id, table_name, described FROM {self._at(STAGED.name)}")
        staged = {
            name: msgspec.json.decode(described, type=DeliveredTable)
            for load_id, name, described in rows
            if load_id == record.delivery_id and _staging(name) in existing
        }
        with self._with_ddl():
            for name in existing:
                if name.startswith(_staging("")) and name.removeprefix(_staging("")) not in staged:
                    self._run(f"DROP TABLE {self._at(name)}")
            for load_id, name, _ in rows:
                if load_id != record.delivery_id or name not in staged:
                    self._unmark(load_id, name)
        return staged

    def put(self, record: Record, source: Source) -> DeliveredTable:
        """Stage rows in a separate table, and commit them."""
        return self.stage(
            record.delivery_id, source.table, source.batches(source.table), is_whole=record.mode == "whole"
        )

    def stage(self, load_id: str, table: Table, batches: Iterable[pa.RecordBatch], *, is_whole: bool) -> DeliveredTable:
        """Stage rows; if these are all rows of the table, the staged table may later become the table itself."""
        described, where = describe_table(table), self._at(_staging(table.name))
        with self._with_ddl():
            self._run(create_table(where, described, self.dialect))
            described = msgspec.structs.replace(
                described, row_count=self._connection.ingest(_staging(table.name), table, batches)
            )
            for statement in add_key(where, described, self.dialect) if is_whole else ():
                self._run(statement)
            marks = (load_id, table.name, msgspec.json.encode(described).decode())
            self._run(f"INSERT INTO {self._at(STAGED.name)} VALUES ({', '.join(map(self.dialect.text, marks))})")
        return described

    def publish(self, record: Record) -> bool:
        """Publish all tables in one transaction. Readers see either the previous load or this one.

        Returns:
            True: a load is always written.

        Raises:
            FirmlakeError: A table with one of these names exists, but no load made it. Choose another schema.
        """
        existing, made, to_drop = self.shapes(), self.made(), []
        tables = [msgspec.structs.replace(table, columns=table.own_columns) for table in record.tables]
        wanted = {
            table.name: tuple(column for column in existing[_staging(table.name)] if column[0] != CHANGE.name)
            for table in tables
        }
        if self.dialect.has_apart_ddl:
            existing = self._make_tables(tables, wanted, existing, made)
            made |= {table.name: set() for table in tables}
        with self._connection.transaction():
            for table in tables:
                shapes = (wanted[table.name], existing.get(table.name))
                to_drop += self._publish_table(table, record.mode, *shapes, made.get(table.name))
                self._unmark(record.delivery_id, table.name)
            values = ", ".join(map(self.dialect.literal, _row_of(record, wanted, self._loaded_at())))
            self._run(f"INSERT INTO {self._at(LOADS.name)} VALUES ({values})")
            for name in () if self.dialect.has_apart_ddl else to_drop:
                self._run(f"DROP TABLE {name}")
        for name in to_drop if self.dialect.has_apart_ddl else ():
            self._run(f"DROP TABLE {name}")
        return True

    def made(self) -> dict[str, set[str]]:
        """Return the tables and columns that any load made, whether or not they still exist."""
        made: dict[str, set[str]] = {}
        if LOADS.name in self.shapes():
            for (tables,) in self._run(f"SELECT DISTINCT tables FROM {self._at(LOADS.name)}"):
                for name, shape in _shapes_of(tables).items():
                    made.setdefault(name, set()).update(dict(shape))
        return made

    def shapes(self) -> dict[str, Shape]:
        """Return the columns of each table that is now in the schema, whoever made it."""
        shapes: dict[str, Shape] = {}
        for table, column, kind in self._connection.columns():
            shapes[table] = (*shapes.get(table, ()), (column, kind))
        return shapes

    def count(self, name: str, columns: Iterable[str]) -> list[int]:
        """Count the rows of a table, then the values of each column that are not null."""
        counted = ", ".join(("count(*)", *(f"count({self.dialect.quoted(column)})" for column in columns)))
        return [int(count) for count in self._run(f"SELECT {counted} FROM {self._at(name)}")[0]]

    def read(self, table: Table) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a loaded table in parts."""
        columns = ", ".join(self.dialect.quoted(column.name) for column in table.columns)
        yield from self._connection.read(f"SELECT {columns} FROM {self._at(table.name)}")

    def reclaim(self, tables: Sequence[str]) -> str:
        """Overwrite or free the space of deleted rows; return where they may still be, or an empty text."""
        return self._connection.reclaim([self._at(name) for name in tables])

    def _publish_table(
        self, table: DeliveredTable, mode: str, wanted: Shape, existing: Shape | None, made: Collection[str] | None
    ) -> list[str]:
        """Publish the staged rows of one table, and return the tables to drop afterwards."""
        name, staged = self._at(table.name), self._at(_staging(table.name))
        self._check_own(name, existing, made)
        to_drop = [staged]
        if mode == "changes":
            statements = list(apply_changes(name, staged, table, self.dialect))
        elif existing is not None and _fits(existing, wanted, made or ()):
            new_columns = [column for column in table.columns if column.name not in dict(existing)]
            statements = [add_column(name, column, self.dialect) for column in new_columns]
            statements += replace_rows(name, staged, table, self.dialect)
        else:
            to_drop = []
            statements = [f"DROP TABLE {name}"] if existing is not None else []
            statements.append(f"ALTER TABLE {staged} RENAME TO {table.name}")
        for statement in statements:
            self._run(statement)
        if not set(wanted) <= set(existing or ()):
            self._comment(table)
        return to_drop

    def _make_tables(
        self,
        tables: Sequence[DeliveredTable],
        wanted: Mapping[str, Shape],
        existing: Mapping[str, Shape],
        made: Mapping[str, Collection[str]],
    ) -> dict[str, Shape]:
        """Create tables and add columns before the transaction, for databases that do not allow this inside one.

        New tables and columns are empty until the load is committed.

        Raises:
            FirmlakeError: A column has another type now. Drop the table.
        """
        for table in tables:
            name, shape = self._at(table.name), existing.get(table.name)
            if shape is None:
                self._run(create_table(name, table, self.dialect))
                self._comment(table)
                continue
            names_fit = [column for column, _ in shape] == [column for column, _ in wanted[table.name]]
            if table.name not in made and names_fit and self.count(table.name, ()) == [0]:
                continue  # an earlier load was killed before filling it
            self._check_own(name, shape, made.get(table.name))
            if not _fits(shape, wanted[table.name], made[table.name]):
                raise FirmlakeError(
                    f"{self.name}: the type of a column in {name} has changed", f"Drop {name}, then load again"
                )
            new_columns = [column for column in table.columns if column.name not in dict(shape)]
            for column in new_columns:
                self._run(add_column(name, column, self.dialect))
            if new_columns:
                self._comment(table)
        return self.shapes()

    def _with_ddl(self) -> AbstractContextManager[object]:
        """Begin a transaction for statements that also create or drop tables, if the database has such transactions.

        Without a transaction, a staged table counts only once it is marked, which happens last.
        """
        return nullcontext() if self.dialect.has_apart_ddl else self._connection.transaction()

    def _loaded_at(self) -> datetime:
        """Return the time; the newest load stays the last one even if a clock was set back."""
        now = self._now().replace(tzinfo=None)
        return max(now, self._last_loaded_at + timedelta(microseconds=1)) if self._last_loaded_at else now

    def _check_own(self, name: str, existing: Shape | None, made: Collection[str] | None) -> None:
        if existing is not None and made is None:
            raise FirmlakeError(
                f"{self.name}: {name} exists, but no load of firmlake made it", "Load into another schema (--schema)"
            )

    def _comment(self, table: DeliveredTable) -> None:
        for statement in comments(self._at(table.name), table, self.dialect):
            self._run(statement)

    def _unmark(self, load_id: str, name: str) -> None:
        which = f"load_id = {self.dialect.text(load_id)} AND table_name = {self.dialect.text(name)}"
        self._run(f"DELETE FROM {self._at(STAGED.name)} WHERE {which}")

    def _at(self, name: str) -> str:
        return f"{self._connection.schema}.{name}"


def _staging(name: str) -> str:
    return f"_staging_{name}"


def _fits(existing: Shape, wanted: Shape, made: Collection[str]) -> bool:
    """Return whether rows can be put into a table as it is: its columns have the right types, and none is outdated.

    Columns that somebody else added do not matter.
    """
    columns = dict(wanted)
    return all(columns.get(name) == kind for name, kind in existing if name in columns or name in made)


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
    base = values["base_generation"]
    return Record(
        delivery_id=values["load_id"],
        mode=values["mode"],
        format="",
        run_id=values["run_id"],
        generation=int(values["generation"]),
        published_at=_without_zone(values["published_at"]),
        made_at=values["made_at"],
        schema_version=int(values["schema_version"]),
        firmlake_version=values["firmlake_version"],
        base_generation=None if base is None else int(base),
        tables=tuple(
            DeliveredTable(name, "", (), tuple(ColumnShape(*each, True, "") for each in shape), row_counts.get(name, 0))
            for name, shape in _shapes_of(values["tables"]).items()
        ),
    )


def _shapes_of(tables: str) -> dict[str, Shape]:
    """Read the columns of the tables of a load."""
    return msgspec.json.decode(tables, type=dict[str, Shape])


def _without_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
