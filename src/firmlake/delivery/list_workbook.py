"""Workbooks: a list with the meaning of each added column and the refused lines, or the result of a query."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import pyarrow as pa
from xlsxwriter import Workbook

from firmlake.core.guard import is_risky
from firmlake.core.open_workbook import open_workbook
from firmlake.warehouse.incomplete import Completeness

SHEET_ROWS: Final = 1_048_575
"""Lines that a sheet holds below its header."""

_CELL_MAX: Final = 32_767
_EXACT_DIGITS: Final = 15
_EXACT: Final = 10**_EXACT_DIGITS
_TRUTHS: Final = {"true": True, "false": False}
_ERRORS: Final = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
_WIDTHS: Final = (6, 34)
_MEANING_WIDTH: Final = 100
_LINE_HEIGHT: Final = 15
_SIGNS: Final = 6
"""Estimated number of characters that a number format adds to the digits: separators, decimals, a currency."""
_INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_SHARE: Final = re.compile(r"(fraction|growth|margin|cagr)$")
_ISO_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?")
_ISO_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?")
_DATE_LENGTH: Final = len("2026-09-01")
_FIRST_YEAR: Final = 1901
"""Spreadsheets count days from 1900, and count one day too many in that year."""

_MOMENTS: Final = {date: "yyyy-mm-dd", datetime: "yyyy-mm-dd hh:mm:ss", time: "hh:mm:ss"}
_STATUS_COLOURS: Final = {
    "refused": "#f8d7da",
    "failed": "#f8d7da",
    "not found": "#fff3cd",
    "waiting": "#fff3cd",
    "not asked": "#fff3cd",
    "repeated": "#e9ecef",
    "blank": "#e9ecef",
}

_KINDS: Final = ("number", "number,", "date", *"nbdes")
_Typed = float | date | time | str  # bool counts as float, datetime as date; str is an error such as #N/A

_CAUSES: Final = {
    "budget": "the budget of a run or month was used up",
    "credits": "the service's credits ran out",
    "outage": "the service did not answer",
    "forbidden": "the service does not allow it",
    "gave_up": "every attempt failed",
    "rejected": "records do not fit the tables",
    "not_asked": "not asked yet; run the whole list",
    "gate": "a gate holds the figures back",
}
"""Causes of the view `incomplete`, in words."""

Meanings = Mapping[str, tuple[str, str, str]]
"""For each added column: its source, its type in DuckDB, and its meaning."""


def write_workbook(
    path: Path,
    title: str,
    batches: Iterable[pa.RecordBatch],
    kinds: Mapping[str, str],
    meanings: Meanings,
    refused: Sequence[tuple[int, str | None, str]],
    formats: Mapping[str, Mapping[str, str | int]],
    completeness: Completeness,
) -> int:
    """Write a list as a workbook, line by line, in constant memory.

    Args:
        path: The file.
        title: Name of the list.
        batches: Its lines: own columns as text, then the added ones, then the kinds of the own cells, as in
            `ListBack.cell_query`.
        kinds: `number`, `number,` (decimal comma) or `date` for each own column to write as such, where the kinds of
            its cells are not known; the others are text.
        meanings: The added columns.
        refused: Line, its text, and the reason.
        formats: Number formats of own columns by kind of cell.
        completeness: What the last sheet says.

    Returns:
        The number of texts that were cut to the length limit of a cell.

    Raises:
        OSError: There is no room for the file.
    """
    with path.open("wb") as file, open_workbook(file, path.absolute().parent) as book:
        book.set_properties({"title": title})
        lines = _Sheet(book, _sheet_name(title))
        columns: list[str] = []
        for batch in batches:
            if not columns:
                names = batch.schema.names[:-1]
                columns = [_kind(name, kinds, meanings) for name in names]
                lines.head(names, sum(name not in meanings for name in names), formats)
            for *row, letters in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                lines.line(row, [*letters, *columns[len(letters) :]])
        lines.finish()
        _explain(book, meanings)
        if refused:
            sheet = _Sheet(book, "Refused lines")
            sheet.head(["line", "given", "reason"], 3)
            for each in refused:
                sheet.line(each, ["#,##0", "text", "text"])
            sheet.finish(widest=90)
        sheet = _Sheet(book, "Incomplete" if completeness.incomplete else "Complete")
        sheet.head(["because of", "dataset", "companies"], 3)
        for lack in completeness.incomplete:
            sheet.line((_CAUSES[lack.cause], lack.dataset or "all", lack.company_count), ["text", "text", "#,##0"])
        if not completeness.incomplete:
            sheet.line(("Nothing is missing: every company was asked for everything", None, None), ["text"] * 3)
        if completeness.service:
            sheet.line((f"The figures are those of {completeness.service}", None, None), ["text"] * 3)
        sheet.finish(widest=90)
    return lines.cut_count


def write_result(path: Path, title: str, columns: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> int:
    """Write the result of a query as a workbook, in constant memory; a full sheet continues in the next one.

    Columns have the number format of their type, and years and ids no thousands separators. What a spreadsheet cannot
    hold as it is, such as a number of more than 15 digits, a nested value or a day before 1901, becomes text.

    Args:
        path: The file.
        title: Title of the workbook, and name of its first sheet.
        columns: Their types, as DuckDB spells them, by name.
        batches: The rows.

    Returns:
        The number of rows.

    Raises:
        OSError: There is no room for the file.
    """
    formats = [_format_of_result(name, kind) for name, kind in columns.items()]
    count = 0
    with path.open("wb") as file, open_workbook(file, path.absolute().parent) as book:
        book.set_properties({"title": title})
        sheet = _start_result(book, title, list(columns))
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if count and count % SHEET_ROWS == 0:
                    sheet.finish()
                    sheet = _start_result(book, f"{title} {count // SHEET_ROWS + 1}", list(columns))
                sheet.line(list(map(_shown_in_cell, row)), formats)
                count += 1
        sheet.finish()
    return count


class _Sheet:
    """A sheet written from top to bottom, with a fixed header and columns as wide as their content."""

    def __init__(self, book: Workbook, name: str) -> None:
        self._book = book
        self._sheet = book.add_worksheet(name)
        self._row = 0
        self._reason = -1
        self._widths: Counter[int] = Counter()
        self._formats: dict[tuple[str | int, str], Any] = {}
        self._given: dict[tuple[int, str], str | int] = {}
        self.cut_count = 0

    def head(self, names: Sequence[str], own: int, formats: Mapping[str, Mapping[str, str | int]] = {}) -> None:
        """Write the header. The first `own` columns are the list's; `formats` has their formats by kind of cell."""
        self._given = {(n, kind): each for n in range(own) for kind, each in formats.get(names[n], {}).items()}
        for place, name in enumerate(names):
            if name == "reason" and place >= own:
                self._reason = place  # mostly empty, and it flows over the cells of a line that names no company
            colours = {"bg_color": "#e9ecef"} if place < own else {"bg_color": "#1f4e79", "font_color": "white"}
            shown = self._book.add_format({"bold": True, "valign": "vcenter", "bottom": 1, **colours})
            self._sheet.write_string(0, place, name, shown)
            self._widths[place] = len(name) + 3  # room for the button of the filter
        self._sheet.freeze_panes(1, 0)
        self._sheet.set_row(0, 20)

    def line(self, row: Sequence[Any], columns: Sequence[str]) -> None:
        """Write one row; `columns` are number formats, text, status, or kinds of own cells."""
        self._row += 1
        for place, (value, column) in enumerate(zip(row, columns, strict=True)):
            if value is not None and value != "":
                shown = self._write(place, value, column)
                self._widths[place] = max(self._widths[place], shown + 2)

    def finish(self, widest: int = _WIDTHS[1]) -> None:
        """Set filter and column widths after the last row."""
        last = max(self._widths, default=0)
        if self._row:
            self._sheet.autofilter(0, 0, self._row, last)
        for place, width in self._widths.items():
            self._sheet.set_column(place, place, min(max(width, _WIDTHS[0]), widest if place != self._reason else 26))
        self._sheet.ignore_errors({"number_stored_as_text": f"A1:XFD{self._row + 1}"})

    def _write(self, place: int, value: Any, column: str) -> int:
        """Write a cell, and return about how many characters it shows."""
        if isinstance(value, str):
            typed = _typed(value, column)
            return (
                self._write_text(place, value, column)
                if typed is None
                else self._write_typed(place, value, typed, self._given.get((place, column), ""))
            )
        if isinstance(value, bool):
            self._sheet.write_boolean(self._row, place, value)
            return 5
        if hasattr(value, "isoformat"):
            self._sheet.write_datetime(self._row, place, value, self._format(column))
            return len(column)
        digits = 0 if isinstance(value, float) else len(Decimal(value).as_tuple().digits)
        if digits > _EXACT_DIGITS:
            return self._write_text(place, str(value), "text")
        self._sheet.write_number(self._row, place, value, self._format(column))
        return len(f"{value:,.0f}") + (3 if "." in column else 0)

    def _write_typed(self, place: int, text: str, value: _Typed, given: str | int) -> int:
        """Write the value that a text stands for."""
        if isinstance(value, str):
            self._sheet.write_formula(self._row, place, f"={value}", None, value)
            return len(value)
        if isinstance(value, date | time):
            self._sheet.write_datetime(self._row, place, value, self._format(given or _MOMENTS[type(value)]))
            return len(str(given or _MOMENTS[type(value)]))
        write = self._sheet.write_boolean if isinstance(value, bool) else self._sheet.write_number
        write(self._row, place, value, self._format(given) if given else None)
        return len(text) + _SIGNS * bool(given)

    def _write_text(self, place: int, text: str, column: str) -> int:
        text = text.replace("\x00", "\ufffd")  # a spreadsheet takes it for damage
        if len(text) > _CELL_MAX:
            text = text[: _CELL_MAX - 1] + "…"
            self.cut_count += 1
        colour = _STATUS_COLOURS.get(text, "") if column == "status" else ""
        shown = self._format("@" if column not in ("text", *_KINDS) else "", colour, is_risky(text))
        self._sheet.write_string(self._row, place, text, shown)
        return max(map(len, text.splitlines()), default=0)

    def _format(self, number: str | int, colour: str = "", is_quoted: bool = False) -> Any:
        key = (number, colour + "'" * is_quoted)
        if key not in self._formats:
            wanted = {"num_format": number, "bg_color": colour, "quote_prefix": is_quoted}
            self._formats[key] = self._book.add_format({name: value for name, value in wanted.items() if value})
        return self._formats[key]


