"""Workbooks: a list with the meaning of each added column and the refused lines, or the result of a query."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_EXACT_DIGITS: Final = 15
"""Digits of a number that a spreadsheet keeps."""

_CELL_MAX: Final = 32_767
_WIDTHS: Final = (6, 34)
_REASON_WIDTH: Final = 26
_WIDEST: Final = 90
_MEANING_WIDTH: Final = 100
_LINE_HEIGHT: Final = 15
_SIGNS: Final = 6
"""Estimated number of characters that a number format adds to the digits: separators, decimals, a currency."""
_FIRST_YEAR: Final = 1901
"""Spreadsheets count days from 1900, and count one day too many in that year."""

_INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_SHARE: Final = re.compile(r"(fraction|growth|margin|cagr)$")
_FORMATS: Final = {"DATE": "yyyy-mm-dd", "DOUBLE": "0.00##", "TIME": "hh:mm:ss"} | dict.fromkeys(_INTEGERS, "#,##0")
"""Number formats by type in DuckDB."""
_MOMENTS: Final = {date: "yyyy-mm-dd", datetime: "yyyy-mm-dd hh:mm:ss", time: "hh:mm:ss"}
_ISO_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?")
_ISO_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?")
_TRUTHS: Final = {"true": True, "false": False}
_ERRORS: Final = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")

_STATUS_COLOURS: Final = {
    "refused": "#f8d7da",
    "failed": "#f8d7da",
    "not found": "#fff3cd",
    "waiting": "#fff3cd",
    "not asked": "#fff3cd",
    "repeated": "#e9ecef",
    "blank": "#e9ecef",
}
_OWN_HEAD: Final = {"bg_color": "#e9ecef"}
_ADDED_HEAD: Final = {"bg_color": "#1f4e79", "font_color": "white"}

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
_RESERVED: Final = ("", "columns", "refused lines", "complete", "incomplete", "history")
"""Names that a sheet of lines cannot have; spreadsheet programs keep the last one for themselves."""

Meanings = Mapping[str, tuple[str, str, str]]
"""For each added column: its source, its type in DuckDB, and its meaning."""


class _Error(str):
    """An error cell, such as #N/A."""

    __slots__ = ()


def write_workbook(
    path: Path,
    title: str,
    batches: Iterable[pa.RecordBatch],
    meanings: Meanings,
    formats: Mapping[str, Mapping[str, str | int]],
    refused: Sequence[tuple[int, str | None, str]],
    completeness: Completeness,
) -> int:
    """Write a list as a workbook, line by line, in constant memory.

    Args:
        path: The file.
        title: Name of the list.
        batches: Its lines: own columns as text, then the added ones, then the kinds of the own cells as letters (see
            `intake.table.ROWS`).
        meanings: The added columns.
        formats: Number formats of own columns by kind of cell.
        refused: Line, its text, and the reason.
        completeness: What the last sheet says.

    Returns:
        The number of texts that were cut to the length limit of a cell.

    Raises:
        OSError: There is no room for the file.
    """
    with path.open("wb") as file, open_workbook(file, path.absolute().parent) as book:
        book.set_properties({"title": title})
        lines: _Sheet | None = None
        for batch in batches:
            names = batch.schema.names[:-1]
            own = [formats.get(name, {}) for name in names if name not in meanings]
            added = [_format_of(name, meanings[name][1]) for name in names[len(own) :]]
            if lines is None:
                sources = [meanings[name][0] if name in meanings else "" for name in names]
                lines = _Sheet(book, _sheet_name(title), names, len(own), sources)
            for *row, letters in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                cells = map(_own_cell, row, letters.ljust(len(own), "s"), own)
                lines.line([*cells, *zip(row[len(own) :], added, strict=True)])
        assert lines, "a list has a line"
        lines.finish()
        _explain(book, meanings)
        if refused:
            sheet = _Sheet(book, "Refused lines", ["line", "given", "reason"], 3)
            for number, given, reason in refused:
                sheet.line([(number, "#,##0"), (given, ""), (reason, "")])
            sheet.finish(_WIDEST)
        sheet = _Sheet(
            book, "Incomplete" if completeness.incomplete else "Complete", ["because of", "dataset", "companies"], 3
        )
        for cause, dataset, company_count in _lacks(completeness):
            sheet.line([(cause, ""), (dataset, ""), (company_count, "#,##0")])
        sheet.finish(_WIDEST)
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
    formats = [
        "0" if name.lower().endswith(("year", "_id")) and kind in _INTEGERS else _format_of(name, kind)
        for name, kind in columns.items()
    ]
    count, names = 0, list(columns)
    with path.open("wb") as file, open_workbook(file, path.absolute().parent) as book:
        book.set_properties({"title": title})
        sheet = _Sheet(book, _sheet_name(title), names)
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if count and count % SHEET_ROWS == 0:
                    sheet.finish()
                    sheet = _Sheet(book, _sheet_name(f"{title} {count // SHEET_ROWS + 1}"), names)
                sheet.line(list(zip(map(_shown_in_cell, row), formats, strict=True)))
                count += 1
        sheet.finish()
    return count


