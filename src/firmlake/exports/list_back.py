"""Gather a company list and the data of its companies, to write them to a file."""

# ruff: noqa: S608 - statements are put together from our own names and quoted ones

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, count
from typing import Final, NamedTuple

import duckdb
import pyarrow.parquet as pq

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.guard import RISKY
from firmlake.core.run import Run, RunPlan, open_run
from firmlake.core.sql import quote_name as quoted
from firmlake.core.sql import quote_text as _text
from firmlake.exports.earlier_columns import find_earlier, given_names
from firmlake.exports.list_columns import AddedColumn, line_columns
from firmlake.warehouse.named_list import find_named_list

__all__ = ["ListBack", "gather_list"]

_UNREAD: Final = AddedColumn(
    "list_lines", "unread_line", "VARCHAR", "The line as it stands, if it cannot be divided into fields"
)


_LINES: Final = """
    CREATE TEMP TABLE back_lines AS
    SELECT * FROM list_lines LEFT JOIN ({kinds}) USING (line) WHERE list_name = {name}
"""

_COMPANIES: Final = 32_768
"""Companies per portion."""
_RANGES: Final = """
    SELECT portion, country, min(company_number), max(company_number)
    FROM (
        SELECT *, (row_number() OVER (ORDER BY country, company_number) - 1) // ? AS portion
        FROM (SELECT DISTINCT country, company_number FROM back_lines WHERE company_number IS NOT NULL)
    )
    GROUP BY portion, country ORDER BY portion, country
"""

_OWNERS: Final = "CREATE TEMP TABLE ultimate_owners AS FROM ultimate_owners"
"""Replaces the view, which each portion would otherwise compute for all companies."""


_UNGUARDED: Final = "regexp_replace(cells[{}], " + _text("^'(" + RISKY.removeprefix("^") + ")") + r", '\1')"
"""A cell of a CSV file that an earlier `--out` wrote, without the apostrophe that guards it."""


class ListBack(NamedTuple):
    """A list to be written to a file.

    Attributes:
        own: The columns of the list itself, in their order.
        earlier: Columns of the list that an earlier `--out` added; `added` replaces them.
        added: The added columns, by their name in the file.
        query: Selects one row for each line, in order: the own columns as text, then the added ones.
        typed_query: The same, but own columns of a Parquet list have their type.
        cell_query: As `query`, with one more column: a letter for each own cell (see `TextTable.has_kinds`), empty if
            the cells of the list have no types.
        cells: Selects the own columns alone, in any order.
        refused: Selects line, given and reason of the refused lines.
        delimiter: The delimiter of the list; a comma if it was not delimited text.
        formats: Number formats of columns of an XLSX list, as in `TextTable.formats`.
    """

    name: str
    line_count: int
    own: tuple[str, ...]
    earlier: tuple[str, ...]
    added: dict[str, AddedColumn]
    query: str
    typed_query: str
    cell_query: str
    cells: str
    refused: str
    delimiter: str
    formats: dict[str, dict[str, str | int]]


def gather_list(
    connection: duckdb.DuckDBPyConnection, folders: Folders, name: str, chosen: Sequence[AddedColumn]
) -> ListBack:
    """Gather the newest version of a list in temporary tables of a connection.

    Args:
        connection: A generation.
        folders: The data folder.
        name: The list.
        chosen: The columns to add.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
    """
    listed = find_named_list(connection, name)
    plan = _read_plan(folders, listed.run_id)
    connection.execute(_LINES.format(kinds=_read_kinds(folders, plan), name=_text(listed.name)))
    # Paths are JSON pointers, so that names may hold any character.
    paths = {each: "/" + each.replace("~", "~0").replace("/", "~1") for each in json.loads(listed.column_names)}
    earlier = find_earlier(connection, paths)
    own = tuple(each for each in paths if each not in earlier)
    has_unread = connection.execute(
        "SELECT bool_or(status = 'refused' AND reason LIKE 'number of fields%') FROM back_lines"
    ).fetchall()[0][0]
    added = _name_added((*line_columns(), *([_UNREAD] if has_unread else []), *chosen), own)
    # One call extracts all cells of a line.
    cells = (
        f"json_extract_string(columns, [{', '.join(_text(paths[each]) for each in own)}])" if own else "[]::VARCHAR[]"
    )
    cell = _UNGUARDED if earlier and plan and plan.list_delimiter else "cells[{}]"
    values = {column: cell.format(n) for n, column in enumerate(own, 1)}
    values |= {given: _source(each) for given, each in added.items()}
    _gather(connection, f"SELECT *, {cells} AS cells FROM back_lines", chosen, list(values.values()))
    shown = [f"v{n} AS {quoted(column)}" for n, column in enumerate(values)]
    types = plan.list_types if plan else {}
    typed = [  # a year beyond 9999 has a sign, which DuckDB does not read
        f"TRY_CAST(ltrim(v{n}, '+') AS {types[column]}) AS {quoted(column)}"
        if column in types and n < len(own)
        else shown[n]
        for n, column in enumerate(values)
    ]
    letters = ", ".join(f"kinds[{n}]" for n, each in enumerate(paths, 1) if each in own)
    return ListBack(
        listed.name,
        listed.line_count,
        own,
        earlier,
        added,
        _rows(shown),
        _rows(typed),
        _rows([*shown, f"concat({letters or 'NULL'})"]),
        f"SELECT {', '.join(shown[: len(own)]) or 'NULL'} FROM back_rows",
        "SELECT line, given, reason FROM back_lines WHERE status = 'refused' ORDER BY line",
        (plan.list_delimiter if plan else "") or ",",
        plan.list_formats if plan else {},
    )