def _start_result(book: Workbook, name: str, columns: Sequence[str]) -> _Sheet:
    sheet = _Sheet(book, _sheet_name(name))
    sheet.head(columns, 0)
    return sheet


def _format_of_result(name: str, kind: str) -> str:
    is_plain = name.lower().endswith(("year", "_id")) and kind in _INTEGERS
    return "0" if is_plain else _kind(name, {}, {name: ("", kind, "")})


def _shown_in_cell(value: Any) -> Any:
    """Return what a cell can hold: text, truth, a number, or a time without its zone, in UTC."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return value if value.year >= _FIRST_YEAR else str(value)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | bool | int | float | Decimal | time) else str(value)


def _explain(book: Workbook, meanings: Meanings) -> None:
    """Write the sheet with the meaning of each added column; to a spreadsheet's user, null is an empty cell."""
    sheet = book.add_worksheet("Columns")
    wrapped = book.add_format({"text_wrap": True, "valign": "top"})
    bold = book.add_format({"bold": True, "valign": "top"})
    head = book.add_format({"bold": True, "bg_color": "#1f4e79", "font_color": "white"})
    for place, (name, width) in enumerate((("column", 26), ("meaning", _MEANING_WIDTH), ("taken from", 36))):
        sheet.write_string(0, place, name, head)
        sheet.set_column(place, place, width)
    for row, (name, (source, _, meaning)) in enumerate(meanings.items(), 1):
        text = meaning[:_CELL_MAX].replace("Null: ", "Empty: ")
        sheet.set_row(row, _LINE_HEIGHT * len(wrap(text, _MEANING_WIDTH)))  # LibreOffice fits no height itself
        sheet.write_string(row, 0, name, bold)
        sheet.write_string(row, 1, text, wrapped)
        sheet.write_string(row, 2, source, wrapped)
    sheet.freeze_panes(1, 0)


