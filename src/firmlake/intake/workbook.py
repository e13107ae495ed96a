"""Read a worksheet as a table: the named sheet, or the first visible one with company numbers."""

from __future__ import annotations

import io
import re
import shlex
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import UndecidedError, choose_columns
from firmlake.intake.columns import Synonyms, quoted_names
from firmlake.intake.detect import too_large
from firmlake.intake.header import describe_header, find_header, first_data_line
from firmlake.intake.table import BATCH_ROWS, BLANK, KINDS, SAMPLE_ROWS, Formats, TextTable, field
from firmlake.intake.words import ERROR

_BLANK: Final = rf"^\s*$|{ERROR}"
"""A cell without information: formulas copied below the last line leave whole lines of errors."""

_COMPUTE: Final = "Open the list in a spreadsheet program, save it, and start again"


class _Reading(NamedTuple):
    """How to read the worksheets of one workbook."""

    path: Path
    options: IntakeSettings
    synonyms: Synonyms


HEAD_ROWS: Final = SAMPLE_ROWS + 100
"""Rows that show whether a sheet is the list."""

_CHUNK_CELLS: Final = 1_000_000
_MAX_DIGITS: Final = 15
_SMALLEST_PLAIN: Final = Decimal("1E-9")
"""Smaller numbers are read in scientific notation."""

