"""Select the rows to deliver, as queries: whole tables, tables as of a run, or the changes between two generations.

Changes are found by comparing the two generations key by key. So applying them to the first generation always gives
the second, whatever a load, a replay or a later version of firmlake did in between. Columns can be dropped or hashed,
as set by `export.mask`.
"""

# ruff: noqa: S608 - statements are put together from our own names of tables and columns, never from data

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from operator import methodcaller
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from firmlake.core.errors import SettingsError, UsageError
from firmlake.core.sql import quote_text, read_queries
from firmlake.privacy.tombstones import keyed_hash
from firmlake.tables.schemas import (
    COMPANY_TABLES,
    PRIVACY,
    TABLES,
    WAREHOUSE_TABLES,
    Column,
    Table,
    duckdb_type,
)
from firmlake.warehouse.loads import loaded_runs
from firmlake.warehouse.versions import as_of_columns

_SQL = read_queries(__file__)
_READ_ROWS = 10_000  # DuckDB takes up to twice a batch while it fills it

BASE = "base"
"""Name under which the earlier generation is attached."""

CHANGE = Column("change_type", "text", "insert, update or delete; a deleted row has its last values")

EXPORTED_TABLES = (
    "companies",
    *(table for tables in COMPANY_TABLES.values() for table in tables),
    "company_state",
    "runs",
)
"""The tables exported by default: the data, the state of each company, and the runs that they come from."""


class Source(NamedTuple):
    """The rows of a table to deliver, as a query that selects the columns of `table`."""

    connection: duckdb.DuckDBPyConnection
    table: Table
    query: str

    @property
    def has_country(self) -> bool:
        """Whether each row belongs to a country."""
        return any(column.name == "country" for column in self.table.columns)

    def of_country(self, country: str) -> Source:
        """Return the rows of a country, without the column that names it."""
        columns = tuple(column for column in self.table.columns if column.name != "country")
        key = tuple(name for name in self.table.key if name != "country")
        query = f"SELECT * EXCLUDE (country) FROM ({self.query}) WHERE country = {quote_text(country)}"
        return self._replace(table=self.table._replace(columns=columns, key=key), query=query)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with a comment on each column; times are in UTC."""
        return self._documented(self.connection.sql(f"FROM ({self.query}) LIMIT 0").to_arrow_table().schema)

    def read(self) -> pa.RecordBatchReader:
        """Read the rows in the order of their key, so that equal rows make equal files."""
        order = ", ".join(self.table.key) or "ALL"
        reader = self.connection.sql(f"FROM ({self.query}) ORDER BY {order}").to_arrow_reader(_READ_ROWS)
        schema = self._documented(reader.schema)
        # A loop would hold each batch while the next one is read.
        return pa.RecordBatchReader.from_batches(schema, map(methodcaller("cast", schema), reader))

    def _documented(self, schema: pa.Schema) -> pa.Schema:
        def describe(column: Column, field: pa.Field) -> pa.Field:
            kind = pa.timestamp("us", "UTC") if column.type == "timestamp" else field.type
            return pa.field(column.name, kind, bool(column.null), {"comment": column.comment})

        return pa.schema(list(map(describe, self.table.columns, schema)))

    def counts(self, by: str) -> dict[str, int]:
        """Count the rows for each value of a column."""
        return dict(self.connection.sql(f"SELECT {by}, count(*) FROM ({self.query}) GROUP BY 1 ORDER BY 1").fetchall())

    def row_count(self) -> int:
        """Count the rows."""
        return int(self.connection.sql(f"SELECT count(*) FROM ({self.query})").fetchall()[0][0])


def select(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str], mode: str = "whole", run_id: str = ""
) -> list[Source]:
    """Select tables of the newest generation.

    `whole` is as they are. `as_of` is as they were after the run `run_id`, without columns whose earlier values are not
    kept. `changes` are the rows that differ from the earlier generation attached as `base`: a key that only one of the
    two has is an insert or a delete, any other difference is an update.
    """
    if mode == "as_of" and run_id not in loaded_runs(connection):
        raise UsageError(f"There is no run {run_id} in the warehouse", 'List them with `firmlake query "FROM runs"`')
    make = partial(_as_of, run_id) if mode == "as_of" else _changes if mode == "changes" else _whole
    return [_as_held(Source(connection, *make(_table(name)))) for name in names]


def attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach an earlier generation as `base`."""
    connection.execute(f"ATTACH {quote_text(path)} AS {BASE} (READ_ONLY)")


def exported_type(column: Column) -> str:
    """Return the exported type of a column, in DuckDB's spelling: times carry their zone (UTC), JSON is text."""
    return {"timestamp": "TIMESTAMPTZ", "json": "VARCHAR"}.get(column.type) or duckdb_type(column)


