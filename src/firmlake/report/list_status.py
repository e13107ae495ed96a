"""Company lists in the warehouse: all lists, the status of the lines of one, and who joined or left it."""

from __future__ import annotations

from typing import Any

import duckdb

from firmlake.core.parts import fetch_dicts
from firmlake.core.sql import quote_name
from firmlake.warehouse.list_names import find_named_list

__all__ = ["read_list_overview", "read_list_status"]

_LISTS = """
    SELECT list_name, file_name, line_count, company_count, listed_at, run_id FROM company_lists ORDER BY list_name
"""
_STATUSES = "SELECT status, count(*) FROM list_lines WHERE list_name = ? GROUP BY ALL ORDER BY count(*) DESC, status"
_PROBLEMS = """
    SELECT line, given, status, reason FROM list_lines
    WHERE list_name = ? AND status IN ('refused', 'not found', 'failed') ORDER BY line LIMIT ?
"""
_PROBLEMS_MAX = 1000
_MOVES = """
    SELECT move, country, company_number, name FROM list_moves WHERE list_name = $name
    AND generation = (SELECT max(generation) FROM list_moves WHERE list_name = $name)
    ORDER BY ALL
"""


def read_list_overview(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Read all lists, by name."""
    return fetch_dicts(connection.execute(_LISTS))


def read_list_status(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """Read one list: its lines by status, the first lines without data, and the companies that joined or left last.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
    """
    found = find_named_list(connection, name)
    return {
        "list_name": found.name,
        "file_name": found.file_name,
        "line_count": found.line_count,
        "view": f"lists.{quote_name(found.name)}",
        "statuses": dict(connection.execute(_STATUSES, [found.name]).fetchall()),
        "problems": fetch_dicts(connection.execute(_PROBLEMS, [found.name, _PROBLEMS_MAX])),
        "moves": fetch_dicts(connection.execute(_MOVES, {"name": found.name})),
    }
