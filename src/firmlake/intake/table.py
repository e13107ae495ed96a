"""A list as a table of texts, the same from every reader: its header, a sample of its rows, and all its rows."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import ERROR, Synonyms, is_country, role_of
from firmlake.intake.refusals import quoted_names, refusal

SAMPLE_ROWS: Final = 1_000

BLANK: Final = "blank"
"""The `defect` of a blank line."""

ROWS: Final = pl.Schema(
    {
        "line": pl.Int64(),
        "cells": pl.List(pl.String()),
        "kinds": pl.String(),
        "defect": pl.String(),
        "text": pl.String(),
    }
)
"""Rows of a list, one for each line after its header.

- `line`: its number, from 1; in a workbook the number of the row.
- `cells`: its texts in column order, null or missing if empty; there are more than columns if the line is too long.
- `kinds`: a letter for each cell: n (number), b (boolean), d (date, time or both), e (error) or s (text, or empty);
  null if cells have no types, as in text files.
- `defect`: why the line cannot be split into cells; `BLANK` for a blank line; null if all is well.
- `text`: the whole line if it has a defect, or null.
"""

_HEADER_ROWS: Final = 31
"""Search the header in this many rows; rows above it are titles."""

_MIN_DIGITS: Final = 7
"""Digits of the shortest company number: a KVK number without its leading zero."""

_MAX_LETTERS: Final = 8
_DATE: Final = re.compile(r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?!\d)")
_WIDE: Final = 0.5
"""A header fills at least this share of the cells that the data below it fill; a title fills one or two."""

_BATCH_BYTES: Final = 4 * 2**20
_CELL_BYTES: Final = 4
"""What a cell takes beside its text."""

_BLANK_CELL: Final = rf"^\s*$|{ERROR}"
"""A cell without information: formulas copied below the last line leave whole lines of errors."""

Formats = dict[str, str | int]
"""Number formats of a column by kind of cell, `n` or `d`: a format code, or the number of a built-in format."""


class Reading(NamedTuple):
    """How to read a list, with the known header names by role.

    The limits may be below those of the settings: `max_cells` of a sheet, empty ones included; `max_characters` of a
    sheet, and of Parquet if each cell held the longest text possible.
    """

    path: Path
    options: IntakeSettings
    synonyms: Synonyms
    max_cells: int = sys.maxsize
    max_characters: int = sys.maxsize


class TableInfo(msgspec.Struct, kw_only=True):
    """What is known of a list beside its rows.

    Attributes:
        names: Header names in column order; None if the file has no header.
        header_count: Lines before the data: titles, the header, the `sep=;` line of a spreadsheet.
        guesses: One sentence for each guess about the file, with the way to override it.
        unusable: Message and next step for columns that cannot hold numbers, by position.
        delimiter: The delimiter of delimited text; empty for other formats and for a single column.
        types: Types of Parquet columns as DuckDB spells them, by position, if their text can be cast to them.
        formats: Number formats of XLSX columns by kind of cell, by position.
    """

    names: tuple[str, ...] | None
    width: int
    header_count: int = 0
    guesses: tuple[str, ...] = ()
    unusable: dict[int, tuple[str, str]] = {}
    delimiter: str = ""
    types: dict[int, str] = {}
    formats: dict[int, Formats] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """Unique names of the columns; repeated names are numbered."""
        return unique_names(self.names or ("",) * self.width)


class Table(TableInfo, kw_only=True):
    """A list as a table.

    Attributes:
        sample: The `cells` of the first rows without a defect.
        rows: Yields frames of `ROWS`, in file order. Given positions of columns, cells of others may be null.
    """

    sample: pl.Series
    rows: Callable[[Collection[int] | None], Iterator[pl.DataFrame]]


class StoredRows:
    """Rows in a temporary Parquet file, which goes when nothing refers to it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="firmlake-"))
        self.file = self.folder / "rows.parquet"
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def batches(self, _positions: Collection[int] | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows in batches; until the last one, the file stays."""
        yield from read_groups(self.file)


def read_groups(path: Path) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet file of ours, a row group at a time."""
    with pq.ParquetFile(path) as stored:
        for group in range(stored.num_row_groups):
            yield pl.DataFrame(stored.read_row_group(group).to_reader())


class Record(NamedTuple):
    """One row of `ROWS` as a reader makes it; its text counts only if it has a defect."""

    line: int
    cells: Sequence[Any]
    text: str = ""
    defect: str | None = None
    kinds: str | None = None


class Header(NamedTuple):
    """The header of a list.

    Attributes:
        names: None if there is no header.
        data: Position of the first row of data among the rows that are not blank.
        line: The first line of data; blank lines above it count as part of the header, like titles.
        guesses: A sentence about the position of the header, unless it is the first filled line.
    """

    names: tuple[str, ...] | None
    data: int
    line: int
    guesses: tuple[str, ...]


def cell(position: int) -> pl.Expr:
    """Return the text of a column, for frames of `ROWS`; a negative position counts from the end of the line."""
    return pl.col("cells").list.get(position, null_on_oob=True)


def as_batches(records: Iterable[Record], first_rows: int = 0) -> Iterator[pl.DataFrame]:
    """Yield records as frames of `ROWS` of some megabytes; the first holds `first_rows` rows, unless that is 0."""
    taken, size = list[Record](), 0
    for record in records:
        taken.append(record)
        size += len(record.text) + _CELL_BYTES * len(record.cells)
        if size > _BATCH_BYTES or len(taken) == first_rows:
            yield _as_rows(taken)
            taken, size, first_rows = [], 0, 0
    if taken:
        yield _as_rows(taken)


def _as_rows(records: Sequence[Record]) -> pl.DataFrame:
    lines, cells, texts, defects, kinds = zip(*records, strict=True)
    # A series of lists takes 20 times as long, and `pa.array` of lists imports pandas where it is installed.
    ends = pl.Series(list(accumulate(map(len, cells), initial=0)), dtype=pl.Int64)
    values = pl.Series(list(chain.from_iterable(cells)), dtype=pl.String)
    lists = pa.table({"cells": pa.LargeListArray.from_arrays(ends.to_arrow(), values.to_arrow())})
    text = pl.when(pl.col("defect").is_not_null()).then(pl.col("text").str.strip_suffix("\n"))
    frame = pl.DataFrame({"line": lines, "kinds": kinds, "defect": defects, "text": texts})
    return frame.with_columns(pl.DataFrame(lists.to_reader())["cells"], text=text).select(list(ROWS)).cast(ROWS)


def sample_of(rows: pl.DataFrame) -> pl.Series:
    """Return `Table.sample` from the first rows."""
    return rows.filter(pl.col("defect").is_null())["cells"].head(SAMPLE_ROWS)


def mark_blank(rows: pl.DataFrame) -> pl.DataFrame:
    """Mark rows of typed cells as blank if all of them are empty, or errors of a spreadsheet."""
    is_blank = pl.col("cells").list.eval(pl.element().fill_null("").str.contains(_BLANK_CELL)).list.all()
    return rows.with_columns(defect=pl.when(is_blank).then(pl.lit(BLANK)), text=pl.lit(None, pl.String))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Make names unique, ignoring case: repeated names are numbered, and empty ones named after their position.

    Example:
        >>> unique_names(["naam", "", "Naam", "naam"])
        ('naam', 'column_2', 'Naam_2', 'naam_3')
    """
    taken = {name.casefold() for name in names}
    found: dict[str, str] = {}
    for position, given in enumerate(names, 1):
        base = given or f"column_{position}"
        name, number = base, 1
        while name.casefold() in found or (number > 1 and name.casefold() in taken):
            number += 1
            name = f"{base}_{number}"
        found[name.casefold()] = name
    return tuple(found.values())


def find_header(reading: Reading, records: Sequence[Record]) -> Header:
    """Find the row that names the columns, among the first ones that are not blank.

    The header is the row with the most known names above the first company number. If no row has a known name, the
    header is the last row above the data that fills about as many columns as the data.
    """
    path, options, synonyms, *_ = reading
    lines, rows = [record.line for record in records], [record.cells for record in records]
    if options.header_row and options.header_row not in lines:
        raise refusal("no_header_row", path=path, line=options.header_row, most=SAMPLE_ROWS)
    header = lines.index(options.header_row) if options.header_row else None
    row, data = locate_header(rows[:_HEADER_ROWS], options.header, synonyms) if header is None else (header, header + 1)
    names = None if row is None else tuple(name.strip() for name in rows[row])
    line = lines[data] if data < len(lines) else lines[-1] + 1
    if data <= 1:
        return Header(names, data, line, ())
    if row is None or names is None:
        guess = f"The data begins on line {line}; if there is a header, use --set intake.header_row=LINE"
        return Header(names, data, line, (guess,))
    shown, last = quoted_names([name for name in names if name], 3), lines[data - 1]
    below = f", and the data begins below line {last}" if last > lines[row] else ""
    guess = f"The header is on line {lines[row]} ({shown}){below}; to choose another line: --set intake.header_row=LINE"
    return Header(names, data, line, (guess,))


def locate_header(rows: Sequence[Sequence[str]], choice: str, synonyms: Synonyms) -> tuple[int | None, int]:
    """Return the position of the header (None if there is none) and of the first data among rows that are not blank.

    The choice is `yes`, `no`, or `auto` to detect.

    Example:
        >>> from firmlake.intake.columns import COMPANY_COLUMNS
        >>> locate_header([["Customers", ""], ["Naam", "KvK"], ["Fugro", "27120091"]], "auto", COMPANY_COLUMNS)
        (1, 2)
        >>> locate_header([["BE 0403.227.515"]], "auto", COMPANY_COLUMNS)
        (None, 0)
    """
    if choice == "no" or not rows:
        return None, 0
    data = next((n for n, row in enumerate(rows) if any(map(_is_number, row))), len(rows))
    known = [count_known(row, synonyms) for row in rows[: max(data, 1)]]
    if any(known):
        header = max(range(len(known)), key=lambda n: (known[n], _count_filled(rows[n]), -n))
        return header, _end_of_header(rows, known, header)
    data = next((n for n, row in enumerate(rows[:data]) if any(map(is_country, row))), data)
    width = _count_filled(rows[data]) if data < len(rows) else max(map(_count_filled, rows))
    wide = [n for n, row in enumerate(rows[:data]) if _count_filled(row) >= width * _WIDE]
    if not wide:
        return (0, 1) if choice == "yes" and not data else (None, data)
    header = wide[-1] if data < len(rows) else wide[0]
    return header, header + 1


def count_known(row: Sequence[str], synonyms: Synonyms) -> int:
    """Count the cells that are known header names."""
    return sum(role_of(name, synonyms) is not None for name in row if name)


def _end_of_header(rows: Sequence[Sequence[str]], known: Sequence[int], header: int) -> int:
    """Return the first row of data below a header, skipping a second header in another language."""
    below = header + 1
    for number, names in zip(known[below:], rows[below:], strict=False):
        if not number or number * 2 < known[header] or any(map(is_country, names)):
            break
        below += 1
    return below


def _count_filled(row: Sequence[str]) -> int:
    return sum(bool(text.strip()) for text in row)


def _is_number(text: str) -> bool:
    """Return whether a cell looks like a company number: enough digits, few letters, not a date."""
    if sum(map(str.isdigit, text)) < _MIN_DIGITS or _DATE.search(text):
        return False
    return sum(map(str.isalpha, text)) <= _MAX_LETTERS
