"""Workbooks: a list with the meaning of each added column and the refused lines, or the result of a query."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import starmap
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from firmlake.core.formulas import is_risky
from firmlake.core.text import count_of
from firmlake.warehouse.incomplete import CAUSES, Completeness

if TYPE_CHECKING:
    from xlsxwriter import Workbook

SHEET_ROWS: Final = 1_048_575
"""Lines that a sheet holds below its header."""
_EXACT_DIGITS: Final = 15
"""Digits of a number that a spreadsheet keeps."""

_CELL_MAX: Final = 32_767
_NARROW, _WIDE, _WIDEST = 6, 34, 90
_REASON_WIDTH: Final = 26
_SIGNS: Final = 6
"""Estimated number of characters that a number format adds to the digits: separators, decimals, a currency."""
_FIRST_YEAR: Final = 1901
"""Spreadsheets count days from 1900, and count one day too many in that year."""

_INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_SHARE: Final = re.compile(r"(fraction|growth|margin|cagr)$")
_FORMATS: Final = {"DATE": "yyyy-mm-dd", "DOUBLE": "0.00##", "TIME": "hh:mm:ss"} | dict.fromkeys(_INTEGERS, "#,##0")
"""Number formats by type in DuckDB."""
_MOMENTS: Final = {date: "yyyy-mm-dd", datetime: "yyyy-mm-dd hh:mm:ss", time: "hh:mm:ss"}
_TRUTHS: Final = {"true": True, "false": False}

_COLOURS: Final = {
    "#f8d7da": ("refused", "failed"),
    "#fff3cd": ("not found", "waiting", "not asked"),
    "#e9ecef": ("repeated", "blank"),
}
_STATUS_COLOURS: Final = {status: colour for colour, statuses in _COLOURS.items() for status in statuses}
_OWN_HEAD: Final = {"bg_color": "#e9ecef"}
_ADDED_HEAD: Final = {"bg_color": "#1f4e79", "font_color": "white"}

_RESERVED: Final = ("", "columns", "refused lines", "complete", "incomplete", "history")
"""Names that a sheet of lines cannot have; spreadsheet programs keep the last one for themselves."""


class SheetColumn(NamedTuple):
    """A column of a sheet, whose type is as DuckDB spells it; empty for a column of a list, whose values are texts.

    Columns of a list have number formats by kind of cell; others the view and column that they were taken from
    (`source`).
    """

    name: str
    type: str = ""
    formats: Mapping[str, str | int] = {}
    source: str = ""
    meaning: str = ""


class _Error(str):
    """An error cell, such as #N/A."""

    __slots__ = ()


