"""Check that the tables of a generation have the shape that this version of firmlake expects."""

from __future__ import annotations

import duckdb

from firmlake.core.errors import FirmlakeError
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.macros import MACROS
from firmlake.warehouse.marks import Mark

__all__ = ["TABLES_MARK", "check_version"]

TABLES_MARK = Mark("tables_hash", lambda: (SCHEMA_VERSION, WAREHOUSE_TABLES, MACROS))


def check_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Check that the tables of a generation have the expected shape. A generation without loads passes.

    Raises:
        FirmlakeError: Another version of firmlake, or a build between two releases, made the generation. The message
            says what to do.
    """
    try:
        versions = connection.execute("SELECT DISTINCT schema_version FROM loads").fetchall()
    except duckdb.CatalogException:
        return
    others = [version for (version,) in versions if version != SCHEMA_VERSION]
    if not others:
        if versions and not TABLES_MARK.is_set(connection):
            _check_columns(connection)
        return
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


def _check_columns(connection: duckdb.DuckDBPyConnection) -> None:
    """Compare the columns of existing tables, because the shape may change between releases without a new number."""
    found = dict(connection.execute(_COLUMNS).fetchall())
    for name, table in WAREHOUSE_TABLES.items():
        differing = set(found.get(name, ())) ^ {column.name for column in table.columns}
        if name in found and differing:
            raise FirmlakeError(
                "The warehouse was made by an unfinished version of firmlake, whose tables have another shape "
                f"({name}.{min(differing)})",
                "Rebuild it with `firmlake replay`, which sends no request",
            )


_COLUMNS = """
    SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
    GROUP BY table_name
"""
