"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import io
import re
import shlex
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.choice import choose_columns
from firmlake.intake.refusals import TooLargeError, UndecidedError, nearest_name, quoted_names, refusal
from firmlake.intake.table import (
    ROWS,
    SAMPLE_ROWS,
    Formats,
    Reading,
    Record,
    Table,
    as_batches,
    cell,
    find_header,
    mark_blank,
)

_HEAD_ROWS: Final = SAMPLE_ROWS + 100
"""Rows that show whether a sheet is the list."""

_BATCH_ROWS: Final = 100_000
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
"""The kind of an empty cell with a formula whose value the file does not hold."""

_COMPUTE: Final = "Open the list in a spreadsheet program, save it, and start again"


class Cell(NamedTuple):
    """A cell of a worksheet: its position in the row, its text, the letter of its kind, and its number format."""

    position: int
    text: str
    kind: str
    format: str | int = 0


class Sheet(NamedTuple):
    """One worksheet; `rows` yields the number of each row, from 1, and its cells that are not empty."""

    name: str
    rows: Iterator[tuple[int, Sequence[Cell]]]
    is_visible: bool


class _Grid:
    """The rows of a worksheet, which are read as far as they are asked for.

    Attributes:
        first: Position of the first column with content.
        width: Number of columns, those before the first included.
    """

    def __init__(self, reading: Reading, sheet: Sheet) -> None:
        """Read the first rows.

        Raises:
            TooLargeError: There are more cells, or more text, now or while the others are read.
        """
        self.name, self.first, self.width = sheet.name, 2**20, 0
        self._formats = Counter[tuple[int, str, str | int]]()
        self._batches = as_batches(self._records(reading, sheet.rows), _HEAD_ROWS)
        self._read = [next(self._batches, ROWS.to_frame())]

    def rows(self, *, is_whole: bool) -> pl.DataFrame:
        """Return the first rows, or all of them, from the first column with content."""
        if is_whole:
            self._read += self._batches
        rows, first = pl.concat(self._read), min(self.first, self.width)
        kinds = pl.col("kinds").str.slice(first, self.width - first).str.pad_end(self.width - first, "s")
        return mark_blank(rows.with_columns(kinds, cells=pl.col("cells").list.slice(first)))

    def formats(self) -> dict[int, Formats]:
        """Return the most frequent number formats of the first rows, by position; see `TableInfo.formats`."""
        common: dict[int, Formats] = {}
        for (position, kind, code), _ in self._formats.most_common():
            common.setdefault(position - self.first, {}).setdefault(kind, code)
        own = {n: {kind: code for kind, code in each.items() if code not in (0, "")} for n, each in common.items()}
        return {n: each for n, each in sorted(own.items()) if each}

    def _records(self, reading: Reading, rows: Iterator[tuple[int, Sequence[Cell]]]) -> Iterator[Record]:
        height = size = 0
        max_cells = min(reading.max_cells, reading.options.max_cells)
        for row, cells in rows:
            filled = [each.position for each in cells if each.kind != _FORMULA]
            if row <= SAMPLE_ROWS:
                self._formats.update((each.position, each.kind, each.format) for each in cells if each.kind in "nd")
            if not filled or row <= height:  # a row that comes again is none
                continue
            texts: list[str | None] = [None] * (max(filled) + 1)
            kinds = ["s"] * (max(each.position for each in cells) + 1)
            for position, text, kind, _ in cells:
                kinds[position] = kind
                if text:
                    texts[position] = text
                    size += len(text)
            self.first, self.width = min(self.first, min(filled)), max(self.width, len(texts))
            if row * self.width > max_cells or size > reading.max_characters:
                raise refusal("max_cells", TooLargeError, path=reading.path, limit=reading.options.max_cells)
            yield from (Record(line, (), kinds="") for line in range(height + 1, row))
            height = row
            yield Record(row, texts, kinds="".join(kinds))


