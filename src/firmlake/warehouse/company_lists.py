"""The company lists of a generation: found by name, and everything restricted to the companies on one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

import duckdb

from firmlake.core.errors import FirmlakeError, UsageError

__all__ = ["NamedList", "find_list", "list_names", "quote_name", "restrict"]

_LISTS = "SELECT list_name, file_name, column_names, line_count FROM company_lists ORDER BY list_name"


class NamedList(NamedTuple):
    """A list that is held: its name, its file, the names of its columns as a JSON array, and its lines."""

    name: str
    file_name: str
    column_names: str
    line_count: int


def find_list(connection: duckdb.DuckDBPyConnection, name: str) -> NamedList:
    """Find a list by its name, in upper or lower case.

    Raises:
        UsageError: There is none; the nearest name is given.
        FirmlakeError: The generation was made before there were lists in it.
    """
    try:
        rows = connection.execute(_LISTS).fetchall()
    except duckdb.CatalogException:
        raise FirmlakeError(
            "The newest generation holds no lists: an earlier version of firmlake made it",
            "Run the list again; what is fresh is not fetched again",
        ) from None
    known = {row[0].lower(): NamedList(*row) for row in rows}
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean {known[near[0]].name!r}? " if near else ""
    raise UsageError(
        f"There is no list {name!r}", f"{hint}`firmlake list show` names all, `firmlake run LIST` adds one"
    )


def list_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the names of all lists."""
    return [row[0] for row in connection.execute(_LISTS).fetchall()]


def restrict(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Let a connection see only the companies of a list: in every table that tells of companies, and so in all views.

    Raises:
        UsageError: There is no such list.
    """
    held = find_list(connection, name)
    connection.execute(_LISTED, [held.name])
    for database, table in connection.execute(_OF_COMPANIES).fetchall():
        whole = f"{quote_name(database)}.main.{quote_name(table)}"
        connection.execute(
            f"CREATE TEMP VIEW {quote_name(table)} AS FROM {whole} SEMI JOIN listed USING (country, company_number)"
        )


def quote_name(name: str) -> str:
    """Write the name of a list as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


# ---------------------------------------------------------------------------------------------------------------------

_LISTED = """
    CREATE TEMP TABLE listed AS
    SELECT DISTINCT country, company_number FROM list_members WHERE list_name = ? AND company_number IS NOT NULL
"""

# Lines of lists stay: another list may be asked about beside.
_OF_COMPANIES = """
    SELECT database_name, table_name FROM duckdb_tables()
    SEMI JOIN (SELECT database_name, table_name FROM duckdb_columns() WHERE column_name = 'company_number')
        USING (database_name, table_name)
    WHERE NOT temporary AND schema_name = 'main' AND table_name NOT LIKE 'list_members%'
"""