_ERRORS: Final = {text: _Error(text) for text in ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")}


def write_workbook(
    path: Path,
    title: str,
    columns: Sequence[SheetColumn],
    batches: Iterable[pa.RecordBatch],
    refused: Sequence[tuple[int, str | None, str]],
    completeness: Completeness,
) -> None:
    """Write a list as a workbook, line by line, in constant memory. A text longer than a cell can hold is cut.

    Args:
        columns: Its own columns, then the added ones.
        batches: Its lines: own columns as text, then the added ones, then the kinds of the own cells as letters (see
            `intake.table.ROWS`); own cells without a kind are texts.
        refused: Line, its text, and the reason.
        completeness: What the last sheet says.
    """
    meanings = [(each.name, each.source, each.meaning.replace("Null: ", "Empty: ")) for each in columns if each.type]
    with _open_workbook(path, title) as book:
        _write_rows(book, _sheet_name(title), columns, _rows(batches))
        columns = _columns({"column": "VARCHAR", "taken from": "VARCHAR", "meaning": "VARCHAR"})
        _write_rows(book, "Columns", columns, meanings, _WIDEST)
        if refused:
            columns = _columns({"line": "BIGINT", "given": "VARCHAR", "reason": "VARCHAR"})
            _write_rows(book, "Refused lines", columns, refused, _WIDEST)
        columns = _columns({"because of": "VARCHAR", "dataset": "VARCHAR", "companies": "BIGINT"})
        name = "Incomplete" if completeness.incomplete else "Complete"
        _write_rows(book, name, columns, _lacks(completeness), _WIDEST)


def write_result(path: Path, title: str, columns: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> int:
    """Write the result of a query as a workbook, in constant memory, and return the number of rows.

    The types of its columns are as DuckDB spells them. A full sheet continues in the next one. What a spreadsheet
    cannot hold as it is, such as a number of more than 15 digits, a nested value or a day before 1901, becomes text.
    """
    with _open_workbook(path, title) as book:
        return _write_rows(book, _sheet_name(title), _columns(columns), _rows(batches))


def _columns(types: Mapping[str, str]) -> list[SheetColumn]:
    return list(starmap(SheetColumn, types.items()))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _write_rows(
    book: Workbook, name: str, columns: Sequence[SheetColumn], rows: Iterable[Sequence[Any]], widest: int = _WIDE
) -> int:
    """Write rows to a sheet, and to more of them if it is full; return their number.

    A row has the values of the columns, and then the kinds of those of the list as letters. `widest` is in characters.
    """
    sheets, count = [_Sheet(book, name, columns)], 0
    for row in rows:
        if count and count % SHEET_ROWS == 0:
            sheets[-1].finish(widest)
            sheets.append(_Sheet(book, f"{name[:26]} {len(sheets) + 1}", columns))
        sheets[-1].line(row)
        count += 1
    sheets[-1].finish(widest)
    return count


class _Sheet:
    """A sheet written from top to bottom, with a fixed header and columns as wide as their content."""

    def __init__(self, book: Workbook, name: str, columns: Sequence[SheetColumn]) -> None:
        self._book, self._columns = book, columns
        self._sheet = book.add_worksheet(name)
        self._row = 0
        self._widths: Counter[int] = Counter()
        self._number_formats = [_format_of(column) for column in columns]
        self._formats: dict[tuple[str | int, str], Any] = {}
        for place, column in enumerate(columns):
            colours = _ADDED_HEAD if column.type else _OWN_HEAD
            shown = book.add_format({"bold": True, "valign": "vcenter", "bottom": 1, **colours})
            self._sheet.write_string(0, place, column.name, shown)
            self._widths[place] = len(column.name) + 3  # room for the button of the filter
        self._sheet.freeze_panes(1, 0)
        self._sheet.set_row(0, 20)

    def line(self, row: Sequence[Any]) -> None:
        """Write one row. An empty number format means the usual one of the value."""
        self._row += 1
        letters = "".join(row[len(self._columns) :])
        for place, (value, column) in enumerate(zip(row, self._columns, strict=False)):
            if value is None or value == "":
                continue
            number_format: str | int = self._number_formats[place]
            if column.type:
                value = _shown_in_cell(value)
            elif (typed := _typed(value, letters[place : place + 1])) is not None:
                value, number_format = typed, column.formats.get(letters[place], "")
            self._widths[place] = max(self._widths[place], self._write(place, value, number_format) + 2)

    def finish(self, widest: int) -> None:
        """Set filter and column widths after the last row."""
        if self._row:
            self._sheet.autofilter(0, 0, self._row, max(self._widths, default=0))
        for place, width in self._widths.items():
            # The reason is mostly empty, and flows over the cells of a line that names no company.
            most = _REASON_WIDTH if self._columns[place].source == "list_lines.reason" else widest
            self._sheet.set_column(place, place, min(max(width, _NARROW), most))
        self._sheet.ignore_errors({"number_stored_as_text": f"A1:XFD{self._row + 1}"})

    def _write(self, place: int, value: Any, number_format: str | int) -> int:
        """Write a cell, and return about how many characters it shows."""
        at = self._row, place
        if isinstance(value, _Error):
            self._sheet.write_formula(*at, f"={value}", None, value)
            return len(value)
        if isinstance(value, date) and value.year < _FIRST_YEAR:
            value = str(value)
        if isinstance(value, str):
            return self._write_text(place, value, "@" if number_format else "")
        if isinstance(value, bool):
            self._sheet.write_boolean(*at, value, self._format(number_format))
            return 5
        if isinstance(value, date | time):
            number_format = number_format or _MOMENTS[type(value)]
            self._sheet.write_datetime(*at, value, self._format(number_format))
            return len(str(number_format))
        if not isinstance(value, float) and len(Decimal(value).as_tuple().digits) > _EXACT_DIGITS:
            return self._write_text(place, str(value), "@")
        self._sheet.write_number(*at, value, self._format(number_format))
        return len(f"{value:,.0f}") + min(len(str(number_format)), _SIGNS) if number_format else len(str(value))

    def _write_text(self, place: int, text: str, number_format: str) -> int:
        text = text.replace("\x00", "\ufffd")  # a spreadsheet takes it for damage
        if len(text) > _CELL_MAX:
            text = text[: _CELL_MAX - 1] + "…"
        colour = _STATUS_COLOURS.get(text, "") if self._columns[place].source == "list_lines.status" else ""
        self._sheet.write_string(self._row, place, text, self._format(number_format, colour, is_risky(text)))
        return max(map(len, text.splitlines()), default=0)

    def _format(self, number_format: str | int, colour: str = "", is_quoted: bool = False) -> Any:
        key = (number_format, colour + "'" * is_quoted)
        if key not in self._formats:
            wanted = {"num_format": number_format, "bg_color": colour, "quote_prefix": is_quoted}
            self._formats[key] = self._book.add_format({name: value for name, value in wanted.items() if value})
        return self._formats[key] if any(key) else None


def _typed(text: str, letter: str) -> Any:
    """Return the value that a text stands for by the kind of its cell; None for text, and for what no sheet holds."""
    try:
        return _READERS[letter](text)
    except (ValueError, KeyError):
        return None


def _number(text: str) -> float | Decimal | None:
    """Read a number. A spreadsheet rounds decimals to 15 digits, but would change a longer integer."""
    number = float(text)
    return None if not isfinite(number) else number if abs(number) < 10**_EXACT_DIGITS else Decimal(text)


def _moment(text: str) -> date | time:
    """Read an ISO 8601 date, date with time, or time."""
    moment = datetime.fromisoformat(text) if "-" in text else time.fromisoformat(text)
    return moment if ":" in text or isinstance(moment, time) else moment.date()


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {"n": _number, "d": _moment, "b": _TRUTHS.get, "e": _ERRORS.get}
"""How the text of a cell is read, by the letter of its kind."""


def _shown_in_cell(value: Any) -> Any:
    """Return what a cell can hold: text, truth, a number, or a time without its zone, in UTC."""
    if isinstance(value, str | int | Decimal) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value if isinstance(value, date | time) else str(value)


def _format_of(column: SheetColumn) -> str:
    """Return the number format of a column; empty for texts and truth values. Years and ids have no separators."""
    if not column.type:
        return ""
    if _SHARE.search(column.name):
        return "0.0%"
    if column.type.startswith("TIMESTAMP"):
        return "yyyy-mm-dd hh:mm"
    if column.type.startswith("DECIMAL"):
        scale = int(column.type.rstrip(")").rpartition(",")[2])
        return "#,##0.00" if scale <= 2 else "0.00##"
    is_plain = column.type in _INTEGERS and column.name.lower().endswith(("year", "_id"))
    return "0" if is_plain else _FORMATS.get(column.type, "")


def _lacks(completeness: Completeness) -> Iterator[tuple[str, str | None, int | None]]:
    for lack in completeness.incomplete:
        yield CAUSES[lack.cause], lack.dataset or "all", lack.company_count
    refused = completeness.refused_line_count
    if refused:
        yield f"{count_of(refused, 'line')} could not be used; the sheet Refused lines says why", None, None
    if not completeness.incomplete:
        nothing = "No company lacks anything" if refused else "Nothing is missing"
        yield f"{nothing}: every company was asked for everything", None, None
    if completeness.service:
        yield f"The figures are those of {completeness.service}", None, None


def _sheet_name(title: str) -> str:
    """Make a valid sheet name that differs from those of the other sheets."""
    name = re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", title).strip("' ")[:31].strip("' ")
    return "List" if name.casefold() in _RESERVED else name


_TEXT_STAYS_TEXT: Final = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


@contextmanager
def _open_workbook(path: Path, title: str) -> Iterator[Workbook]:
    """Yield a workbook that keeps its rows in temporary files, and write it at the end."""
    from xlsxwriter import Workbook  # here, because runs without a workbook import this module too
    from xlsxwriter.exceptions import FileCreateError

    with tempfile.TemporaryDirectory(prefix="firmlake-") as folder:
        made = Path(folder) / "book.xlsx"  # a disk that is full while xlsxwriter writes to it makes it noisy
        try:
            with Workbook(made, {"constant_memory": True, "tmpdir": folder, **_TEXT_STAYS_TEXT}) as book:
                book.set_properties({"title": title})
                yield book
        except FileCreateError as error:
            raise error.args[0] from None
        shutil.copyfile(made, path)
