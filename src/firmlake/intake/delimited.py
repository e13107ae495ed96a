"""Read delimited text (CSV, TSV, or one number per line) as a table, detecting delimiter and header."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms
from firmlake.intake.header import describe_header, find_header, first_data_line, known_names
from firmlake.intake.quoting import is_well_formed, join_quoted_lines, split_fields, unquoted
from firmlake.intake.table import BLANK, SAMPLE_ROWS, TextTable, field
from firmlake.intake.text import MAX_LINE_CHARACTERS, TextFile, line_blocks

__all__ = ["open_delimited"]

_DELIMITERS: Final = (",", ";", "\t", "|")
_NO_DELIMITER: Final = "\x1f"
"""The delimiter of files with one column; it never occurs."""

_NO_DELIMITERS: Final = ('"', "\n", "\r")
_FEWEST_ALIKE: Final = 0.5
_MAX_LINES: Final = 1_000
"""Most lines of a quoted field. More lines mean that a quotation mark was left open and swallowed them."""

_WRAPPED: Final = (
    "number of fields: 1 instead of {}; the whole line is in quotation marks: split it into columns in a spreadsheet "
    "program, or export the list again"
)
"""What a spreadsheet makes of some lines of a CSV file that it opened with another delimiter and saved again."""

_SEPARATOR_LINE: Final = re.compile(r"sep=(.)", re.IGNORECASE)
"""First line by which spreadsheets declare the delimiter."""


class _Layout(NamedTuple):
    """How to read the lines of a file; `start` is the first line to read."""

    file: TextFile
    delimiter: str
    start: int = 1
    width: int = 0


def open_delimited(file: TextFile, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    """Open delimited text.

    Raises:
        CompanyListError: The file has only blank lines, or an unclosed quotation mark; the message names the line.
    """
    path = file.path
    if len(options.delimiter) > 1 or options.delimiter in _NO_DELIMITERS:
        raise CompanyListError(f"{options.delimiter!r} cannot be the delimiter of {path}", "Use one of , ; | or a tab")
    sample = next(line_blocks(file)).head(SAMPLE_ROWS)
    separator = _SEPARATOR_LINE.fullmatch(sample["text"][0].strip())
    found = separator[1] if separator else _find_delimiter(path, sample, options, synonyms)
    layout = _Layout(file, options.delimiter or found, start=2 if separator else 1)
    records = _first_records(layout)
    rows = _fields(records["text"], layout.delimiter)
    header = find_header(path, records["line"], rows, options, synonyms)
    first: list[str] | None = None if header.row is None else rows[header.row].to_list()
    data = rows[header.data :]
    width = (data if len(data) else rows).list.len().mode(maintain_order=True)[0] if first is None else len(first)
    names = None if first is None else tuple(name.strip() for name in first)
    layout = layout._replace(start=first_data_line(header, records["line"]), width=width)
    sample = pl.DataFrame({"fields": data.filter(data.list.len() <= width)})
    guesses = describe_header(header, records["line"], first)
    delimiter = layout.delimiter.replace(_NO_DELIMITER, "")
    return TextTable(
        names, width, _count_above(layout), sample, partial(_batches, layout), guesses, delimiter=delimiter
    )


def _first_records(layout: _Layout) -> pl.DataFrame:
    """Return the first records that are not blank, at most `SAMPLE_ROWS`."""
    is_data = ~pl.col("text").str.contains(_blank(layout.delimiter)) & (pl.col("line") >= layout.start)
    for records in _records(layout):
        data = records.filter(is_data).head(SAMPLE_ROWS)
        if data.height:
            return data
    raise CompanyListError(f"{layout.file.path} is empty: it has only blank lines", "Export the list again")


def _count_above(layout: _Layout) -> int:
    """Count the records above the data."""
    count = 0
    for records in _records(layout):
        above = records.filter(pl.col("line") < layout.start).height
        count += above
        if above < records.height:
            break
    return count


def _find_delimiter(path: Path, sample: pl.DataFrame, options: IntakeSettings, synonyms: Synonyms) -> str:
    """Return the delimiter that yields known header names or, failing that, the same number of fields on most lines."""
    best, best_rank = _NO_DELIMITER, (0, _FEWEST_ALIKE, 1)
    for delimiter in _DELIMITERS:
        records, _ = join_quoted_lines(sample, delimiter)
        records = records.filter(~pl.col("text").str.contains(_blank(delimiter)))
        rows = _fields(records["text"], delimiter)
        # If a quotation mark is never closed, the start of its line still helps.
        first = sample["text"].str.split(delimiter)[0].to_list()
        if len(rows):
            header = find_header(path, records["line"], rows, options, synonyms)
            first = rows[header.data if header.row is None else header.row].to_list()
        if len(first) > 1:
            alike = rows.list.len().to_list().count(len(first)) / max(len(rows), 1)
            rank = int(known_names(first, synonyms) > 0), alike, len(first)
            best, best_rank = max((best, best_rank), (delimiter, rank), key=lambda pair: pair[1])
    return best


def _records(layout: _Layout) -> Iterator[pl.DataFrame]:
    """Yield the records of a file block by block: `line` (where the record begins) and `text`."""
    rest: pl.DataFrame | None = None
    for block in line_blocks(layout.file):
        lines = block if rest is None else pl.concat([rest, block])
        records, rest = join_quoted_lines(lines, layout.delimiter)
        if records.height + rest.height < lines.height:
            swallowing = pl.col("text").str.contains("\n", literal=True) & (
                ~is_well_formed(layout.delimiter) | (pl.col("text").str.count_matches("\n", literal=True) >= _MAX_LINES)
            )
            _refuse_open_quote(layout.file.path, records.filter(swallowing))
        if rest.height > _MAX_LINES or rest["text"].str.len_bytes().sum() > MAX_LINE_CHARACTERS:
            break
        yield records
    if rest is not None:
        _refuse_open_quote(layout.file.path, rest)


def _refuse_open_quote(path: Path, records: pl.DataFrame) -> None:
    if records.height:
        raise CompanyListError(
            f"{path}: the quotation mark that opens on line {records['line'][0]} is not closed",
            "Close or remove the mark, and check whether the file was truncated",
        )


def _batches(layout: _Layout, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    """Yield all lines after the header with the fields at these positions; see `firmlake.intake.table.TextTable`."""
    ragged = pl.format(
        "number of fields: {} instead of {}; quote fields that hold the delimiter", "width", layout.width
    )
    surplus = pl.col("fields").list.slice(layout.width).list.join("").str.contains(_blank(layout.delimiter))
    for records in _records(layout):
        rows = records.filter(pl.col("line") >= layout.start)
        fields = split_fields(rows["text"], layout.delimiter)
        rows = rows.with_columns(
            is_blank=pl.col("text").str.contains(_blank(layout.delimiter)),
            width=fields.list.len(),
            **{field(n): fields.list.get(n, null_on_oob=True) for n in positions},
        )
        is_wider = pl.col("width") > layout.width
        if rows.select(is_wider.any()).item():
            rows = rows.with_columns(fields=fields).with_columns(
                width=pl.when(is_wider & surplus).then(0).otherwise("width")
            )
        defect = pl.when("is_blank").then(pl.lit(BLANK)).when(is_wider).then(ragged)
        if layout.width > 1 and (rows["width"] == 1).any():
            defect = defect.when(pl.lit(_are_wrapped(rows, layout))).then(pl.lit(_WRAPPED.format(layout.width)))
        yield rows.select(
            "line",
            defect=defect,
            text=pl.when(defect.is_not_null()).then("text"),
            **{field(n): unquoted(pl.col(field(n))) for n in positions},
        )


def _are_wrapped(rows: pl.DataFrame, layout: _Layout) -> pl.Series:
    """Return whether each line is one quoted field that holds all fields of a line."""
    inner = split_fields(rows.select(unquoted(pl.col("text"))).to_series(), layout.delimiter)
    return (rows["width"] == 1) & (inner.list.len() == layout.width)


def _fields(text: pl.Series, delimiter: str) -> pl.Series:
    """Split records into lists of unquoted fields."""
    return split_fields(text, delimiter).list.eval(unquoted(pl.element()))


def _blank(delimiter: str) -> str:
    return f'^[\\s"\\x{{{ord(delimiter):x}}}]*$'
