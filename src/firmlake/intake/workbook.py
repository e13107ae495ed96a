"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import io
import re
import shlex
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import UndecidedError, choose_columns
from firmlake.intake.columns import quoted_names
from firmlake.intake.table import (
    SAMPLE_ROWS,
    Formats,
    Reading,
    Table,
    as_rows,
    cell,
    find_header,
    mark_blank,
    too_large,
)

_HEAD_ROWS: Final = SAMPLE_ROWS + 100
"""Rows that show whether a sheet is the list."""

_BATCH_ROWS: Final = 100_000
_CHUNK_CELLS: Final = 1_000_000
_MAX_DIGITS: Final = 15
_SMALLEST_PLAIN: Final = Decimal("1E-9")
"""Smaller numbers are read in scientific notation."""

_ESCAPED: Final = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, as XLSX writes it."""

_LONG_TIME: Final = re.compile(r"PT(\d+)H(\d+)M(\d+)(?:[.,]\d+)?S")
"""A time of OpenDocument of 24 hours or more, as calamine gives it."""

_STRICT: Final = b"purl.oclc.org/ooxml/spreadsheetml"
_DAY: Final = timedelta(days=1)
_FIRST_OWN_FORMAT: Final = 164
"""The first number of a format that is not built in."""

_FORMULA: Final = "f"
"""The kind of a cell with a formula whose value the file does not hold."""

_COMPUTE: Final = "Open the list in a spreadsheet program, save it, and start again"


class SheetDamagedError(Exception):
    """The workbook cannot be read."""


class _SheetTooLargeError(Exception):
    """The sheet has more cells, or more text, than may be read."""


class Cell(NamedTuple):
    """A cell of a worksheet: its position in the row, its text, the letter of its kind, and its number format."""

    position: int
    text: str
    kind: str
    format: str | int = 0


class Sheet:
    """One worksheet, whose rows are read as far as they are asked for.

    Attributes:
        name: Its name.
        is_visible: Whether people see it.
        is_whole: Whether all its rows were read.
    """

    def __init__(self, name: str, rows: Iterator[tuple[int, Sequence[Cell]]], *, is_visible: bool) -> None:
        """Begin to read; `rows` yields the number of each row, from 1, and its cells that are not empty."""
        self.name, self.is_visible, self.is_whole = name, is_visible, False
        self._rows = rows
        self._chunks, self._texts, self._kinds = list[pl.DataFrame](), list[list[str | None]](), list[str]()
        self._height = self._width = self._size = 0
        self._first = 2**20
        self._formulas, self._formats = set[tuple[int, int]](), Counter[tuple[int, str, str | int]]()

    def read(self, reading: Reading, max_rows: int | None = None) -> None:
        """Read on to this row, or to the end.

        Raises:
            _SheetTooLargeError: There are more cells, or more text.
            SheetDamagedError: The workbook cannot be read.
        """
        if max_rows is not None and self._height >= max_rows:
            return
        max_cells = min(reading.max_cells, reading.options.max_cells)
        for row, cells in self._rows:
            self._add(row, cells)
            if self._height * self._width > max_cells or self._size > reading.max_characters:
                raise _SheetTooLargeError(self.name)
            if max_rows is not None and row >= max_rows:
                return
        self.is_whole = True

    def rows(self) -> tuple[pl.DataFrame, int]:
        """Return the rows read so far, from the first column with content, and the number of columns."""
        self._flush()
        first = min(self._first, self._width)
        width = self._width - first
        rows = pl.concat(self._chunks)
        kinds = pl.col("kinds").str.slice(first).str.pad_end(width, "s")
        return mark_blank(rows.with_columns(kinds, cells=pl.col("cells").list.slice(first))), width

    def formats(self) -> dict[int, Formats]:
        """Return the most frequent number formats of the first rows, by position; see `TableInfo.formats`."""
        common: dict[int, Formats] = {}
        for (position, kind, code), _ in self._formats.most_common():
            common.setdefault(position - self._first, {}).setdefault(kind, code)
        own = {n: {kind: code for kind, code in each.items() if code not in (0, "")} for n, each in common.items()}
        return {n: each for n, each in sorted(own.items()) if each}

    def formulas(self) -> set[tuple[int, int]]:
        """Return row and position of cells in the first rows that hold a formula without its value."""
        return {(row, position - self._first) for row, position in self._formulas}

    def _add(self, row: int, cells: Sequence[Cell]) -> None:
        filled = [each for each in cells if each.kind != _FORMULA]
        if row <= SAMPLE_ROWS:
            self._formulas |= {(row, each.position) for each in cells if each.kind == _FORMULA}
            self._formats.update((each.position, each.kind, each.format) for each in filled if each.kind in "nd")
        if not filled or row <= self._height:  # a row that comes again is none
            return
        missing, width = row - self._height - 1, max(each.position for each in filled) + 1
        texts: list[str | None] = [None] * width
        kinds = ["s"] * width
        for position, text, kind, _ in filled:
            texts[position], kinds[position] = text, kind
            self._size += len(text)
        self._first = min(self._first, *(each.position for each in filled))
        self._height, self._width = row, max(self._width, width)
        self._texts += [*[[]] * missing, texts]
        self._kinds += [*[""] * missing, "".join(kinds)]
        if len(self._texts) * self._width > _CHUNK_CELLS:
            self._flush()

    def _flush(self) -> None:
        start = sum(chunk.height for chunk in self._chunks) + 1
        if self._texts or not self._chunks:
            lines = range(start, start + len(self._texts))
            self._chunks.append(as_rows(lines, self._texts, self._kinds))
            self._texts, self._kinds = [], []


def open_workbook(reading: Reading, list_sheets: Callable[[Path], Sequence[Sheet]]) -> Table:
    """Open one worksheet; rows keep their numbers.

    Args:
        reading: How to read it. The setting `sheet` names the sheet; if empty, the first with company numbers is taken.
        list_sheets: Lists the worksheets: `list_xlsx` or `list_others`.

    Raises:
        CompanyListError: The workbook is damaged or too large, has no such sheet, or the sheet is empty.
    """
    path = reading.path
    try:
        return _choose(reading, list_sheets(path))
    except SheetDamagedError as error:
        if "is password protected" in str(error):
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password") from error
        raise CompanyListError(
            f"{path} cannot be read as a workbook", "Open it in a spreadsheet and save it again as XLSX"
        ) from error
    except _SheetTooLargeError as error:
        raise too_large(path, reading.options.max_cells, "cells", "intake.max_cells") from error


def list_xlsx(path: Path) -> list[Sheet]:
    """List the worksheets of an XLSX file, and read each as a stream, because its dimensions cannot be trusted.

    Raises:
        SheetDamagedError: The workbook has the strict form, which openpyxl reads as empty.
        Exception: Whatever a damaged file makes openpyxl raise.
    """
    import openpyxl  # here, because importing it takes a tenth of a second

    with zipfile.ZipFile(path) as archive, archive.open("xl/workbook.xml") as file:
        if _STRICT in file.read(2**16):
            raise SheetDamagedError("strict form")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts that openpyxl does not read, such as styles of its own
        book = openpyxl.load_workbook(io.BytesIO(path.read_bytes()), read_only=True, data_only=True)
    return [
        Sheet(sheet.title, _xlsx_rows(sheet), is_visible=sheet.sheet_state == "visible") for sheet in book.worksheets
    ]


def list_others(path: Path) -> list[Sheet]:
    """List the worksheets of any workbook; calamine allocates whole sheets, and may abort: use a guarded process.

    It reads errors as empty cells.
    """
    import python_calamine as calamine

    def rows(name: str) -> Iterator[tuple[int, list[Cell]]]:
        try:
            sheet = book.get_sheet_by_name(name)
            first = (sheet.start or (0, 0))[1]
            for row, values in enumerate(sheet.iter_rows(), 1):
                yield row, [Cell(n, *_text_of(value)) for n, value in enumerate(values, first) if value != ""]
        except calamine.CalamineError as error:
            raise SheetDamagedError(str(error)) from error

    try:
        book = calamine.CalamineWorkbook.from_path(path)
    except calamine.CalamineError as error:
        raise SheetDamagedError(str(error)) from error
    visible = calamine.SheetVisibleEnum.Visible
    return [Sheet(each.name, rows(each.name), is_visible=each.visible == visible) for each in book.sheets_metadata]


def show_number(number: float) -> str:
    """Write a number with up to 15 digits, and without an exponent unless it is very large or very small.

    Example:
        >>> show_number(0.1 + 0.2), show_number(55203253400646), show_number(5520325340064612)
        ('0.3', '55203253400646', '5.52032534006461E+15')
    """
    usual = f"{number:.{_MAX_DIGITS}g}"
    if "e" not in usual:
        return usual
    scientific = f"{number:.{_MAX_DIGITS - 1}E}"
    rounded = Decimal(scientific)
    is_plain = not rounded or _SMALLEST_PLAIN <= abs(rounded) < 10**_MAX_DIGITS
    return f"{rounded.normalize():f}" if is_plain else scientific


def _choose(reading: Reading, sheets: Sequence[Sheet]) -> Table:
    """Return the wanted sheet, or the first with the columns sought, or the first with any content.

    Raises:
        CompanyListError: An earlier sheet may hold the numbers too, or the sheet is missing or empty.
    """
    path, options, *_ = reading
    wanted = [sheet for sheet in sheets if (sheet.name == options.sheet if options.sheet else sheet.is_visible)]
    if options.sheet and not wanted:
        names = [sheet.name for sheet in sheets]
        nearest = get_close_matches(options.sheet, names, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Its sheets are {quoted_names(names)}."
        raise CompanyListError(f"{path} has no worksheet {options.sheet!r}", hint)
    heads = list(_read_heads(reading, wanted))
    if not heads:
        raise _empty(path, options, [sheet.name for sheet in sheets if not sheet.is_visible])
    usable = [n for n, (_, _, refusal) in enumerate(heads) if refusal is None]
    chosen = usable[0] if usable and not options.sheet else 0
    sheet, head, _ = heads[chosen]
    before = [(earlier.name, refusal) for earlier, _, refusal in heads[:chosen] if refusal is not None]
    for name, refusal in before:
        if isinstance(refusal, UndecidedError):
            raise _several(path, name, refusal, sheet.name)
    table = _open(reading, sheet) or head
    if not usable or options.sheet:
        return table
    return _described(table, sheet.name, [name for name, _ in before], [heads[n][0].name for n in usable[1:]])


def _read_heads(reading: Reading, sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Table, CompanyListError | None]]:
    """Yield each sheet with content, its first rows, and why it is not the list; None if it may be."""
    is_found = False
    for sheet in sheets:
        try:
            head = _open(reading, sheet, _HEAD_ROWS)
        except (CompanyListError, SheetDamagedError, _SheetTooLargeError):
            if is_found:
                continue
            raise
        if head is not None:
            refusal = _refusal(reading, head)
            is_found |= refusal is None
            yield sheet, head, refusal


def _refusal(reading: Reading, table: Table) -> CompanyListError | None:
    try:
        choose_columns(reading, table, {})
    except CompanyListError as error:
        return error
    return None


def _described(table: Table, name: str, before: Sequence[str], later: Sequence[str]) -> Table:
    has_none = [f"no company numbers in {quoted_names(before)}"] if before else []
    has_too = [f"company numbers in {quoted_names(later)} are not read"] if later else []
    if before or later:
        guess = f"Worksheet {name!r} is read ({'; '.join(has_none + has_too)})"
        table.guesses = (f"{guess}; to choose another: --set intake.sheet=NAME", *table.guesses)
    return table


def _several(path: Path, undecided: str, error: CompanyListError, decided: str) -> CompanyListError:
    reason = error.message.removeprefix(f"{path}: ")
    return CompanyListError(
        f"{path}: worksheet {decided!r} holds company numbers, and worksheet {undecided!r} may hold them too: {reason}",
        f"Name the right one: --set intake.sheet={shlex.quote(decided)}, or --set "
        f"intake.sheet={shlex.quote(undecided)}; for {undecided!r} also: {error.next_step}",
    )


def _empty(path: Path, options: IntakeSettings, hidden: Sequence[str]) -> CompanyListError:
    hint = "Save the workbook again"
    if hidden:
        hint = f"To read a hidden worksheet, name it with --set intake.sheet=NAME: {quoted_names(hidden)}"
    empty = f"worksheet {options.sheet!r} is empty" if options.sheet else "all visible worksheets are empty"
    return CompanyListError(f"{path}: {empty}", hint)


def _open(reading: Reading, sheet: Sheet, max_rows: int | None = None) -> Table | None:
    """Return one sheet, or its first rows, as a table; None if it is empty."""
    sheet.read(reading, max_rows)
    rows, width = sheet.rows()
    first = rows.filter(pl.col("defect").is_null()).head(SAMPLE_ROWS + 1)
    if not first.height:
        return None if sheet.is_whole else _open(reading, sheet)
    texts = [[text or "" for text in cells] + [""] * (width - len(cells)) for cells in first["cells"].to_list()]
    header = find_header(reading, first["line"].to_list(), texts)
    data = rows.filter(pl.col("line") >= header.line)
    table = Table(
        names=header.names,
        width=width,
        header_count=header.line - 1,
        guesses=header.guesses,
        formats=sheet.formats(),
        sample=first["cells"][header.data :],
        rows=partial(_slices, data),
    )
    _add_formulas(reading.path, table, sheet, data)
    return table


def _slices(rows: pl.DataFrame, _positions: Collection[int] | None = None) -> Iterator[pl.DataFrame]:
    return rows.iter_slices(_BATCH_ROWS)


def _add_formulas(path: Path, table: Table, sheet: Sheet, data: pl.DataFrame) -> None:
    """Name the columns with formulas without values; one that has no value at all cannot hold numbers.

    A program that is no spreadsheet writes formulas without their values. A spreadsheet computes them whenever it opens
    the file, so people see values that the file does not hold until they save it.
    """
    positions = sorted({n for row, n in sheet.formulas() if row > table.header_count and 0 <= n < table.width})
    if not positions:
        return
    empty = [position for position in positions if data.select(cell(position).null_count()).item() == data.height]
    shown = quoted_names([table.columns[position] for position in positions], 5)
    message = f"The file has formulas without their values, which are read as empty cells, in {shown}"
    table.guesses = (*table.guesses, f"{message}. {_COMPUTE}")
    table.unusable = dict.fromkeys(empty, (f"{path}: {message[0].lower()}{message[1:]}", _COMPUTE))


def _xlsx_rows(sheet: Any) -> Iterator[tuple[int, list[Cell]]]:
    """Yield the rows of an XLSX sheet, by the parser beneath `iter_rows`, which would add empty cells to each row."""
    from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

    class Parser(WorkSheetParser):  # type: ignore[misc]
        def parse_cell(self, element: Any) -> dict[str, Any]:
            cell: dict[str, Any] = super().parse_cell(element)
            if cell["value"] is None and cell["data_type"] == "n" and element.find(FORMULA_TAG) is not None:
                cell["data_type"] = _FORMULA
            return cell

    book, format_of = sheet.parent, cache(partial(_format, sheet))
    with sheet._get_source() as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = Parser(source, sheet._shared_strings, True, book.epoch, book._date_formats, book._timedelta_formats)
        for row, cells in parser.parse():
            filled = [each for each in cells if each["value"] not in (None, "") or each["data_type"] == _FORMULA]
            yield row, [_xlsx_cell(each, format_of) for each in filled]


def _xlsx_cell(cell: Mapping[str, Any], format_of: Callable[[int], str | int]) -> Cell:
    position, value = cell["column"] - 1, cell["value"]
    if cell["data_type"] == _FORMULA:
        return Cell(position, "", _FORMULA)
    text, kind = _text_of(value)
    if kind == "s" and "_x" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return Cell(position, text, "e" if cell["data_type"] == "e" else kind, format_of(cell["style_id"]))


def _text_of(value: Any) -> tuple[str, str]:
    """Return the text of a cell, and the letter of its kind."""
    if isinstance(value, bool):
        return str(value).lower(), "b"
    if isinstance(value, int | float):
        return show_number(value), "n"
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}", "d" if value < _DAY else "s"
    if isinstance(value, datetime):
        return (value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")), "d"
    if isinstance(value, date | time):
        return value.isoformat(), "d"
    if long := _LONG_TIME.fullmatch(str(value)):
        return f"{int(long[1]):02}:{long[2]}:{long[3]}", "s"
    return str(value), "s"


def _format(sheet: Any, style: int) -> str | int:
    """Return the number format of a style: its code, or its number if it is built in."""
    book = sheet.parent
    number: int = book._cell_styles[style].numFmtId
    own = number - _FIRST_OWN_FORMAT
    if own < 0:
        return number
    code: str = book._number_formats[own] if own < len(book._number_formats) else ""
    return "" if code == "General" else code
