"""Tables on a terminal: aligned, with text from outside made harmless."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from firmlake.core.redaction import redact
from firmlake.core.text import shown
from firmlake.terminal.echo import echo

_WIDTH_ELSEWHERE: Final = 120
SHOWN_MAX: Final = 1000
"""Most rows shown as a table; of a longer result, they determine the widths of the columns."""
SHOWN_FIRST: Final = 50
"""Rows of a longer result that a terminal shows."""


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print rows as a table; print nothing if there are no rows."""
    if rows:
        show_table(columns, rows, title)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print rows as a table; print only the header if there are no rows."""
    table = Table(title=shown(title) or None, title_justify="left", title_style="bold")
    for position, column in enumerate(columns):
        numbers = bool(rows) and all(row[position] is None or _is_number(row[position]) for row in rows)
        table.add_column(shown(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(shown(redact(text_of(value))) for value in row))
    _Screen(width=screen_width(), markup=False, highlight=False).print(table)


def show_long_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Print rows as they arrive, as a table or, if there are many, one per line; return the number of rows."""
    rest = iter(rows)
    first = list(islice(rest, SHOWN_MAX + 1))
    if len(first) <= SHOWN_MAX:
        show_table(columns, first)
        return len(first)
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
