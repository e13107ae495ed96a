"""Create the tables of a generation, and check that they have the shape that this version of firmlake expects."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.core.sql import quote_text
from firmlake.landing.run import Run
from firmlake.tables.leaves import leaves_of
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, Column, Table, comment_of, duckdb_type
from firmlake.warehouse.loads import check_version
from firmlake.warehouse.versions import VALIDITY, queries_of, versions_of


def create_tables(connection: duckdb.DuckDBPyConnection, *, with_comments: bool = True) -> None:
    """Create the tables, with comments on tables and columns, unless they exist.

    Comments take nine tenths of the time; a database that nobody sees needs none. Tables with the shape of another
    version of firmlake are a FirmlakeError; the message says what to do.
    """
    if check_version(connection):
        return
    for table in TABLES.values():
        stored = table if table.volatile is None else _versions(table)
        connection.execute(";".join([_create(stored), *(_comments("TABLE", stored) if with_comments else ())]))
    for table in TABLES.values():
        _create_views(connection, table, with_comments=with_comments)


def widen(connection: duckdb.DuckDBPyConnection, run: Run) -> bool:
    """Widen integer columns that the run reads as decimals. Only a replay can make them integers again.

    Return whether there is such a column. Views must then be made again, because a view keeps the types of its columns.
    """
    wide = [
        (dataset, leaf.name)
        for dataset in DATASETS
        for leaf in leaves_of(dataset, run.plan.contract)
        if leaf.kind == "decimal"
    ]
    for dataset, column in wide:
        kind = duckdb_type(Column(column, "decimal", ""))
        connection.execute(f"ALTER TABLE {versions_of(dataset)} ALTER {column} TYPE {kind}")
        _create_views(connection, TABLES[dataset])
    return bool(wide)


def _versions(table: Table) -> Table:
    """Return the table that stores the versions of the rows of a table."""
    meaning = (
        f"Every version of the rows of {table.name}, each in its last state. {table.name} has the current ones, "
        f"{table.name}_history the superseded ones"
    )
    return Table(versions_of(table.name), meaning, (*table.key, "valid_to"), (*table.columns, *VALIDITY))


def _create_views(connection: duckdb.DuckDBPyConnection, table: Table, *, with_comments: bool = True) -> None:
    """Create or replace the views of the current and superseded rows of a table with history."""
    if table.volatile is not None:
        for shown, query in zip((table.name, f"{table.name}_history"), queries_of(table), strict=True):
            comments = _comments("VIEW", WAREHOUSE_TABLES[shown]) if with_comments else ()
            connection.execute(";".join([f"CREATE OR REPLACE VIEW {shown} AS {query}", *comments]))


def _create(table: Table) -> str:
    columns = ", ".join(
        f"{column.name} {duckdb_type(column)}{'' if column.null else ' NOT NULL'}" for column in table.columns
    )
    return f"CREATE TABLE IF NOT EXISTS {table.name} ({columns})"


def _comments(kind: str, table: Table) -> Iterator[str]:
    yield f"COMMENT ON {kind} {table.name} IS {quote_text(comment_of(table.meaning, table.key))}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {table.name}.{column.name} IS {quote_text(column.comment)}"