def _kind(name: str, kinds: Mapping[str, str], meanings: Meanings) -> str:
    """Return how to write a column: a number format, `number` or `date` (for texts), `status`, or `text`."""
    if name not in meanings:
        return kinds.get(name, "text")
    source, type_name, _ = meanings[name]
    if source == "list_lines.status":
        return "status"
    if _SHARE.search(name):
        return "0.0%"
    if type_name.startswith("TIMESTAMP"):
        return "yyyy-mm-dd hh:mm"
    if type_name.startswith("DECIMAL"):
        scale = int(type_name.rstrip(")").rpartition(",")[2])
        return "#,##0.00" if scale <= 2 else "0.00##"
    if type_name in _INTEGERS:
        return "#,##0"
    return {"DATE": "yyyy-mm-dd", "DOUBLE": "0.00##", "TIME": "hh:mm:ss"}.get(type_name, "text")


def _typed(text: str, column: str) -> _Typed | None:
    """Return the value that a text of an own column stands for; None if it is just text."""
    match column:
        case "number" | "number,":
            return _number(text, column)
        case "n":
            with suppress(ValueError):
                number = float(text)
                return number if abs(number) < _EXACT else _number(text, column)
        case "b":
            return _TRUTHS.get(text)
        case "date" | "d":
            return _moment(text)
        case "e":
            return text if text in _ERRORS else None
    return None


def _number(text: str, column: str) -> float | None:
    """Read a number that a spreadsheet can hold with all its digits; None for any other text."""
    with suppress(InvalidOperation):
        number = Decimal(text.replace(".", "").replace(",", ".") if column.endswith(",") else text)
        if number.is_finite() and len(number.as_tuple().digits) <= _EXACT_DIGITS:
            return float(number)
    return None


def _moment(text: str) -> date | datetime | time | None:
    """Read an ISO 8601 date, date with time, or time; None for other texts and dates that spreadsheets cannot hold."""
    with suppress(ValueError):
        if _ISO_TIME.fullmatch(text):
            return time.fromisoformat(text)
        if _ISO_DATE.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return None if moment.year < _FIRST_YEAR else moment if len(text) > _DATE_LENGTH else moment.date()
    return None


def _sheet_name(title: str) -> str:
    """Make a valid sheet name that differs from those of the other sheets."""
    name = re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", title).strip("' ")[:31].strip("' ")
    return "List" if name.casefold() in ("", "columns", "refused lines", "history") else name