def open_workbook(reading: Reading, list_sheets: Callable[[Path], Sequence[Sheet]]) -> Table:
    """Open one worksheet; rows keep their numbers.

    Args:
        reading: How to read it. The setting `sheet` names the sheet; if empty, the first with company numbers is taken.
        list_sheets: Lists the worksheets: `list_xlsx` or `list_others`.

    Raises:
        CompanyListError: The workbook is damaged or too large, has no such sheet, or it is empty; or an earlier sheet
            may hold the numbers too.
    """
    path, options, *_ = reading
    sheets = list_sheets(path)
    heads = list(_read_heads(reading, _wanted_sheets(path, options.sheet, sheets)))
    if not heads:
        hidden = quoted_names([sheet.name for sheet in sheets if not sheet.is_visible])
        code = "empty_sheet" if options.sheet else "hidden_sheets" if hidden else "empty_sheets"
        raise refusal(code, path=path, sheet=options.sheet, hidden=hidden)
    usable = [n for n, (_, _, why_not) in enumerate(heads) if why_not is None]
    chosen = usable[0] if usable and not options.sheet else 0
    grid, head, _ = heads[chosen]
    for earlier, _, why_not in heads[:chosen]:
        if isinstance(why_not, UndecidedError):
            raise refusal(
                "two_sheets", path=path, decided=grid.name, undecided=earlier.name, quoted=shlex.quote(grid.name),
                other=shlex.quote(earlier.name), reason=why_not.message.removeprefix(f"{path}: "),
                hint=why_not.next_step,
            )  # fmt: skip
    table = _open(reading, grid) or head
    has_none = quoted_names([earlier.name for earlier, *_ in heads[:chosen]])
    has_too = quoted_names([heads[n][0].name for n in usable[1:]])
    if usable and not options.sheet and (has_none or has_too):
        said = [f"no company numbers in {has_none}"] if has_none else []
        said += [f"company numbers in {has_too} are not read"] if has_too else []
        guess = f"Worksheet {grid.name!r} is read ({'; '.join(said)}); to choose another: --set intake.sheet=NAME"
        table.guesses = (guess, *table.guesses)
    return table


def list_xlsx(path: Path) -> list[Sheet]:
    """List the worksheets of an XLSX file, and read each as a stream, because its dimensions cannot be trusted.

    Raises:
        Exception: Whatever a damaged file makes openpyxl raise, or the strict form, which it reads as empty.
    """
    import openpyxl  # here, because importing it takes a tenth of a second

    with zipfile.ZipFile(path) as archive, archive.open("xl/workbook.xml") as file:
        if _STRICT in file.read(2**16):
            raise ValueError("strict form")
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
            raise _unreadable(path, error) from error

    try:
        book = calamine.CalamineWorkbook.from_path(path)
    except calamine.CalamineError as error:
        raise _unreadable(path, error) from error
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
    rounded = Decimal(scientific).normalize()
    return f"{rounded:f}" if _SMALLEST_PLAIN <= abs(rounded) < 1 else scientific


def _wanted_sheets(path: Path, name: str, sheets: Sequence[Sheet]) -> list[Sheet]:
    if not name:
        return [sheet for sheet in sheets if sheet.is_visible]
    wanted = [sheet for sheet in sheets if sheet.name == name]
    if not wanted:
        hint = nearest_name(name, [sheet.name for sheet in sheets])
        raise refusal("unknown_sheet", path=path, sheet=name, hint=hint)
    return wanted


def _read_heads(reading: Reading, sheets: Sequence[Sheet]) -> Iterator[tuple[_Grid, Table, CompanyListError | None]]:
    """Yield each sheet with content, its first rows, and why it is not the list; None if it may be."""
    is_found = False
    for sheet in sheets:
        try:
            grid = _Grid(reading, sheet)
            head = _open(reading, grid, is_whole=False) or _open(reading, grid)
        except CompanyListError:
            if is_found:
                continue
            raise
        if head is not None:
            why_not = _why_not(reading, head)
            is_found |= why_not is None
            yield grid, head, why_not


def _why_not(reading: Reading, table: Table) -> CompanyListError | None:
    try:
        choose_columns(reading, table, {})
    except CompanyListError as error:
        return error
    return None


def _unreadable(path: Path, error: Exception) -> CompanyListError:
    if "is password protected" in str(error):
        return refusal("protected", path=path)
    return refusal("no_workbook", path=path)


def _open(reading: Reading, grid: _Grid, *, is_whole: bool = True) -> Table | None:
    """Return one sheet, or its first rows, as a table; None if it is empty."""
    rows = grid.rows(is_whole=is_whole)
    first, width = rows.filter(pl.col("defect").is_null()).head(SAMPLE_ROWS + 1), max(grid.width - grid.first, 0)
    if not first.height:
        return None
    records = [
        Record(line, [text or "" for text in cells] + [""] * (width - len(cells)))
        for line, cells in first.select("line", "cells").iter_rows()
    ]
    header = find_header(reading, records)
    data = rows.filter(pl.col("line") >= header.line)
    formulas = {n for kinds in data["kinds"].head(SAMPLE_ROWS) for n, kind in enumerate(kinds) if kind == _FORMULA}
    data = data.with_columns(pl.col("kinds").str.replace_all(_FORMULA, "s"))
    table = Table(
        names=header.names,
        width=width,
        header_count=header.line - 1,
        guesses=header.guesses,
        formats=grid.formats(),
        sample=first["cells"][header.data :],
        rows=lambda _positions: data.iter_slices(_BATCH_ROWS),
    )
    if formulas:
        _name_formulas(reading.path, table, data, sorted(formulas))
    return table


def _name_formulas(path: Path, table: Table, data: pl.DataFrame, positions: Sequence[int]) -> None:
    """Name the columns with formulas without values; one that has no value at all cannot hold numbers.

    A program that is no spreadsheet writes formulas without their values. A spreadsheet computes them whenever it opens
    the file, so people see values that the file does not hold until they save it.
    """
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