def _table(name: str) -> Table:
    if name not in WAREHOUSE_TABLES:
        raise UsageError(f"There is no table {name}", f"Choose one of {', '.join(WAREHOUSE_TABLES)}")
    return WAREHOUSE_TABLES[name]


def _whole(table: Table) -> tuple[Table, str]:
    return table, f"SELECT {_columns(table)} FROM {table.name}"


def _as_of(run_id: str, table: Table) -> tuple[Table, str]:
    if table.name not in TABLES:
        raise UsageError(f"{table.name} holds superseded rows and cannot be exported as of a run", "Export it whole")
    keeps = TABLES[table.name].volatile is not None
    names = {*as_of_columns(TABLES[table.name]), "valid_from_run"} if keeps else {c.name for c in table.columns}
    key = table.key if names.issuperset(table.key) else ()
    shape = table._replace(columns=tuple(c for c in table.columns if c.name in names), key=key)
    query = _SQL["as_of"] if keeps else _SQL["as_of_run"]
    return shape, query.format(columns=_columns(shape), table=table.name, run_id=quote_text(run_id))


def _changes(table: Table) -> tuple[Table, str]:
    same_key = " AND ".join(f"n.{name} IS NOT DISTINCT FROM o.{name}" for name in table.key)
    columns = {"new_columns": _columns(table, "n."), "old_columns": _columns(table, "o.")}
    query = _SQL["changes"].format(table=table.name, first_key=table.key[0], same_key=same_key, **columns)
    return table._replace(columns=(CHANGE, *table.columns)), query


def _as_held(source: Source) -> Source:
    """Give columns the types of the warehouse: `contract.types` may have made an integer a decimal."""
    types = map(str, source.connection.sql(source.query).types)
    columns = tuple(
        column._replace(type="decimal") if duckdb_type(column) == "BIGINT" and type_.startswith("DECIMAL") else column
        for column, type_ in zip(source.table.columns, types, strict=True)
    )
    return source._replace(table=source.table._replace(columns=columns))


def _columns(table: Table, prefix: str = "") -> str:
    return ", ".join(_value(column, prefix) for column in table.columns)


def _value(column: Column, prefix: str) -> str:
    name = prefix + column.name
    if column.type == "timestamp":
        return f"{name} AT TIME ZONE 'UTC' AS {column.name}"
    return f"{name}::VARCHAR AS {column.name}" if column.type == "json" else f"{name} AS {column.name}"


_FUNCTION = "keyed"
_HASHES = 262_144


def check_mask(mask: Mapping[str, str]) -> None:
    """Check that each pattern names a kind of personal data or a column, because a misspelt mask would mask nothing."""
    for pattern in mask:
        if not any(_fits(pattern, table, column) for table in WAREHOUSE_TABLES.values() for column in table.columns):
            kinds = ", ".join(kind for kind in PRIVACY if kind)
            raise SettingsError(
                f"export.mask: {pattern} names no column",
                f"Give TABLE.COLUMN, *.COLUMN, or a kind of personal data: {kinds}",
            )


def mask_columns(source: Source, mask: Mapping[str, str], key: bytes) -> Source:
    """Return a table without its dropped columns and with keyed hashes in its hashed ones.

    Equal values have equal hashes in all tables, so hashed columns can still be joined. If a column of the key is
    dropped, the table has no key. If several patterns of the mask fit a column, "drop" wins.
    """
    table, values = source.table, dict[Column, str]()
    for column in table.columns:
        action = _action(mask, table, column)
        if action == "hash":
            _create_function(source.connection, key)
            column = column._replace(type="text", meaning=f"Keyed hash, by export.mask. {column.meaning}")
            values[column] = f"{_FUNCTION}({column.name}::VARCHAR) AS {column.name}"
        elif not action:
            values[column] = column.name
    is_whole = {column.name for column in values}.issuperset(table.key)
    table = table._replace(columns=tuple(values), key=table.key if is_whole else ())
    return Source(source.connection, table, f"SELECT {', '.join(values.values())} FROM ({source.query})")


def _action(mask: Mapping[str, str], table: Table, column: Column) -> str:
    if column is CHANGE or column.name == "country":  # files are divided by country
        return ""
    found = {action for pattern, action in mask.items() if _fits(pattern, table, column)}
    return "drop" if "drop" in found else next(iter(found), "")


def _fits(pattern: str, table: Table, column: Column) -> bool:
    return pattern == column.privacy or fnmatchcase(f"{table.name}.{column.name}", pattern)


def _create_function(connection: duckdb.DuckDBPyConnection, key: bytes) -> None:
    hashed = lru_cache(maxsize=_HASHES)(lambda value: keyed_hash(key, "export", value))
    with suppress(duckdb.NotImplementedException):  # it exists already
        connection.create_function(_FUNCTION, hashed, ["VARCHAR"], "VARCHAR")
