"""Create the tables of a generation, and check that they have the shape that this version of firmlake expects."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from firmlake.api.contract import DATASETS
from firmlake.core.errors import FirmlakeError
from firmlake.core.run import Run
from firmlake.core.sql import quote_text
from firmlake.tables.leaves import leaves_of
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column, Table, comment_of, duckdb_type
from firmlake.tables.stage import SCHEMA_VERSION


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables, with comments on tables and columns, unless they exist.

    Raises:
        FirmlakeError: The tables have the shape of another version of firmlake; the message says what to do.
    """
    if check_version(connection):
        return
    for table in WAREHOUSE_TABLES.values():
        for statement in (_create(table), *_comments(table)):
            connection.execute(statement)


def check_version(connection: duckdb.DuckDBPyConnection) -> bool:
    """Check that the tables of a generation have the expected shape.

    Returns:
        Whether the last commit has tables; without a row in `loads`, they have the expected shape.

    Raises:
        FirmlakeError: Another version of firmlake made the generation. The message says what to do.
    """
    with connection.cursor() as apart:  # an unknown table aborts the transaction that reads it
        try:
            versions = apart.execute("SELECT DISTINCT schema_version FROM loads").fetchall()
        except duckdb.CatalogException:
            return False
    others = [version for (version,) in versions if version != SCHEMA_VERSION]
    if not others:
        return True
    when, next_step = (
        ("a later", "Install that version again, or rebuild the warehouse for this version with `firmlake replay`")
        if max(others) > SCHEMA_VERSION
        else ("an earlier", "Rebuild it with `firmlake replay`, which sends no request")
    )
    raise FirmlakeError(
        f"The warehouse was made by {when} version of firmlake, whose tables have another shape "
        f"(version {max(others)}; this version expects {SCHEMA_VERSION})",
        next_step,
    )


def widen(connection: duckdb.DuckDBPyConnection, run: Run) -> bool:
    """Widen integer columns that the run reads as decimals. Only a replay can make them integers again.

    Returns:
        Whether there is such a column. Views must then be made again, because a view keeps the types of its columns.
    """
    wide = [
        (dataset, leaf.name)
        for dataset in DATASETS
        for leaf in leaves_of(dataset, run.plan.contract)
        if leaf.kind == "decimal"
    ]
    for dataset, column in wide:
        kind = duckdb_type(Column(column, "decimal", ""))
        for table in (dataset, f"{dataset}_history"):
            connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE {kind}")
    return bool(wide)


def _create(table: Table) -> str:
    columns = ", ".join(
        f"{column.name} {duckdb_type(column)}{'' if column.null else ' NOT NULL'}" for column in table.columns
    )
    return f"CREATE TABLE IF NOT EXISTS {table.name} ({columns})"


def _comments(table: Table) -> Iterator[str]:
    yield f"COMMENT ON TABLE {table.name} IS {quote_text(comment_of(table.meaning, table.key))}"
    for column in table.columns:
        yield f"COMMENT ON COLUMN {table.name}.{column.name} IS {quote_text(column.comment)}"
