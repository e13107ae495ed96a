"""A database as the target of loads: tables are staged one by one, then published together in one transaction.

_staging_<table>    the staged rows of a table; each table is committed separately
_firmlake_staged    the tables staged so far, so that an interrupted load can resume
_firmlake_loads     one row for each load, written in the transaction that publishes the tables
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, Protocol

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
from firmlake.delivery.selection import CHANGE
from firmlake.tables.schemas import Column, Table

Shape = tuple[tuple[str, str], ...]
"""Name and type of each column of a table, as the target spells them."""

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
        Column("row_count", "integer", "Rows staged"),
    ),
)


class LoadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `_firmlake_loads`."""

    load_id: str
    loaded_at: datetime
    mode: str
    run_id: str
    generation: int
    published_at: datetime
    made_at: str
    base_generation: int | None
    schema_version: int
    firmlake_version: str
    tables: dict[str, Shape] = {}
    row_counts: dict[str, int] = {}


def row_of(record: LoadRecord) -> tuple[Any, ...]:
    """Return the row of a load, in the column order of `LOADS`."""
    values = msgspec.structs.asdict(record)
    for name in ("tables", "row_counts"):
        values[name] = msgspec.json.encode(values[name]).decode()
    for name in ("loaded_at", "published_at"):
        values[name] = values[name].replace(tzinfo=UTC)
    return tuple(values[column.name] for column in LOADS.columns)


def record_of(row: tuple[Any, ...]) -> LoadRecord:
    """Read a row of `_firmlake_loads`. Times are in UTC, without a zone."""
    values = dict(zip((column.name for column in LOADS.columns), row, strict=True))
    values["tables"] = read_tables(values["tables"])
    values["row_counts"] = msgspec.json.decode(values["row_counts"], type=dict[str, int])
    for name in ("loaded_at", "published_at"):
        moment = values[name]
        values[name] = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    for name in ("generation", "base_generation", "schema_version"):
        values[name] = None if values[name] is None else int(values[name])  # some drivers return decimals
    return LoadRecord(**values)


def read_tables(text: str) -> dict[str, Shape]:
    """Read the columns of the tables of a load."""
    return msgspec.json.decode(text, type=dict[str, Shape])