class _Sheet:
    """A sheet written from top to bottom, with a fixed header and columns as wide as their content.

    Args:
        book: The workbook.
        name: Name of the sheet.
        columns: The header; the first `own` columns are those of the list.
        own: See above.
        sources: Views and columns that the columns were taken from, where two have a form of their own.
    """

    def __init__(self, book: Workbook, name: str, columns: Sequence[str], own: int = 0, sources: Sequence[str] = ()):
        self._book = book
        self._sheet = book.add_worksheet(name)
        self._row = 0
        self._sources = dict(enumerate(sources))
        self._widths: Counter[int] = Counter()
        self._formats: dict[tuple[str | int, str], Any] = {}
        self.cut_count = 0
        for place, column in enumerate(columns):
            colours = _OWN_HEAD if place < own else _ADDED_HEAD
            shown = book.add_format({"bold": True, "valign": "vcenter", "bottom": 1, **colours})
            self._sheet.write_string(0, place, column, shown)
            self._widths[place] = len(column) + 3  # room for the button of the filter
        self._sheet.freeze_panes(1, 0)
        self._sheet.set_row(0, 20)

    def line(self, cells: Sequence[tuple[Any, str | int]]) -> None:
        """Write one row of values, each with its number format; an empty format means the usual one of the value."""
        self._row += 1
        for place, (value, number_format) in enumerate(cells):
            if value is not None and value != "":
                width = self._write(place, value, number_format)
                self._widths[place] = max(self._widths[place], width + 2)

    def finish(self, widest: int = _WIDTHS[1]) -> None:
        """Set filter and column widths after the last row."""
        if self._row:
            self._sheet.autofilter(0, 0, self._row, max(self._widths, default=0))
        for place, width in self._widths.items():
            # The reason is mostly empty, and flows over the cells of a line that names no company.
            most = _REASON_WIDTH if self._sources.get(place) == "list_lines.reason" else widest
            self._sheet.set_column(place, place, min(max(width, _WIDTHS[0]), most))
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
            self.cut_count += 1
        colour = _STATUS_COLOURS.get(text, "") if self._sources.get(place) == "list_lines.status" else ""
        self._sheet.write_string(self._row, place, text, self._format(number_format, colour, is_risky(text)))
        return max(map(len, text.splitlines()), default=0)

    def _format(self, number_format: str | int, colour: str = "", is_quoted: bool = False) -> Any:
        key = (number_format, colour + "'" * is_quoted)
        if key not in self._formats:
            wanted = {"num_format": number_format, "bg_color": colour, "quote_prefix": is_quoted}
            self._formats[key] = self._book.add_format({name: value for name, value in wanted.items() if value})
        return self._formats[key] if any(key) else None


def _own_cell(text: str | None, letter: str, formats: Mapping[str, str | int]) -> tuple[Any, str | int]:
    """Return the value that a text of an own column stands for, and its number format; the text if a sheet has none."""
    value: Any = None
    match letter:
        case "n":
            value = _number(text or "")
        case "b":
            value = _TRUTHS.get(text or "")
        case "d":
            value = _moment(text or "")
        case "e":
            value = _Error(text) if text in _ERRORS else None
    return (text, "") if value is None else (value, formats.get(letter, ""))


def _number(text: str) -> float | None:
    """Read a number that a spreadsheet can hold; it rounds decimals to 15 digits, but would change a longer integer."""
    with suppress(InvalidOperation):
        number = Decimal(text)
        if number.is_finite() and (abs(number) < 10**_EXACT_DIGITS or len(number.as_tuple().digits) <= _EXACT_DIGITS):
            return float(number)
    return None


def _moment(text: str) -> date | datetime | time | None:
    """Read an ISO 8601 date, date with time, or time; None for other texts and dates that spreadsheets cannot hold."""
    with suppress(ValueError):
        if _ISO_TIME.fullmatch(text):
            return time.fromisoformat(text)
        if _ISO_DATE.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return None if moment.year < _FIRST_YEAR else moment if ":" in text else moment.date()
    return None


def _shown_in_cell(value: Any) -> Any:
    """Return what a cell can hold: text, truth, a number, or a time without its zone, in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | bool | int | float | Decimal | date | time) else str(value)


def _format_of(name: str, type_name: str) -> str:
    """Return the number format of a column; empty for texts and truth values."""
    if _SHARE.search(name):
        return "0.0%"
    if type_name.startswith("TIMESTAMP"):
        return "yyyy-mm-dd hh:mm"
    if type_name.startswith("DECIMAL"):
        scale = int(type_name.rstrip(")").rpartition(",")[2])
        return "#,##0.00" if scale <= 2 else "0.00##"
    return _FORMATS.get(type_name, "")


def _explain(book: Workbook, meanings: Meanings) -> None:
    """Write the sheet with the meaning of each added column; to a spreadsheet's user, null is an empty cell."""
    sheet = book.add_worksheet("Columns")
    wrapped = book.add_format({"text_wrap": True, "valign": "top"})
    bold = book.add_format({"bold": True, "valign": "top"})
    head = book.add_format({"bold": True, **_ADDED_HEAD})
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


def _lacks(completeness: Completeness) -> Iterator[tuple[str, str | None, int | None]]:
    for lack in completeness.incomplete:
        yield _CAUSES[lack.cause], lack.dataset or "all", lack.company_count
    if not completeness.incomplete:
        yield "Nothing is missing: every company was asked for everything", None, None
    if completeness.service:
        yield f"The figures are those of {completeness.service}", None, None


def _sheet_name(title: str) -> str:
    """Make a valid sheet name that differs from those of the other sheets."""
    name = re.sub(r"[\[\]:*?/\\\x00-\x1f]", " ", title).strip("' ")[:31].strip("' ")
    return "List" if name.casefold() in _RESERVED else name
