"""Create the views, macros and derived tables of a generation from their definitions, with comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import duckdb

from firmlake.core.sql import quote_text
from firmlake.tables.schemas import WAREHOUSE_TABLES, duckdb_type
from firmlake.warehouse.definitions import Definition, definitions
from firmlake.warehouse.lists import create_list_views
from firmlake.warehouse.marks import Mark
from firmlake.warehouse.steps import create_in_steps

__all__ = ["VIEWS_MARK", "create_view", "create_views", "describe_columns"]

VIEWS_MARK = Mark("views_hash", lambda: (WAREHOUSE_TABLES, definitions()))


def create_views(connection: duckdb.DuckDBPyConnection, *, only_lists: bool = False) -> None:
    """Create derived tables and the views of lists again, and other views and macros unless they are up to date.

    The tables that they read must exist.

    Args:
        connection: An unpublished generation.
        only_lists: Whether nothing about companies was loaded, so that derived tables need not change.
    """
    is_made = VIEWS_MARK.is_set(connection)
    if not is_made:
        _drop_other_kinds(connection)
    kinds = {"table", "view", "macro", "function"} if not is_made else set() if only_lists else {"table"}
    made = [each for each in definitions() if each.kind in kinds]
    for definition in made:
        create_view(connection, definition)
    create_list_views(connection)
    for statement in _comments(connection, made):
        connection.execute(statement)
    if not is_made:
        VIEWS_MARK.set(connection)


def create_view(connection: duckdb.DuckDBPyConnection, definition: Definition) -> None:
    """Create or replace a view, macro or derived table. The relations that it reads must exist."""
    call = _CALL.fullmatch(definition.sql)
    if definition.kind == "table" and call:
        create_in_steps(connection, definition.name, next(each for each in definitions() if each.name == call[1]))
    else:
        connection.execute(_CREATE[definition.kind].format(definition))


def describe_columns(
    connection: duckdb.DuckDBPyConnection, wanted: Iterable[Definition]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return type and meaning of the columns of existing tables, views and macros, by name of the relation.

    The meaning comes from the file of the relation, or else from the relations that it reads; it is empty if unknown.
    """
    made = {definition.name: definition for definition in definitions()}
    found = {
        name: {column.name: (duckdb_type(column), column.comment_in_view) for column in table.columns}
        for name, table in WAREHOUSE_TABLES.items()
    }

    def describe(name: str) -> dict[str, tuple[str, str]]:
        if name not in found:
            one = made[name]
            read = [describe(other) for other in one.reads if other not in made or made[other].kind in _RELATIONS]
            columns = connection.execute(f"DESCRIBE SELECT * FROM {one.example}").fetchall()  # noqa: S608 - our own
            found[name] = {
                column: (kind, one.columns.get(column) or next((r[column][1] for r in read if column in r), ""))
                for column, kind, *_ in columns
            }
        return found[name]

    return {definition.name: describe(definition.name) for definition in wanted}


# ---------------------------------------------------------------------------------------------------------------------

_CREATE = {
    "function": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS {0.sql}",
    "table": "CREATE OR REPLACE TABLE {0.name} AS {0.sql}",
    "view": "CREATE OR REPLACE VIEW {0.name} AS {0.sql}",
    "macro": "CREATE OR REPLACE MACRO {0.name}({0.parameters}) AS TABLE {0.sql}",
}
_CALL = re.compile(r"FROM (\w+)\(\)")
"""All rows of a macro."""
_COMMENT = {
    "function": "COMMENT ON MACRO {} IS {}",
    "table": "COMMENT ON TABLE {} IS {}",
    "view": "COMMENT ON VIEW {} IS {}",
    "macro": "COMMENT ON MACRO TABLE {} IS {}",
}
_RELATIONS = ("table", "view", "macro")
_KINDS = """
    SELECT table_name, 'table' FROM duckdb_tables() WHERE schema_name = 'main'
    UNION ALL SELECT view_name, 'view' FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal
"""


def _drop_other_kinds(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop tables that are now views, and views that are now tables, which an earlier version of firmlake made."""
    kinds = {definition.name: definition.kind for definition in definitions()}
    for name, kind in connection.execute(_KINDS).fetchall():
        if kinds.get(name, kind) in {"table", "view"} - {kind}:
            connection.execute(f"DROP {kind} {name}")


def _comments(connection: duckdb.DuckDBPyConnection, made: list[Definition]) -> Iterator[str]:
    for definition in made:
        yield _COMMENT[definition.kind].format(definition.name, quote_text(definition.meaning))
    for name, columns in describe_columns(connection, (one for one in made if one.kind in ("table", "view"))).items():
        for column, (_, meaning) in columns.items():
            yield f'COMMENT ON COLUMN {name}."{column}" IS {quote_text(meaning)}'
