"""Load the cells of worksheets as text, in a process with a memory limit if they may be too large.

A text cell is read as shown. A date is read in ISO 8601, without a time if it has none. A number is rounded to 15
digits, because spreadsheets neither show nor keep more. So 123456789.12 stays the same, and 0.1 + 0.2 becomes 0.3. A
number with more than 15 digits before its point has lost some of them. It is read in scientific notation
(1.23456789012346E+18), so it cannot be mistaken for an identifier. An error is read as shown in English: #N/A.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastexcel
import polars as pl

from firmlake.intake.table import KINDS

__all__ = ["Sheet", "SheetDamagedError", "SheetTooLargeError", "load_guarded", "load_sheets"]

_DIGITS_MAX: Final = 15
_SMALLEST: Final = Decimal("1E-9")
"""Smaller numbers are read in scientific notation."""

_MOMENT: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2}.*))?$"
_DAY_ZERO: Final = r"^1899-12-3[01] "
"""The day that a time without a date has in a spreadsheet."""

_TYPED: Final = rf"{_MOMENT}|^(-?[0-9][0-9.]*(E[+-]?[0-9]+)?|true|false)$"
"""Matches every number, truth value and date, and some texts."""

_ERROR: Final = re.compile(r"Error\((\w+)\)")
_ERRORS: Final = {
    "Div0": "#DIV/0!", "NA": "#N/A", "Name": "#NAME?", "Null": "#NULL!", "Num": "#NUM!", "Ref": "#REF!",
    "Value": "#VALUE!",
}  # fmt: skip
"""Errors of cells: the name that the reader gives them, and the text that spreadsheets show."""

_DURATION: Final = re.compile(r'DurationIso\("(?:PT(\d+)H(\d+)M(\d+)(?:[.,]\d+)?S|(.+))"\)')
"""A time of OpenDocument."""

_BASE_BYTES: Final = 2 * 2**30
"""Address space that the interpreter and its libraries reserve."""

_CELL_BYTES: Final = 100
_DAY_HOURS: Final = 24
_DAMAGED: Final = 3
_TOO_LARGE: Final = 4


class SheetDamagedError(Exception):
    """The workbook cannot be read."""


class SheetTooLargeError(Exception):
    """The workbook needs more memory than allowed."""


class Sheet(NamedTuple):
    """One worksheet.

    Attributes:
        cells: Its cells as text, from the first row on.
        kinds: The kinds of the cells of each row; see `TextTable.has_kinds`.
    """

    name: str
    is_visible: bool
    cells: pl.DataFrame
    kinds: pl.Series


def load_sheets(path: Path, wanted: str = "") -> Iterator[Sheet]:
    """Yield the worksheets of a workbook, or only the wanted one if it exists."""
    try:
        workbook = fastexcel.read_excel(path)
        for name in workbook.sheet_names:
            if wanted in {"", name}:
                # Rows are counted from the top of the sheet, empty ones included.
                load = partial(workbook.load_sheet, name, header_row=None, skip_rows=0)
                sheet = load(dtypes="string")
                batch, failed = sheet.to_arrow_with_errors()
                cells, is_visible = pl.DataFrame(pl.from_arrow(batch)), sheet.visible == "visible"
                del sheet, batch  # before another is loaded
                unread = _unread(failed)
                yield Sheet(name, is_visible, *_refine(cells, unread, lambda kind: load(dtypes=kind).to_polars()))  # noqa: B023
    except fastexcel.FastExcelError as error:
        raise SheetDamagedError(str(error)) from error
    except pl.exceptions.PanicException as error:
        raise SheetDamagedError(str(error)) from error


def sheet_names(path: Path) -> list[str]:
    """Return the names of all worksheets."""
    try:
        return list(fastexcel.read_excel(path).sheet_names)
    except fastexcel.FastExcelError as error:
        raise SheetDamagedError(str(error)) from error


def load_guarded(path: Path, wanted: str, max_cells: int) -> Iterator[Sheet]:
    """Run `load_sheets` in a process whose memory is limited to the need of `max_cells` cells.

    Raises:
        SheetDamagedError: The workbook cannot be read.
        SheetTooLargeError: The workbook needs more memory.
    """
    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        arguments = [str(path), wanted, str(max_cells), folder]
        places = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        child = subprocess.run(  # noqa: S603 - this interpreter, this module
            [sys.executable, "-m", "firmlake.intake.sheet", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": places, "POLARS_MAX_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
            check=False,
        )
        if child.returncode == _DAMAGED:
            raise SheetDamagedError(child.stderr.strip())
        if child.returncode:
            raise SheetTooLargeError(child.stderr.strip())
        for number, (name, is_visible) in enumerate(json.loads(child.stdout)):
            cells = pl.read_ipc(Path(folder) / f"{number}.arrow")
            yield Sheet(name, is_visible, cells.drop(KINDS), cells[KINDS])


def main(path: str, wanted: str, max_cells: str, folder: str) -> int:
    """Load worksheets under a memory limit; write the cells of each to a file, and the rest to standard output."""
    _limit_memory(_BASE_BYTES + int(max_cells) * _CELL_BYTES)
    found = []
    try:
        for number, sheet in enumerate(load_sheets(Path(path), wanted)):
            if sheet.cells.height * sheet.cells.width > int(max_cells):
                return _TOO_LARGE
            sheet.cells.with_columns(sheet.kinds).write_ipc(Path(folder) / f"{number}.arrow")
            found.append((sheet.name, sheet.is_visible))
    except SheetDamagedError as error:
        sys.stderr.write(str(error))
        return _DAMAGED
    sys.stdout.write(json.dumps(found))
    return 0


def _limit_memory(size: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system supports limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _unread(failed: Any) -> dict[int, dict[int, tuple[str, str]]]:
    """Return text and kind of each error or time by row, by column; the reader leaves these cells empty."""
    found: dict[int, dict[int, tuple[str, str]]] = {}
    for each in failed.errors if failed else ():
        row, column = each.offset_position
        if (error := _ERROR.search(each.detail)) and error[1] in _ERRORS:
            found.setdefault(column, {})[row] = _ERRORS[error[1]], "e"
        elif time := _DURATION.search(each.detail):
            hours, minutes, seconds, other = time.groups()
            text = other or f"{int(hours):02}:{minutes}:{seconds}"
            found.setdefault(column, {})[row] = text, "s" if other or int(hours) >= _DAY_HOURS else "d"
    return found


def _refine(
    cells: pl.DataFrame, unread: Mapping[int, Mapping[int, tuple[str, str]]], load: Callable[[str], pl.DataFrame]
) -> tuple[pl.DataFrame, pl.Series]:
    """Format numbers and dates as the module states, and find `Sheet.kinds`; `load` reads the cells as another type."""
    booleans = moments = cells.clear(cells.height)
    if _occurs(_TYPED, cells):
        booleans = load("boolean")  # null for texts and dates
        moments = load("date") if _occurs(_MOMENT, cells) else moments
        if any(column.count() for column in booleans):
            cells = _write_numbers(cells, _inexact(cells, load("float")), booleans)
        cells = _shorten_dates(cells, moments)
    letters = [
        pl.select(
            pl.when(boolean.is_null() & moment.is_null()).then(pl.lit("s"))
            .when(boolean.is_null()).then(pl.lit("d"))
            .when(text.is_in(["true", "false"])).then(pl.lit("b"))
            .otherwise(pl.lit("n"))
        ).to_series()
        for text, boolean, moment in zip(cells, booleans, moments, strict=True)
    ]  # fmt: skip
    for column, found in unread.items():
        rows, (texts, kinds_read) = list(found), zip(*found.values(), strict=True)
        cells = cells.with_columns(cells.to_series(column).scatter(rows, list(texts)))
        letters[column] = letters[column].scatter(rows, list(kinds_read))
    kinds = pl.select(pl.concat_str(letters)).to_series() if letters else pl.Series([], dtype=pl.String)
    return cells, kinds.alias(KINDS)


def _occurs(pattern: str, cells: pl.DataFrame) -> bool:
    return any(column.str.contains(pattern).any() for column in cells)


def _shorten_dates(cells: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    """Drop midnight from dates without a time, and the date from times; text cells that look alike stay unchanged."""
    for text in cells:
        is_moment = text.str.contains(_MOMENT) & moments[text.name].is_not_null()
        short = text.str.replace(_MOMENT, "$1 $2").str.replace(_DAY_ZERO, "").str.replace("^([^ ]+) (00:00:00)?$", "$1")
        cells = cells.with_columns(short.zip_with(is_moment.fill_null(value=False), text).alias(text.name))
    return cells


def _inexact(cells: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """Keep the numbers whose text has too many digits, or too few because the reader cuts after nine decimals."""
    kept = []
    for text in cells:
        read, number = text.cast(pl.Float64, strict=False), numbers[text.name]
        is_long = read.is_not_null() & (text.str.count_matches("[0-9]") > _DIGITS_MAX)
        kept.append(number.to_frame().select(pl.when(is_long | (read != number)).then(number).alias(text.name)))
    return pl.concat(kept, how="horizontal") if kept else cells


def _write_numbers(cells: pl.DataFrame, numbers: pl.DataFrame, booleans: pl.DataFrame) -> pl.DataFrame:
    """Format these numbers again, except in text cells, whose boolean is null."""
    written = []
    for number in numbers:
        if number.count():
            shown = number.map_elements(_shown, pl.String)
            is_number = shown.is_not_null() & booleans[number.name].is_not_null()
            written.append(shown.zip_with(is_number, cells[number.name]))
    return cells.with_columns(written)


def _shown(number: float) -> str:
    """Write a number with up to 15 digits, and without an exponent unless it is very large or very small."""
    usual = f"{number:.{_DIGITS_MAX}g}"
    if "e" not in usual:
        return usual
    scientific = f"{number:.{_DIGITS_MAX - 1}E}"
    rounded = Decimal(scientific)
    is_plain = not rounded or _SMALLEST <= abs(rounded) < 10**_DIGITS_MAX
    return f"{rounded.normalize():f}" if is_plain else scientific


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
