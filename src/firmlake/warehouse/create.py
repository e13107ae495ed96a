"""Create the tables of a generation, and widen columns whose type the settings change."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.core.run import Run
from firmlake.core.sql import quote_text
from firmlake.tables.leaves import leaves_of
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table, comment_of, duckdb_type
from firmlake.warehouse.macros import create_macros
from firmlake.warehouse.version import TABLES_MARK, check_version
from firmlake.warehouse.views import VIEWS_MARK

__all__ = ["create_tables", "widen"]


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create missing tables, with comments on tables and columns, and the macros, unless all of them exist.

    Raises:
        FirmlakeError: The tables have the shape of another version of firmlake; the message says what to do.
    """
    if TABLES_MARK.is_set(connection):
        check_version(connection)
        return
    existing = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table in WAREHOUSE_TABLES.values():
        if table.name not in existing:
            for statement in (_create(table), *_comments(table)):
                connection.execute(statement)
    check_version(connection)
    create_macros(connection)
    TABLES_MARK.set(connection)


def widen(connection: duckdb.DuckDBPyConnection, run: Run) -> None:
    """Widen integer columns that the run reads as decimals. Only a replay can make them integers again."""
    for dataset in DATASETS:
        for leaf in leaves_of(dataset, run.plan.contract):
            if leaf.kind == "decimal":
                wide = duckdb_type(Column(leaf.name, "decimal", ""))
                for table in (dataset, f"{dataset}_history"):
                    connection.execute(f"ALTER TABLE {table} ALTER {leaf.name} TYPE {wide}")
                VIEWS_MARK.remove(connection)  # a view keeps the types of its columns


def _create(table: Table) -> str:
    columns = ", ".join(
        f"{column.name} {duckdb_type(column)}{'' if column.null else ' NOT NULL'}" for column in table.columns
    )
    return f"CREATE TABLE {table.name} ({columns})"


def _comments(table: Table) -> Iterator[str]:
    yield f"COMMENT ON TABLE {table.name} IS {quote_text(comment_of(table.meaning, table.key))}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {table.name}.{column.name} IS {quote_text(column.comment)}"
