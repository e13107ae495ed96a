"""The answer to a query: as a table that fits the screen, or in a format that programs read, on stdout or in a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import msgspec
import pyarrow.parquet as pq

from firmlake.core.errors import UsageError
from firmlake.core.files import write_file
from firmlake.core.guard import guard
from firmlake.core.text import shown
from firmlake.terminal.echo import echo
from firmlake.terminal.rows import count_of, screen_width, show_table, text_of

__all__ = ["FORMATS", "Answer", "show_answer", "write_parquet"]

_VERTICAL_ROWS: Final = 3
"""So many rows are shown one value below the other where they are too wide for the screen."""
_BATCH_ROWS: Final = 100_000
_CELL_WIDTH: Final = 24
"""To which a cell is cut where the row is too wide."""
_FRAME: Final = 3
"""Characters that a column takes besides its content."""


class Answer(NamedTuple):
    """Columns and rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def show_answer(answer: Answer) -> None:
    """Print an answer so that it fits the screen: as a table, else one value below the other, else cut."""
    columns, rows = answer
    cells = [[text_of(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)] if columns else []
    if sum(width + _FRAME for width in widths) < screen_width():
        show_table(columns, rows)
    elif len(rows) <= _VERTICAL_ROWS:
        _show_vertically(columns, cells)
    else:
        _show_cut(answer, cells, widths)
    echo(count_of(len(rows), "row"))


def as_csv(answer: Answer) -> str:
    """Write an answer as CSV; text that a spreadsheet would take for a formula is guarded."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([guard(_plain(value)) if value is not None else None for value in row] for row in answer.rows)
    return file.getvalue()


def as_json(answer: Answer) -> str:
    """Write an answer as a JSON array of objects; amounts stay exact, as texts."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return msgspec.json.format(msgspec.json.encode(rows, enc_hook=str), indent=2).decode() + "\n"


def as_markdown(answer: Answer) -> str:
    """Write an answer as a table in Markdown."""
    rows = [answer.columns, ["---"] * len(answer.columns)]
    rows += [["" if value is None else _plain(value) for value in row] for row in answer.rows]
    return "".join(f"| {' | '.join(map(_in_markdown, row))} |\n" for row in rows)


FORMATS: dict[str, Callable[[Answer], str]] = {"csv": as_csv, "json": as_json, "markdown": as_markdown}
"""What an answer can be written as in text; Parquet is written batch by batch."""


def write_parquet(path: Path, connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Write the answer to a question as Parquet, batch by batch; give the number of rows.

    Raises:
        UsageError: The statement gives no rows.
    """
    count, relation = 0, connection.sql(sql)
    if relation is None:
        raise UsageError("The statement gives no rows to write", "Write a question, such as 'FROM companies'")

    def write(aside: Path) -> None:
        nonlocal count
        reader = relation.to_arrow_reader(_BATCH_ROWS)
        with pq.ParquetWriter(aside, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                count += batch.num_rows

    write_file(path, write)
    return count


# ---------------------------------------------------------------------------------------------------------------------


def _show_vertically(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    margin = max(map(len, columns))
    for number, row in enumerate(cells, 1):
        if len(cells) > 1:
            echo(f"--- row {number} ---")
        for column, cell in zip(columns, row, strict=True):
            echo(f"{shown(column):>{margin}}  {shown(cell)}")


def _show_cut(answer: Answer, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Print as many columns as fit, with long cells cut."""
    fitting, room = 0, screen_width() - 1
    for width in widths:
        room -= min(width, _CELL_WIDTH) + _FRAME
        if room < 0:
            break
        fitting += 1
    fitting = max(fitting, 1)
    rows = [
        [_cut(cell) if len(cell) > _CELL_WIDTH else value for value, cell in zip(row, line, strict=True)][:fitting]
        for row, line in zip(answer.rows, cells, strict=True)
    ]
    show_table(answer.columns[:fitting], rows)
    rest = answer.columns[fitting:]
    if rest:
        echo(f"{count_of(len(rest), 'column')} more: {', '.join(map(shown, rest))}")
    echo("Cut to what fits; --format csv, json or markdown shows all, and --out FILE writes it")


def _cut(text: str) -> str:
    return text[: _CELL_WIDTH - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict | tuple) else str(value)


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\r", " ").replace("\n", " ")