_ESCAPED: Final = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot hold, as XLSX writes it."""

_STRICT: Final = b"purl.oclc.org/ooxml/spreadsheetml"
_DAY: Final = timedelta(days=1)
_FIRST_OWN_FORMAT: Final = 164
"""The first number of a format that is not built in."""


class SheetDamagedError(Exception):
    """The workbook cannot be read."""


class SheetTooLargeError(Exception):
    """The sheet has more cells, or more text, than may be read."""


class Limits(NamedTuple):
    """Most cells of a sheet, empty ones included, and most characters of its texts."""

    cells: int
    characters: int


class Sheet(NamedTuple):
    """The cells of one worksheet.

    Attributes:
        cells: Its cells as text, from its first row and from its first column with content.
        kinds: The kinds of the cells of each row; see `TextTable.has_kinds`.
        is_whole: Whether these are all rows.
        formats: Most frequent number formats in the first rows, by position; see `TextTable.formats`. XLSX alone.
        blanks: Row, from 1, and position of cells in the first rows that hold no value, but may hold a formula.
        find_formulas: Returns those of `blanks` that are formulas.
    """

    cells: pl.DataFrame
    kinds: pl.Series
    is_whole: bool
    formats: Mapping[int, Formats] = {}
    find_formulas: Callable[[], set[tuple[int, int]]] = set


class Entry(NamedTuple):
    """One worksheet of a workbook; `load` reads at most that many rows, or all if it is None."""

    name: str
    is_visible: bool
    load: Callable[[int | None], Sheet]


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
"""Errors of cells: the name that calamine gives them, and the text that spreadsheets show."""

_DURATION: Final = re.compile(r'DurationIso\("(?:PT(\d+)H(\d+)M(\d+)(?:[.,]\d+)?S|(.+))"\)')
"""A time of OpenDocument."""


def open_workbook(
    path: Path, options: IntakeSettings, synonyms: Synonyms, list_sheets: Callable[[], Sequence[Entry]]
) -> TextTable:
    """Open one worksheet; rows keep their numbers.

    Args:
        path: The workbook.
        options: `sheet` names the sheet; if empty, the first with company numbers is taken.
        synonyms: Known header names by role.
        list_sheets: Lists the worksheets.

    Raises:
        CompanyListError: The workbook is damaged or too large, has no such sheet, or the sheet is empty.
    """
    try:
        return _choose(_Reading(path, options, synonyms), list_sheets())
    except SheetDamagedError as error:
        if "is password protected" in str(error):
            raise CompanyListError(f"{path} is protected with a password", "Save it without a password") from error
        raise CompanyListError(
            f"{path} cannot be read as a workbook", "Open it in a spreadsheet and save it again as XLSX"
        ) from error
    except SheetTooLargeError as error:
        raise too_large(path, options.max_cells, "cells", "intake.max_cells") from error


def list_xlsx(path: Path, limits: Limits) -> list[Entry]:
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
        Entry(sheet.title, sheet.sheet_state == "visible", partial(_load, sheet, limits)) for sheet in book.worksheets
    ]


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


def list_others(path: Path, limits: Limits) -> list[Entry]:
    """List the worksheets of any workbook; calamine allocates whole sheets, and may abort: use a guarded process."""
    import fastexcel

    try:
        workbook = fastexcel.read_excel(path)
        entries = []
        for name in workbook.sheet_names:
            # Rows are counted from the top of the sheet, empty ones included.
            load = partial(workbook.load_sheet, name, header_row=None, skip_rows=0)
            is_visible = load(n_rows=0).visible == "visible"
            entries.append(Entry(name, is_visible, partial(_load_other, load, limits)))
    except (fastexcel.FastExcelError, pl.exceptions.PanicException) as error:
        raise SheetDamagedError(str(error)) from error
    return entries


def _choose(reading: _Reading, entries: Sequence[Entry]) -> TextTable:
    """Return the wanted sheet, or the first with the columns sought, or the first with any content.

    Raises:
        CompanyListError: An earlier sheet may hold the numbers too, or the sheet is missing or empty.
    """
    path, options, _ = reading
    wanted = [entry for entry in entries if (entry.name == options.sheet if options.sheet else entry.is_visible)]
    if options.sheet and not wanted:
        raise _no_sheet(path, options.sheet, [entry.name for entry in entries])
    refused: dict[str, CompanyListError] = {}
    filled: list[Entry] = []
    for number, entry in enumerate(wanted, 1):
        head = _open(reading, entry, HEAD_ROWS)
        if head is None:
            continue
        filled.append(entry)
        refusal = None if options.sheet else _refusal(reading, head)
        if refusal is not None:
            refused[entry.name] = refusal
            continue
        undecided = {name: error for name, error in refused.items() if isinstance(error, UndecidedError)}
        if undecided:
            raise _several(path, undecided, entry.name)
        later = [] if options.sheet else _with_numbers(reading, wanted[number:])
        return _described(_open(reading, entry) or head, entry.name, list(refused), later)
    table = _open(reading, filled[0]) if filled else None
    if table is None:
        raise _empty(path, options, [entry.name for entry in entries if not entry.is_visible])
    return table


def _refusal(reading: _Reading, table: TextTable) -> CompanyListError | None:
    try:
        choose_columns(reading.path, table, reading.options, reading.synonyms, {})
    except CompanyListError as error:
        return error
    return None


def _with_numbers(reading: _Reading, entries: Sequence[Entry]) -> list[str]:
    """Return the names of worksheets whose first rows hold company numbers, such as those of another country."""
    found = []
    for entry in entries:
        with suppress(CompanyListError, SheetDamagedError, SheetTooLargeError):
            table = _open(reading, entry, HEAD_ROWS)
            if table is not None and _refusal(reading, table) is None:
                found.append(entry.name)
    return found


def _described(table: TextTable, name: str, before: Sequence[str], later: Sequence[str]) -> TextTable:
    if not before and not later:
        return table
    has_none = [f"no company numbers in {quoted_names(before)}"] if before else []
    has_too = [f"company numbers in {quoted_names(later)} are not read"] if later else []
    guess = f"Worksheet {name!r} is read ({'; '.join(has_none + has_too)}); to choose another: --set intake.sheet=NAME"
    return replace(table, guesses=(guess, *table.guesses))


def _several(path: Path, undecided: Mapping[str, CompanyListError], decided: str) -> CompanyListError:
    first, error = next(iter(undecided.items()))
    reason = error.message.removeprefix(f"{path}: ")
    return CompanyListError(
        f"{path}: worksheet {decided!r} holds company numbers, and worksheet {first!r} may hold them too: {reason}",
        f"Name the right one: --set intake.sheet={shlex.quote(decided)}, or --set intake.sheet={shlex.quote(first)}; "
        f"for {first!r} also: {error.next_step}",
    )


def _no_sheet(path: Path, wanted: str, names: Sequence[str]) -> CompanyListError:
    nearest = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Its sheets are {quoted_names(names)}."
    return CompanyListError(f"{path} has no worksheet {wanted!r}", hint)


def _empty(path: Path, options: IntakeSettings, hidden: Sequence[str]) -> CompanyListError:
    hint = "Save the workbook again"
    if hidden:
        hint = f"To read a hidden worksheet, name it with --set intake.sheet=NAME: {quoted_names(hidden)}"
    empty = f"worksheet {options.sheet!r} is empty" if options.sheet else "all visible worksheets are empty"
    return CompanyListError(f"{path}: {empty}", hint)


def _open(reading: _Reading, entry: Entry, max_rows: int | None = None) -> TextTable | None:
    """Return one sheet, or its first rows, as a table; None if it is empty."""
    path, options, synonyms = reading
    sheet = entry.load(max_rows)
    cells = sheet.cells.rename({name: field(position) for position, name in enumerate(sheet.cells.columns)})
    is_blank = pl.all_horizontal(pl.lit(value=True), pl.all().fill_null("").str.contains(_BLANK))
    rows = cells.with_columns(sheet.kinds, is_blank=is_blank, line=pl.int_range(1, pl.len() + 1))
    first = rows.filter(~pl.col("is_blank")).head(SAMPLE_ROWS + 1)
    if not first.height or not cells.width:
        return None if sheet.is_whole else _open(reading, entry)
    lines = first["line"].to_list()
    sample = first.select(fields=pl.concat_list(pl.col(cells.columns).fill_null("")))["fields"]
    header = find_header(path, lines, sample.to_list(), options, synonyms)
    names = None if header.row is None else sample[header.row].to_list()
    data = rows.filter(pl.col("line") >= first_data_line(header, lines))
    table = TextTable(
        None if names is None else tuple(name.strip() for name in names),
        cells.width,
        first_data_line(header, lines) - 1,
        sample[header.data :].to_frame("fields"),
        partial(_batches, data),
        describe_header(header, lines, names),
        has_kinds=True,
        formats=sheet.formats,
    )
    return _with_formulas(path, table, sheet, data)


def _with_formulas(path: Path, table: TextTable, sheet: Sheet, data: pl.DataFrame) -> TextTable:
    """Name the columns with formulas without values; one that has no value at all cannot hold numbers.

    A program that is no spreadsheet writes formulas without their values. A spreadsheet computes them whenever it opens
    the file, so people see values that the file does not hold until they save it.
    """
    positions = sorted({n for row, n in sheet.find_formulas() if row > table.header_count and 0 <= n < table.width})
    if not positions:
        return table
    empty = [position for position in positions if data[field(position)].null_count() == data.height]
    shown = quoted_names([table.columns[position] for position in positions], 5)
    message = f"The file has formulas without their values, which are read as empty cells, in {shown}"
    return replace(
        table,
        guesses=(*table.guesses, f"{message}. {_COMPUTE}"),
        unusable=dict.fromkeys(empty, (f"{path}: {message[0].lower()}{message[1:]}", _COMPUTE)),
    )


def _batches(rows: pl.DataFrame, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    defect = pl.when("is_blank").then(pl.lit(BLANK))
    chosen = rows.select("line", KINDS, *map(field, positions), defect=defect, text=pl.lit(None, pl.String))
    return chosen.iter_slices(BATCH_ROWS)


def _load(sheet: Any, limits: Limits, max_rows: int | None) -> Sheet:
    chunks, texts, kinds = [], list[list[str | None]](), list[str]()
    blanks, formats = set[tuple[int, int]](), Counter[tuple[int, str, str | int]]()
    height = width = size = 0
    is_whole = True
    for row, cells in _rows(sheet):
        if max_rows is not None and row > max_rows:
            is_whole = False
            break
        filled = {cell["column"] - 1: _read_cell(cell) for cell in cells if cell["value"] not in (None, "")}
        if row <= SAMPLE_ROWS:
            blanks |= {
                (row, cell["column"] - 1) for cell in cells if cell["value"] is None and cell["data_type"] == "n"
            }
            styles = {cell["column"] - 1: cell["style_id"] for cell in cells}
            formats.update((n, kind, _format(sheet, styles[n])) for n, (_, kind) in filled.items() if kind in "nd")
        if not filled or row <= height:  # a row that comes again is none
            continue
        row_width, missing = max(filled) + 1, row - height - 1
        height, width = row, max(width, row_width)
        size += sum(len(text) for text, _ in filled.values())
        if height * width > limits.cells or size > limits.characters:
            raise SheetTooLargeError(sheet.title)
        texts += [*[[]] * missing, [filled[n][0] if n in filled else None for n in range(row_width)]]
        kinds += [*[""] * missing, "".join(filled[n][1] if n in filled else "s" for n in range(row_width))]
        if len(texts) * width > _CHUNK_CELLS:
            chunks.append(_as_frame(texts, kinds))
            texts, kinds = [], []
    return _trimmed(sheet, [*chunks, _as_frame(texts, kinds)], is_whole, blanks, formats)


def _rows(sheet: Any, *, data_only: bool = True) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the number and the cells of each row that a sheet has; without `data_only` formulas in place of values.

    This is the parser beneath `iter_rows`, which fills each row with empty cells up to its last column.
    """
    from openpyxl.worksheet._reader import WorkSheetParser

    book = sheet.parent
    with sheet._get_source() as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from WorkSheetParser(
            source, sheet._shared_strings, data_only, book.epoch, book._date_formats, book._timedelta_formats
        ).parse()


