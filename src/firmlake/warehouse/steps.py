"""Make a table from a macro step by step: each query of its WITH becomes a temporary table.

DuckDB keeps the results of recursive queries and aggregates in memory until the statement ends, and cannot spill all of
them. For a million companies with an owner each, `group_branches` needs more than 150 MB as one statement, and 60 MB in
steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb

from firmlake.warehouse.definitions import Definition

__all__ = ["create_in_steps"]


def create_in_steps(connection: duckdb.DuckDBPyConnection, table: str, macro: Definition) -> None:
    """Create a table, or create it again, with the rows of a macro that is called without arguments.

    Args:
        connection: An unpublished generation that holds what the macro reads. Temporary tables with the names of its
            queries are replaced, and dropped at the end.
        table: Name of the table.
        macro: A table macro whose SQL is laid out as in `views/`: each query of its WITH, and the rest, begins and ends
            on a line of its own.
    """
    parameters = dict(_PARAMETER.findall(macro.parameters))
    made = []
    for name, columns, query in _read_steps(macro.sql):
        asked = _WORD.sub(lambda word: parameters.get(word[0], word[0]), query) if name == "asked" else query
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS WITH RECURSIVE {name}{columns} AS ({asked}) FROM {name}"
        )
        made.append(name)
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS {_STEP.sub('', macro.sql)}")
    for name in made:
        connection.execute(f"DROP TABLE temp.{name}")


# ---------------------------------------------------------------------------------------------------------------------

_PARAMETER = re.compile(r"(\w+) := ([^,]+)")
_WORD = re.compile(r"\w+")
_STEP = re.compile(
    r"^(?:WITH (?:RECURSIVE )?)?(\w+)((?:\([\w, ]+\))?(?: USING KEY \([\w, ]+\))?)"
    r" AS (?:MATERIALIZED )?\(\n(.*?)^\),?\n",
    re.DOTALL | re.MULTILINE,
)


def _read_steps(sql: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, columns with key, and text of each query of a WITH."""
    for step in _STEP.finditer(sql):
        yield step[1], step[2], step[3]
