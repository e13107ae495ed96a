"""Select the rows to export, as queries: whole tables, tables as of a run, or the changes between two generations.

Changes are found by comparing the two generations key by key. So applying them to the first generation always gives
the second, whatever a load, a replay or a later version of firmlake did in between.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl
import pyarrow as pa

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.sql import quote_text
from firmlake.tables.schemas import (
    COMPANY_TABLES,
    TABLES,
    WAREHOUSE_TABLES,
    Column,
    Table,
    duckdb_type,
    polars_schema,
)
from firmlake.warehouse.macros import as_of_columns

__all__ = [
    "BASE",
    "CHANGE",
    "EXPORTED_TABLES",
    "LastLoad",
    "Selected",
    "arrow_schema",
    "as_held",
    "attach",
    "exported_type",
    "last_load",
    "select_as_of",
    "select_changes",
    "select_whole",
]

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


class Selected(NamedTuple):
    """A table as it is exported: its columns, and the query that selects them."""

    table: Table
    query: str

    @property
    def has_country(self) -> bool:
        """Whether each row belongs to a country."""
        return any(column.name == "country" for column in self.table.columns)


class LastLoad(NamedTuple):
    """The last load of a generation."""

    generation: int
    run_id: str
    published_at: datetime


def last_load(connection: duckdb.DuckDBPyConnection, database: str = "") -> LastLoad:
    """Read the last load of a generation.

    Raises:
        FirmlakeError: Nothing was loaded yet.
    """
    prefix = f"{database}." if database else ""
    rows = connection.execute(
        f"SELECT generation, run_id, published_at FROM {prefix}loads ORDER BY generation DESC LIMIT 1"
    ).fetchall()
    if not rows:
        raise FirmlakeError("The warehouse holds no run yet", "Start one with `firmlake run LIST`")
    return LastLoad(*rows[0])


def select_whole(names: Iterable[str]) -> list[Selected]:
    """Select whole tables of the newest generation.

    Raises:
        UsageError: There is no such table.
    """
    return [Selected(table, f"SELECT {_columns(table)} FROM {table.name}") for table in map(_table, names)]


def select_as_of(names: Iterable[str], run_id: str, known: Iterable[str]) -> list[Selected]:
    """Select tables as they were after a run, without the columns whose earlier values are not kept.

    Raises:
        UsageError: There is no such run or table.
    """
    if run_id not in known:
        raise UsageError(f"There is no run {run_id} in the warehouse", 'List them with `firmlake query "FROM runs"`')
    return [_as_of(_table(name), run_id) for name in names]


def select_changes(names: Iterable[str]) -> list[Selected]:
    """Select the rows in which the newest generation differs from the one attached as `base`.

    A key that only one of the two has is an insert or a delete; any other difference is an update.
    """
    return [_changes(_table(name)) for name in names]


def as_held(connection: duckdb.DuckDBPyConnection, selected: Selected) -> Selected:
    """Cast a selection to the types of the warehouse: `contract.types` may have made an integer a decimal."""
    described = connection.execute(f"DESCRIBE {selected.query}").fetchall()
    columns = tuple(
        column._replace(type="decimal") if duckdb_type(column) == "BIGINT" and kind.startswith("DECIMAL") else column
        for column, (_, kind, *_) in zip(selected.table.columns, described, strict=True)
    )
    return selected._replace(table=selected.table._replace(columns=columns))


def attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach an earlier generation as `base`."""
    connection.execute(f"ATTACH {quote_text(path)} AS {BASE} (READ_ONLY)")


def exported_type(column: Column) -> str:
    """Return the exported type of a column, in DuckDB's spelling: times carry their zone (UTC), JSON is text."""
    return {"timestamp": "TIMESTAMPTZ", "json": "VARCHAR"}.get(column.type) or duckdb_type(column)


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of an exported table, with a comment on each column; times are in UTC."""
    return pa.schema(
        [
            pa.field(column.name, _arrow_type(kind), bool(column.null), {"comment": column.comment})
            for column, kind in zip(table.columns, polars_schema(table).values(), strict=True)
        ]
    )


# ---------------------------------------------------------------------------------------------------------------------


def _table(name: str) -> Table:
    if name not in WAREHOUSE_TABLES:
        raise UsageError(f"There is no table {name}", f"Choose one of {', '.join(WAREHOUSE_TABLES)}")
    return WAREHOUSE_TABLES[name]


def _as_of(table: Table, run_id: str) -> Selected:
    if table.name not in TABLES:
        raise UsageError(f"{table.name} holds superseded rows and cannot be exported as of a run", "Export it whole")
    keeps = TABLES[table.name].volatile is not None
    names = {*as_of_columns(TABLES[table.name]), "valid_from_run"} if keeps else {c.name for c in table.columns}
    key = table.key if names.issuperset(table.key) else ()
    shape = table._replace(columns=tuple(c for c in table.columns if c.name in names), key=key)
    moment = quote_text(run_id)
    source = (
        f"{table.name}_as_of({moment})"
        if keeps
        else f"{table.name} WHERE run_id IN (SELECT run_id FROM runs_as_of({moment}))"
    )
    return Selected(shape, f"SELECT {_columns(shape)} FROM {source}")


def _changes(table: Table) -> Selected:
    same_key = " AND ".join(f"n.{name} IS NOT DISTINCT FROM o.{name}" for name in table.key)
    old = f"{BASE}.{table.name}"
    query = f"""
        SELECT if(o.{table.key[0]} IS NULL, 'insert', 'update') AS {CHANGE.name}, {_columns(table, "n.")}
        FROM {table.name} n LEFT JOIN {old} o ON {same_key} WHERE n IS DISTINCT FROM o
        UNION ALL
        SELECT 'delete' AS {CHANGE.name}, {_columns(table, "o.")} FROM {old} o ANTI JOIN {table.name} n ON {same_key}
    """
    return Selected(table._replace(columns=(CHANGE, *table.columns)), query)


def _columns(table: Table, prefix: str = "") -> str:
    return ", ".join(_value(column, prefix) for column in table.columns)


def _value(column: Column, prefix: str) -> str:
    name = prefix + column.name
    if column.type == "timestamp":
        return f"{name} AT TIME ZONE 'UTC' AS {column.name}"
    return f"{name}::VARCHAR AS {column.name}" if column.type == "json" else f"{name} AS {column.name}"


_ARROW = {
    pl.String: pa.string(),
    pl.Int64: pa.int64(),
    pl.Float64: pa.float64(),
    pl.Boolean: pa.bool_(),
    pl.Date: pa.date32(),
}


def _arrow_type(kind: pl.DataType) -> pa.DataType:
    if isinstance(kind, pl.Decimal):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, pl.Datetime):
        return pa.timestamp("us", "UTC")
    return _ARROW[type(kind)]
