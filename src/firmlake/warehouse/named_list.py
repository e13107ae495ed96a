"""Company lists of a generation: find a list by name, and restrict all tables to its companies."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

import duckdb

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.sql import quote_name

__all__ = ["find_named_list", "list_names", "restrict"]

_LISTS = "SELECT list_name, file_name, column_names, line_count, run_id FROM company_lists ORDER BY list_name"


class NamedList(NamedTuple):
    """A list in the warehouse: name, file, names of its columns as a JSON array, number of lines, run that read it."""

    name: str
    file_name: str
    column_names: str
    line_count: int
    run_id: str


def find_named_list(connection: duckdb.DuckDBPyConnection, name: str) -> NamedList:
    """Find a list by its name, ignoring case.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
        FirmlakeError: The generation was made by a version without lists. Run the list again.
    """
    try:
        rows = connection.execute(_LISTS).fetchall()
    except duckdb.CatalogException:
        raise FirmlakeError(
            "The newest generation holds no lists, because an earlier version of firmlake made it",
            "Run the list again; fresh companies are not fetched again",
        ) from None
    known = {row[0].lower(): NamedList(*row) for row in rows}
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean {known[near[0]].name!r}? " if near else ""
    raise UsageError(
        f"There is no list {name!r}", f"{hint}`firmlake list show` shows all lists, `firmlake run LIST` adds one"
    )


def list_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the names of all lists."""
    return [row[0] for row in connection.execute(_LISTS).fetchall()]


def restrict(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Restrict all tables of companies, and therefore all views, of a connection to the companies of a list.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
    """
    found = find_named_list(connection, name)
    connection.execute(_LISTED, [found.name])
    for database, table in connection.execute(_OF_COMPANIES).fetchall():
        whole = f"{quote_name(database)}.main.{quote_name(table)}"
        connection.execute(
            f"CREATE TEMP VIEW {quote_name(table)} AS FROM {whole} SEMI JOIN listed USING (country, company_number)"
        )


# ---------------------------------------------------------------------------------------------------------------------

_LISTED = """
    CREATE TEMP TABLE listed AS
    SELECT DISTINCT country, company_number FROM list_members WHERE list_name = ? AND company_number IS NOT NULL
"""

# Tables of list lines are not restricted, so that a query can use other lists too. Nor are parties, because the owners
# of listed companies need not be listed.
_OF_COMPANIES = """
    SELECT database_name, table_name FROM duckdb_tables()
    SEMI JOIN (SELECT database_name, table_name FROM duckdb_columns() WHERE column_name = 'company_number')
        USING (database_name, table_name)
    WHERE NOT temporary AND schema_name = 'main' AND table_name NOT LIKE 'list_members%'
        AND table_name <> 'parties'
"""
