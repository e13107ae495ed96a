"""Query results: a table that fits the screen, or a format for programs, on stdout or in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow.parquet as pq

from firmlake.core.errors import UsageError
from firmlake.core.files import write_file
from firmlake.core.guard import guard
from firmlake.core.parts import csv_parts, json_parts
from firmlake.core.text import count_of, shown
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import SHOWN_FIRST, SHOWN_MAX, screen_width, show_long_table, show_table, text_of

_VERTICAL_ROWS: Final = 3
"""Up to this many rows are shown one value per line if they are too wide for the screen."""
_BATCH_ROWS: Final = 100_000
_ROWS_IN_MEMORY: Final = 10_000
_CELL_WIDTH: Final = 24
"""Cells are cut to this many characters if a row is too wide."""
_FRAME: Final = 3
"""Characters that a column takes in addition to its content."""


Rows = Iterable[tuple[Any, ...]]


class QueryResult(NamedTuple):
    """Columns and rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def show_result(columns: Sequence[str], rows: Rows) -> None:
    """Print a result so that it fits the screen; of more than a thousand rows, a terminal shows the first fifty."""
    number, rest = 0, _with_plain_years(columns, rows)
    first = list(islice(rest, SHOWN_MAX + 1))
    if len(first) <= SHOWN_MAX:
        number = len(first)
        _show_fitting(QueryResult(list(columns), first))
    elif sys.stdout.isatty():
        number = len(first) + sum(1 for _ in rest)
        _show_fitting(QueryResult(list(columns), first[:SHOWN_FIRST]))
        echo(f"Only the first {SHOWN_FIRST} are shown; --out FILE writes all")
    else:
        number = show_long_table(columns, chain(first, rest))
    echo(count_of(number, "row"))


def show_whole(result: QueryResult, title: str) -> None:
    """Print a result uncut: as a table if it fits the screen, else with one value per line. No rows print nothing."""
    if not result.rows:
        return
    cells, widths = _measure(result)
    if _fits(widths):
        show_table(*result, title)
    else:
        echo(title)
        _show_vertically(result.columns, cells)


def as_csv(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as CSV. Text that a spreadsheet would run as a formula is guarded."""
    cells = ([None if value is None else guard(_plain(value)) for value in row] for row in rows)
    return csv_parts(columns, cells, "\n")


def as_json(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as a JSON array of objects. Amounts become strings, so that they stay exact."""
    return json_parts((dict(zip(columns, row, strict=True)) for row in rows), str)


def as_markdown(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write a result as a table in Markdown."""
    for row in chain([columns, ["---"] * len(columns)], rows):
        cells = ("" if value is None else _plain(value).replace("|", "\\|") for value in row)
        yield f"| {' | '.join(cells)} |".replace("\r", " ").replace("\n", " ") + "\n"


FORMATS: dict[str, Callable[[Sequence[str], Rows], Iterator[str]]] = {
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
}
"""The text formats of a result."""

BINARY_FORMATS: Final = ("parquet", "xlsx")


def write_binary(path: Path, kind: str, connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Write the result of a query as Parquet or XLSX, batch by batch, whole or not at all; return the number of rows.

    Raises:
        UsageError: The statement returns no rows. Write a query instead.
    """
    count, relation = 0, connection.sql(sql)
    if relation is None:
        raise UsageError("The statement returns no rows to write", "Write a query, such as 'FROM companies'")

    def write(aside: Path) -> None:
        nonlocal count
        reader = relation.to_arrow_reader(_BATCH_ROWS if kind == "parquet" else _ROWS_IN_MEMORY)
        if kind == "xlsx":
            from firmlake.delivery.list_workbook import write_result

            columns = dict(zip(relation.columns, map(str, relation.types), strict=True))
            count = write_result(aside, path.stem, columns, reader)
            return
        with pq.ParquetWriter(aside, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                count += batch.num_rows

    write_file(path, write)
    return count


def _with_plain_years(columns: Sequence[str], rows: Rows) -> Iterator[tuple[Any, ...]]:
    """Turn years and ids into text, which is shown without thousands separators."""
    plain = {place for place, name in enumerate(columns) if name.lower().endswith(("year", "_id"))}
    for row in rows:
        yield tuple(str(cell) if at in plain and type(cell) is int else cell for at, cell in enumerate(row))


def _show_fitting(result: QueryResult) -> None:
    """Print a result so that it fits the screen: as a table, with one value per line, or cut."""
    columns, rows = result
    cells, widths = _measure(result)
    if _fits(widths):
        show_table(columns, rows)
    elif len(rows) <= _VERTICAL_ROWS:
        _show_vertically(columns, cells)
    else:
        _show_cut(result, cells, widths)


def _measure(result: QueryResult) -> tuple[list[list[str]], list[int]]:
    """Return the texts of all cells, and the width of each column."""
    cells = [[text_of(value) for value in row] for row in result.rows]
    return cells, [max(map(len, column)) for column in zip(result.columns, *cells, strict=True)]


def _fits(widths: Sequence[int]) -> bool:
    return sum(width + _FRAME for width in widths) < screen_width()


def _show_vertically(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    margin = max(map(len, columns))
    for number, row in enumerate(cells, 1):
        if len(cells) > 1:
            echo(f"--- row {number} ---")
        for column, cell in zip(columns, row, strict=True):
            echo(f"{shown(column):>{margin}}  {shown(cell)}")


def _show_cut(result: QueryResult, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Print as many columns as fit, and cut long cells."""
    fitting, room = 0, screen_width() - 1
    for width in widths:
        room -= min(width, _CELL_WIDTH) + _FRAME
        if room < 0:
            break
        fitting += 1
    fitting = max(fitting, 1)
    rows = [
        [_cut(cell) if len(cell) > _CELL_WIDTH else value for value, cell in zip(row, line, strict=True)][:fitting]
        for row, line in zip(result.rows, cells, strict=True)
    ]
    show_table(result.columns[:fitting], rows)
    rest = result.columns[fitting:]
    if rest:
        echo(f"{count_of(len(rest), 'column')} more: {', '.join(map(shown, rest))}")
    echo("Cut to fit the screen; --format csv, json or markdown shows everything, --out FILE writes it")


def _cut(text: str) -> str:
    return text[: _CELL_WIDTH - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict | tuple) else str(value)