# ---------------------------------------------------------------------------------------------------------------------


def _read_plan(folders: Folders, run_id: str) -> RunPlan | None:
    """Return the plan of the run that read a list; None if it is lost."""
    with suppress(DamagedError):
        return open_run(folders, run_id).plan
    return None


def _read_kinds(folders: Folders, plan: RunPlan | None) -> str:
    """Return a query for the kinds of cells by line, which only the frozen plan holds."""
    with suppress(DamagedError):
        members = Run(folders, plan).checked("members") if plan else None
        if members and "kinds" in pq.read_schema(members).names:  # earlier versions kept none
            return f"SELECT line, kinds FROM read_parquet({_text(str(members))})"
    return "SELECT NULL::BIGINT AS line, NULL::VARCHAR AS kinds WHERE false"


def _gather(
    connection: duckdb.DuckDBPyConnection, lines: str, chosen: Sequence[AddedColumn], values: Sequence[str]
) -> None:
    """Gather the values of all lines in `back_rows`, one portion of the companies at a time."""
    named = ", ".join(f"{value} AS v{n}" for n, value in enumerate(values))
    relations = dict.fromkeys(each.relation for each in chosen)
    with suppress(duckdb.CatalogException):  # an earlier version of firmlake made the generation
        connection.execute(_OWNERS)
    make = "CREATE TEMP TABLE back_rows AS"
    for portion in _portions(connection):
        joins = " ".join(
            f"LEFT JOIN (FROM {each} WHERE {portion}) {each} USING (country, company_number)" for each in relations
        )
        connection.execute(f"{make} SELECT line, kinds, {named} FROM ({lines} WHERE {portion}) list_lines {joins}")
        make = "INSERT INTO back_rows"


def _portions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a condition for each portion of the companies, made of constants, so that DuckDB skips other rows."""
    ranges: dict[int, list[str]] = {0: ["company_number IS NULL"]}
    for portion, country, first, last in connection.execute(_RANGES, [_COMPANIES]).fetchall():
        condition = f"country = {_text(country)} AND company_number BETWEEN {_text(first)} AND {_text(last)}"
        ranges.setdefault(portion, []).append(condition)
    return [f"({' OR '.join(each)})" for each in ranges.values()]


def _rows(values: Sequence[str]) -> str:
    return f"SELECT {', '.join(values)} FROM back_rows ORDER BY back_rows.line"


def _source(added: AddedColumn) -> str:
    if added is _UNREAD:
        return "CASE WHEN list_lines.reason LIKE 'number of fields%' THEN list_lines.given END"
    value = f"{added.relation}.{quoted(added.name)}"
    # A blank line stays blank, so that it is one again if the file is used as a list.
    return f"CASE WHEN list_lines.status <> 'blank' THEN {value} END" if added in line_columns() else value


def _name_added(added: Sequence[AddedColumn], own: Sequence[str]) -> dict[str, AddedColumn]:
    """Give each added column a name that no other column of the file has."""
    taken = {name.casefold() for name in own}
    named: dict[str, AddedColumn] = {}
    for each in added:
        names = chain(given_names(each), (f"{each.relation}_{each.name}{number}" for number in count(3)))
        name = next(name for name in names if name.casefold() not in taken)
        taken.add(name.casefold())
        named[name] = each
    return named