def _read_cell(cell: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a cell, and the letter of its kind."""
    value = cell["value"]
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
    text = str(value)
    if "_x" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return text, "e" if cell["data_type"] == "e" else "s"


def _format(sheet: Any, style: int) -> str | int:
    """Return the number format of a style: its code, or its number if it is built in."""
    book = sheet.parent
    number: int = book._cell_styles[style].numFmtId
    own = number - _FIRST_OWN_FORMAT
    if own < 0:
        return number
    code: str = book._number_formats[own] if own < len(book._number_formats) else ""
    return "" if code == "General" else code


def _as_frame(texts: Sequence[Sequence[str | None]], kinds: Sequence[str]) -> pl.DataFrame:
    columns = {f"field_{n}": column for n, column in enumerate(zip_longest(*texts))}
    return pl.DataFrame({**columns, KINDS: kinds}, schema=dict.fromkeys([*columns, KINDS], pl.String))


def _trimmed(
    sheet: Any,
    chunks: Sequence[pl.DataFrame],
    is_whole: bool,
    blanks: set[tuple[int, int]],
    formats: Counter[tuple[int, str, str | int]],
) -> Sheet:
    """Join the rows of a sheet, without the empty columns at its edges and the empty rows at its end."""
    rows = pl.concat(chunks, how="diagonal")
    filled = [n for n, column in enumerate(rows.drop(KINDS)) if column.null_count() < rows.height]
    first, last = (filled[0], filled[-1]) if filled else (0, -1)
    width = last - first + 1
    names = [f"field_{n}" for n in range(first, last + 1)]
    used = rows.select(pl.any_horizontal(pl.col(names).is_not_null()) if names else pl.lit(value=False)).to_series()
    rows = rows.head(int(used.arg_true()[-1]) + 1 if used.any() else 0) if is_whole else rows
    common: dict[int, Formats] = {}
    for (position, kind, code), _ in formats.most_common():
        common.setdefault(position - first, {}).setdefault(kind, code)
    own = {n: {kind: code for kind, code in each.items() if code not in (0, "")} for n, each in common.items()}
    return Sheet(
        rows.select(pl.col(name).alias(f"field_{n}") for n, name in enumerate(names)),
        rows[KINDS].str.slice(first, width).str.pad_end(width, "s"),
        is_whole,
        {n: each for n, each in sorted(own.items()) if each},
        partial(_formulas, sheet, blanks, first),
    )


def _formulas(sheet: Any, blanks: set[tuple[int, int]], first: int) -> set[tuple[int, int]]:
    """Return the blank cells that hold a formula; a second reading shows formulas in place of their values."""
    if not blanks:
        return set()
    last = max(row for row, _ in blanks)
    read = takewhile(lambda numbered: numbered[0] <= last, _rows(sheet, data_only=False))
    found = {(row, cell["column"] - 1) for row, cells in read for cell in cells if cell["data_type"] == "f"}
    return {(row, n - first) for row, n in found & blanks}


def _load_other(load: Callable[..., Any], limits: Limits, max_rows: int | None) -> Sheet:
    import fastexcel

    try:
        sheet = load(dtypes="string", n_rows=max_rows)
        batch, failed = sheet.to_arrow_with_errors()
        cells, height = pl.DataFrame(pl.from_arrow(batch)), sheet.total_height
        if cells.height * cells.width > limits.cells:
            raise SheetTooLargeError
        del sheet, batch  # before another is loaded
        unread = _unread(failed)
        cells, kinds = _refine(cells, unread, lambda kind: load(dtypes=kind, n_rows=max_rows).to_polars())
    except (fastexcel.FastExcelError, pl.exceptions.PanicException) as error:
        raise SheetDamagedError(str(error)) from error
    return Sheet(cells, kinds, cells.height >= height)


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
            found.setdefault(column, {})[row] = text, "s" if other or int(hours) >= 24 else "d"
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
        is_long = read.is_not_null() & (text.str.count_matches("[0-9]") > _MAX_DIGITS)
        kept.append(number.to_frame().select(pl.when(is_long | (read != number)).then(number).alias(text.name)))
    return pl.concat(kept, how="horizontal") if kept else cells


def _write_numbers(cells: pl.DataFrame, numbers: pl.DataFrame, booleans: pl.DataFrame) -> pl.DataFrame:
    """Format these numbers again, except in text cells, whose boolean is null."""
    written = []
    for number in numbers:
        if number.count():
            shown = number.map_elements(show_number, pl.String)
            is_number = shown.is_not_null() & booleans[number.name].is_not_null()
            written.append(shown.zip_with(is_number, cells[number.name]))
    return cells.with_columns(written)
