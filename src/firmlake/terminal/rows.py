"""Tables on a terminal: aligned, with text from outside made harmless."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from rich import table as rich_table
from rich.console import Console

from firmlake.core.text import redact, shown
from firmlake.terminal.echo import echo

_WIDTH_ELSEWHERE: Final = 120
FRAME: Final = 3
"""Characters that a column takes in addition to its content."""
SHOWN_MAX: Final = 1000
"""Most rows shown as a table; of a longer result, they determine the widths of the columns."""
SHOWN_FIRST: Final = 50
"""Rows of a longer result that a terminal shows."""


class Table(NamedTuple):
    """A table of a result; without rows it is left out."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    is_folded: bool = True
    """Whether its cells are folded if it is too wide for the screen; otherwise each value has a line of its own."""


Part = str | Table
"""A part of a result for a person: a line, or a table."""


def first_rows(most: int, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str, count: int = 0) -> Table:
    """Make a table of the first rows; its title says of how many (`count`, if that is more than are in `rows`)."""
    count = max(count, len(rows))
    return Table(columns, rows[:most], f"{title}, the first {most} of {count:,}" if count > most else title)


def show(parts: Iterable[Part]) -> None:
    """Print a result for a person."""
    for part in parts:
        if isinstance(part, str):
            echo(part)
        elif part.rows:
            (show_table if part.is_folded else show_uncut)(part.columns, part.rows, part.title)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print rows as a table; print only the header if there are no rows."""
    table = rich_table.Table(title=shown(title) or None, title_justify="left", title_style="bold")
    for position, column in enumerate(columns):
        numbers = bool(rows) and all(row[position] is None or _is_number(row[position]) for row in rows)
        table.add_column(shown(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(shown(redact(text_of(value))) for value in row))
    _Screen(width=screen_width(), markup=False, highlight=False).print(table)


def show_uncut(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print rows as a table if it fits the screen, otherwise with one value per line."""
    cells, widths = measure(columns, rows)
    if fits(widths):
        show_table(columns, rows, title)
        return
    if title:
        echo(title)
    for number, row in enumerate(cells, 1):
        if len(cells) > 1:
            echo(f"--- row {number} ---")
        for column, cell in zip(columns, row, strict=True):
            echo(f"{shown(column):>{max(map(len, columns))}}  {shown(cell)}")


def measure(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[list[str]], list[int]]:
    """Return the texts of all cells, and the width of each column."""
    cells = [[text_of(value) for value in row] for row in rows]
    return cells, [max(map(len, column)) for column in zip(columns, *cells, strict=True)]


def fits(widths: Sequence[int]) -> bool:
    """Tell whether columns of these widths fit the screen."""
    return sum(width + FRAME for width in widths) < screen_width()


def show_long_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Print many rows as they arrive, one per line, as wide as the first need; return the number of rows."""
    rest = iter(rows)
    first = list(islice(rest, SHOWN_MAX))
    widths = [max(len(text_of(value)) for value in column) for column in zip(columns, *first, strict=True)]
    lines = (_line(row, widths) for row in chain([columns], first, rest))
    count = -1  # the header is not a row
    while some := list(islice(lines, SHOWN_MAX)):
        echo("\n".join(some))
        count += len(some)
    return count


def screen_width() -> int:
    """Return the width of the terminal in characters, or a fixed width if stdout is not a terminal."""
    return Console().width if sys.stdout.isatty() else _WIDTH_ELSEWHERE


def text_of(value: Any) -> str:
    """Format a value for a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.15g}"  # one digit more would show 0.1 + 0.2 as 0.30000000000000004
    return f"{value:,}" if _is_number(value) else str(value)


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error; by default, rich would end the process."""
        raise BrokenPipeError


def _line(row: Sequence[Any], widths: Sequence[int]) -> str:
    cells = (shown(text_of(value)).ljust(width) for value, width in zip(row, widths, strict=True))
    return f"│ {' │ '.join(cells)} │"


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | bool) and hasattr(value, "__float__")
