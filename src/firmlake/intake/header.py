"""Find the header of a list from its names and the lines below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms, quoted_names, role_of
from firmlake.intake.table import SAMPLE_ROWS
from firmlake.intake.words import is_country

_MOST_ROWS: Final = 31
"""Search the header in this many rows; rows above it are titles."""

_FEWEST_DIGITS: Final = 7
"""Digits of the shortest company number: a KVK number without its leading zero."""

_MOST_LETTERS: Final = 8
_DATE: Final = re.compile(r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?!\d)")
_WIDE: Final = 0.5
"""A header fills at least this share of the cells that the data below it fill; a title fills one or two."""


class HeaderPosition(NamedTuple):
    """The position of the header.

    Attributes:
        row: Position from 0 of the row with the column names; None if there is no header.
        data: Position of the first row of data.
    """

    row: int | None
    data: int


def find_header(
    path: Path, lines: Sequence[int], rows: Sequence[Sequence[str]], options: IntakeSettings, synonyms: Synonyms
) -> HeaderPosition:
    """Find the row that names the columns, among the first rows that are not blank.

    The header is the row with the most known names above the first company number. If no row has a known name, the
    header is the last row above the data that fills about as many columns as the data.

    Args:
        path: The file, for messages.
        lines: Line numbers of the first rows that are not blank.
        rows: Fields of these rows, as lists of texts.
        options: `header_row`, or `header` (`yes`, `no`, or `auto` to detect).
        synonyms: Known header names by role.

    Raises:
        CompanyListError: Line `intake.header_row` is blank or too far down. Correct the setting.
    """
    if options.header_row:
        if options.header_row not in lines:
            raise CompanyListError(
                f"{path}: line {options.header_row} cannot be the header: it is blank, or below the first "
                f"{SAMPLE_ROWS:,} lines",
                "Give the line with the names of the columns: --set intake.header_row=LINE",
            )
        row = list(lines).index(options.header_row)
        return HeaderPosition(row, row + 1)
    return locate_header(rows[:_MOST_ROWS], options.header, synonyms)


def locate_header(rows: Sequence[Sequence[str]], choice: str, synonyms: Synonyms) -> HeaderPosition:
    """Find the header like `find_header`, without a line number from the settings.

    Example:
        >>> from firmlake.intake.columns import COMPANY_COLUMNS
        >>> locate_header([["Customers", ""], ["Naam", "KvK"], ["Fugro", "27120091"]], "auto", COMPANY_COLUMNS)
        HeaderPosition(row=1, data=2)
        >>> locate_header([["BE 0403.227.515"]], "auto", COMPANY_COLUMNS)
        HeaderPosition(row=None, data=0)
    """
    if choice == "no" or not rows:
        return HeaderPosition(None, 0)
    data = next((n for n, row in enumerate(rows) if any(map(_is_number, row))), len(rows))
    known = [known_names(row, synonyms) for row in rows[: max(data, 1)]]
    if any(known):
        row = max(range(len(known)), key=lambda n: (known[n], _filled(rows[n]), -n))
        return HeaderPosition(row, _end(rows, known, row))
    header = _by_data(rows)
    return HeaderPosition(0, 1) if header == HeaderPosition(None, 0) and choice == "yes" else header


def _by_data(rows: Sequence[Sequence[str]]) -> HeaderPosition:
    """Find the header by the rows below it, if no name is known."""
    data = next((n for n, row in enumerate(rows) if any(_is_number(cell) or is_country(cell) for cell in row)), None)
    if data == 0:
        return HeaderPosition(None, 0)
    width = max(map(_filled, rows)) if data is None else _filled(rows[data])
    wide = [n for n, row in enumerate(rows[:data]) if _filled(row) >= width * _WIDE]
    if not wide:
        return HeaderPosition(None, data or 0)
    row = wide[0] if data is None else wide[-1]
    return HeaderPosition(row, row + 1)


def first_data_line(header: HeaderPosition, lines: Sequence[int]) -> int:
    """Return the line of the first row of data; blank lines above it count as part of the header, like titles."""
    return lines[header.data] if header.data < len(lines) else lines[-1] + 1


def describe_header(header: HeaderPosition, lines: Sequence[int], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return a sentence about the position of the header, unless it is the first filled line."""
    if header.data <= 1:
        return ()
    if names is None:
        return (
            f"The data begins on line {lines[header.data]}; if there is a header, use --set intake.header_row=LINE",
        )
    shown = quoted_names([name for name in names if name.strip()], 3)
    line, last = lines[header.row or 0], lines[header.data - 1]
    data = f", and the data begins below line {last}" if last > line else ""
    return (f"The header is on line {line} ({shown}){data}; to choose another line: --set intake.header_row=LINE",)


def known_names(row: Sequence[str], synonyms: Synonyms) -> int:
    """Count the cells that are known header names."""
    return sum(role_of(cell, synonyms) is not None for cell in row if cell)


def _end(rows: Sequence[Sequence[str]], known: Sequence[int], row: int) -> int:
    """Return the first row of data below a header, skipping a second header in another language."""
    below = row + 1
    for number, names in zip(known[below:], rows[below:], strict=False):
        if not number or number * 2 < known[row] or any(map(is_country, names)):
            break
        below += 1
    return below


def _filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def _is_number(cell: str) -> bool:
    """Return whether a cell looks like a company number: enough digits, few letters, not a date."""
    if sum(map(str.isdigit, cell)) < _FEWEST_DIGITS or _DATE.search(cell):
        return False
    return sum(map(str.isalpha, cell)) <= _MOST_LETTERS