class TargetConnection(Protocol):
    """A connection to a target. It raises `FirmlakeError`s, whose messages never hold credentials.

    Attributes:
        name: The target without credentials, for messages and records.
        schema: The schema of the tables, quoted where the target needs it.
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
        """List table, name and type of each column in the schema, in order, with types as the target spells them."""
        ...


class LoadTarget:
    """The tables of one schema in a target."""

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection
        self._run = connection.run
        self.name = connection.name
        self.schema = connection.schema
        self.dialect = connection.dialect

    def held(self) -> LoadRecord | None:
        """Read the newest load; None before the first."""
        if LOADS.name not in self.shapes():
            return None
        columns = ", ".join(column.name for column in LOADS.columns)
        rows = self._run(
            f"SELECT {columns} FROM {self._at(LOADS.name)} ORDER BY loaded_at DESC, generation DESC LIMIT 1"
        )
        return record_of(rows[0]) if rows else None

    def made(self) -> dict[str, set[str]]:
        """Return the tables and columns that any load made, whether or not they still exist."""
        made: dict[str, set[str]] = {}
        if LOADS.name in self.shapes():
            for (tables,) in self._run(f"SELECT DISTINCT tables FROM {self._at(LOADS.name)}"):
                for name, shape in read_tables(tables).items():
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

    def prepare(self, load_id: str) -> dict[str, int]:
        """Create the schema and the tables of records, and remove tables staged by other, unfinished loads.

        Returns:
            The number of rows of each table that this load has already staged.
        """
        self._connection.create_schema()
        there = self.shapes()
        for table in (LOADS, STAGED):
            if table.name not in there:
                with self._with_ddl():
                    self._run(create_table(self._at(table.name), table, self.dialect))
                    self._comment(table.name, table)
        staged = self._run(f"SELECT load_id, table_name, row_count FROM {self._at(STAGED.name)}")
        done = {name: count for of, name, count in staged if of == load_id and _aside(name) in there}
        with self._with_ddl():
            for name in there:
                if name.startswith(_aside("")) and name.removeprefix(_aside("")) not in done:
                    self._run(f"DROP TABLE {self._at(name)}")
            for of, name, _ in staged:
                if of != load_id or name not in done:
                    self._unmark(of, name)
        return done

    def stage(self, load_id: str, table: Table, batches: Iterable[pa.RecordBatch], *, is_whole: bool) -> int:
        """Stage rows in a separate table, and commit them.

        Args:
            load_id: The name of the load.
            table: The table, with the columns of the rows.
            batches: The rows.
            is_whole: Whether these are all rows of the table. The staged table may then become the table itself.

        Returns:
            The number of rows.
        """
        where, text = self._at(_aside(table.name)), self.dialect.text
        with self._with_ddl():
            self._run(create_table(where, table, self.dialect))
            count = self._connection.ingest(_aside(table.name), table, batches)
            for statement in add_key(where, table, self.dialect) if is_whole else ():
                self._run(statement)
            self._run(f"INSERT INTO {self._at(STAGED.name)} VALUES ({text(load_id)}, {text(table.name)}, {count})")
        return count

    def staged(self, tables: Iterable[Table]) -> dict[str, Shape]:
        """Return the columns of staged tables, with their types as this target spells them."""
        there = self.shapes()
        return {
            table.name: tuple(each for each in there[_aside(table.name)] if each[0] != CHANGE.name) for table in tables
        }

    def publish(self, record: LoadRecord, tables: Sequence[Table]) -> None:
        """Publish all tables in one transaction. Readers see either the previous load or this one.

        Args:
            record: The row of this load.
            tables: The tables to publish, with their new columns.

        Raises:
            FirmlakeError: A table with one of these names exists, but no load made it. Choose another schema.
        """
        there, made, aside = self.shapes(), self.made(), []
        if self.dialect.has_apart_ddl:
            there = self._make_tables(record, tables, there, made)
            made |= {table.name: set() for table in tables}
        with self._connection.transaction():
            for table in tables:
                aside += self._put(table, record, there.get(table.name), made.get(table.name))
                self._unmark(record.load_id, table.name)
            values = ", ".join(map(self.dialect.literal, row_of(record)))
            self._run(f"INSERT INTO {self._at(LOADS.name)} VALUES ({values})")
            for name in () if self.dialect.has_apart_ddl else aside:
                self._run(f"DROP TABLE {name}")
        for name in aside if self.dialect.has_apart_ddl else ():
            self._run(f"DROP TABLE {name}")

    def read(self, table: Table) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a loaded table in parts."""
        columns = ", ".join(self.dialect.quoted(column.name) for column in table.columns)
        yield from self._connection.read(f"SELECT {columns} FROM {self._at(table.name)}")

    def reclaim(self, tables: Sequence[str]) -> str:
        """Overwrite or free the space of deleted rows; return where they may still be, or an empty text."""
        return self._connection.reclaim([self._at(name) for name in tables])

    def _put(self, table: Table, record: LoadRecord, there: Shape | None, made: Collection[str] | None) -> list[str]:
        """Publish the staged rows of one table, and return the tables to drop afterwards."""
        name, staged, wanted = self._at(table.name), self._at(_aside(table.name)), record.tables[table.name]
        self._check_own(name, there, made)
        left = [staged]
        if record.mode == "changes":
            statements = list(apply_changes(name, staged, table, self.dialect))
        elif there is not None and _fits(there, wanted, made or ()):
            new = [column for column in table.columns if column.name not in dict(there)]
            statements = [add_column(name, column, self.dialect) for column in new]
            statements += replace_rows(name, staged, table, self.dialect)
        else:
            left = []
            statements = [f"DROP TABLE {name}"] if there is not None else []
            statements.append(f"ALTER TABLE {staged} RENAME TO {table.name}")
        for statement in statements:
            self._run(statement)
        if not set(wanted) <= set(there or ()):
            self._comment(table.name, table)
        return left

    def _make_tables(
        self,
        record: LoadRecord,
        tables: Sequence[Table],
        there: Mapping[str, Shape],
        made: Mapping[str, Collection[str]],
    ) -> dict[str, Shape]:
        """Create tables and add columns before the transaction, for targets that do not allow this inside one.

        New tables and columns are empty until the load is committed.

        Raises:
            FirmlakeError: A column has another type now. Drop the table.
        """
        for table in tables:
            name, wanted, shape = self._at(table.name), record.tables[table.name], there.get(table.name)
            if shape is None:
                self._run(create_table(name, table, self.dialect))
                self._comment(table.name, table)
                continue
            is_left = table.name not in made and [column for column, _ in shape] == [column for column, _ in wanted]
            if is_left and self.count(table.name, ()) == [0]:  # an earlier load was killed before filling it
                continue
            self._check_own(name, shape, made.get(table.name))
            if not _fits(shape, wanted, made[table.name]):
                raise FirmlakeError(
                    f"{self.name}: the type of a column in {name} has changed", f"Drop {name}, then load again"
                )
            new = [column for column in table.columns if column.name not in dict(shape)]
            for column in new:
                self._run(add_column(name, column, self.dialect))
            if new:
                self._comment(table.name, table)
        return self.shapes()

    def _with_ddl(self) -> AbstractContextManager[object]:
        """Begin a transaction for statements that also create or drop tables, if the target has such transactions.

        Without a transaction, a staged table counts only once it is marked, which happens last.
        """
        return nullcontext() if self.dialect.has_apart_ddl else self._connection.transaction()

    def _check_own(self, name: str, there: Shape | None, made: Collection[str] | None) -> None:
        if there is not None and made is None:
            raise FirmlakeError(
                f"{self.name}: {name} exists, but no load of firmlake made it", "Load into another schema (--schema)"
            )

    def _comment(self, name: str, table: Table) -> None:
        for statement in comments(self._at(name), table, self.dialect):
            self._run(statement)

    def _unmark(self, load_id: str, name: str) -> None:
        which = f"load_id = {self.dialect.text(load_id)} AND table_name = {self.dialect.text(name)}"
        self._run(f"DELETE FROM {self._at(STAGED.name)} WHERE {which}")

    def _at(self, name: str) -> str:
        return f"{self._connection.schema}.{name}"


def _aside(name: str) -> str:
    return f"_staging_{name}"


def _fits(there: Shape, wanted: Shape, made: Collection[str]) -> bool:
    """Return whether rows can be put into a table as it is: its columns have the right types, and none is outdated.

    Columns that somebody else added do not matter.
    """
    columns = dict(wanted)
    return all(columns.get(name) == kind for name, kind in there if name in columns or name in made)
