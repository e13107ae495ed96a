"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import io
import re
import shlex
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
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

_STRICT: Final = b"purl.oclc.org/ooxml/spreadsheetml"
_DAY: Final = timedelta(days=1)


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
    """The rows of a worksheet, which are read as far as they are asked for, or refused as too large.

    Attributes:
        first: Position of the first column with content.
        width: Number of columns, those before the first included.
    """

    def __init__(self, reading: Reading, sheet: Sheet) -> None:
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
            if row <= SAMPLE_ROWS:
                self._formats.update((each.position, each.kind, each.format) for each in cells if each.kind in "nd")
            if not cells:
                continue
            texts: list[str | None] = [None] * (max(each.position for each in cells) + 1)
            kinds = ["s"] * len(texts)
            for position, text, kind, _ in cells:
                texts[position], kinds[position] = text, kind
                size += len(text)
            self.first, self.width = min(self.first, *(each.position for each in cells)), max(self.width, len(texts))
            if row * self.width > max_cells or size > reading.max_characters:
                raise refusal("max_cells", TooLargeError, path=reading.path, limit=reading.options.max_cells)
            yield from (Record(line, (), kinds="") for line in range(height + 1, row))
            height = row
            yield Record(row, texts, kinds="".join(kinds))


def open_workbook(reading: Reading, list_sheets: Callable[[Path], Sequence[Sheet]]) -> Table:
    """Open one worksheet, by `list_xlsx` or `list_others`; rows keep their numbers.

    The setting `sheet` names it; if empty, the first with company numbers is taken. The workbook is refused if an
    earlier sheet may hold the numbers too.
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

    Raises whatever a damaged file makes openpyxl raise, and an error for the strict form, which it reads as empty.
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
    return Table(
        names=header.names,
        width=width,
        header_count=header.line - 1,
        guesses=header.guesses,
        formats=grid.formats(),
        sample=first["cells"][header.data :],
        rows=lambda _positions: data.iter_slices(_BATCH_ROWS),
    )


def _xlsx_rows(sheet: Any) -> Iterator[tuple[int, list[Cell]]]:
    from openpyxl.styles.numbers import builtin_format_id

    def read(position: int, cell: Any) -> Cell:
        text, kind = _text_of(cell.value)
        if kind == "s" and "_x" in text:
            text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
        code = cell.number_format if kind in "nd" and row <= SAMPLE_ROWS else "General"
        known = "" if code == "General" else builtin_format_id(code)
        return Cell(position, text, "e" if cell.data_type == "e" else kind, code if known is None else known)

    sheet.reset_dimensions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, cells in enumerate(sheet.iter_rows(), 1):
            yield row, [read(n, cell) for n, cell in enumerate(cells) if cell.value not in (None, "")]


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
    return str(value), "s"
