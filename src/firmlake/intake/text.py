"""Read text files of any encoding and compression as lines, and delimited text (CSV, TSV) as a table.

Quotation marks are read as the standard library's `csv` reads them. A mark that stays open would swallow the lines
below it: such a line is refused, and the lines below it are read again.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.columns import Synonyms
from firmlake.intake.detect import GZIP, too_large
from firmlake.intake.header import describe_header, find_header, first_data_line, known_names
from firmlake.intake.table import BLANK, SAMPLE_ROWS, TAIL, TextTable, field

MAX_RECORD_CHARACTERS: Final = 64 * 2**20
"""Longest line, or quoted field of several lines, that is read."""

_MAX_RECORD_LINES: Final = 1_000
"""Most lines of a record. More lines mean that a quotation mark was left open and swallowed them."""

_BATCH_CHARACTERS: Final = 8 * 2**20
_BLOCK_CHARACTERS: Final = 2 * 2**20
_SAMPLE_BYTES: Final = 2**16
_BOMS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FALLBACK: Final = "cp1252"
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
_MAX_CONTROL_SHARE: Final = 0.05
"""Random bytes contain 13 % control characters; text contains none, or a few NULs from a broken export."""

_DELIMITERS: Final = (",", ";", "\t", "|")
_NO_DELIMITER: Final = "\x1f"
"""The delimiter of files with one column; it never occurs."""

_NO_DELIMITERS: Final = ('"', "\n", "\r")
_MIN_SAME_WIDTH: Final = 0.5
_SEPARATOR_LINE: Final = re.compile(r"sep=(.)", re.IGNORECASE)
"""First line by which spreadsheets declare the delimiter."""

_OPEN_MARK: Final = "a quotation mark on this line is not closed: close or remove it"
_SURPLUS: Final = "number of fields: {} instead of {}; quote fields that hold the delimiter"
_WRAPPED: Final = (
    "number of fields: 1 instead of {}; the whole line is in quotation marks: split it into columns in a spreadsheet "
    "program, or export the list again"
)
"""What a spreadsheet makes of some lines of a CSV file that it opened with another delimiter and saved again."""


class TextFile(NamedTuple):
    """A text file and how to read it.

    Attributes:
        path: The file.
        encoding: Its encoding.
        max_lines: Most lines; a longer file is refused.
        max_bytes: Most bytes after decompression; a larger file is refused.
    """

    path: Path
    encoding: str
    max_lines: int
    max_bytes: int


class _Record(NamedTuple):
    """The fields of one record, its raw lines as one text, the number of its first line, and a flaw or None."""

    line: int
    fields: list[str]
    text: str
    flaw: str | None = None


class _Layout(NamedTuple):
    """How to read the lines of a file; `start` is the first line to read."""

    file: TextFile
    delimiter: str
    start: int = 1
    width: int = 0


def open_text(path: Path, options: IntakeSettings) -> TextFile:
    """Detect the encoding of a text file: byte order mark, then `intake.encoding`, then UTF-8 if valid, then cp1252.

    Raises:
        CompanyListError: The encoding is unknown, or the file is binary. Name the encoding or another file.
    """
    file = TextFile(path, "", options.max_rows, options.max_inflated_megabytes * 2**20)
    return file._replace(encoding=_find_encoding(file, options.encoding))


def beginning(file: TextFile) -> str:
    """Return the first two characters other than white space, which reveal the kind of text.

    Raises:
        CompanyListError: The file has only blank lines.
    """
    for block in _blocks(file):
        if start := block.lstrip()[:_SAMPLE_BYTES]:
            return "".join(start.split())[:2]
    raise CompanyListError(f"{file.path} is empty: it has only blank lines", "Export the list again")


def read_lines(file: TextFile) -> Iterator[str]:
    """Yield the lines of a text file with a line feed at the end; LF, CR LF and CR end a line, and the last need not.

    Raises:
        CompanyListError: The file is truncated, damaged, in another encoding or larger than the settings allow, or a
            line is too long.
    """
    count, begun = 0, ""
    for block in chain(_blocks(file), [None]):
        whole, end, rest = (begun, "\n", "") if block is None else (begun + block).rpartition("\n")
        for line in io.StringIO(whole + end if whole or block is not None else "", newline="\n"):
            count += 1
            yield line
        begun = rest
        if count > file.max_lines:
            raise too_large(file.path, file.max_lines, "lines", "intake.max_rows")
        if len(begun) > MAX_RECORD_CHARACTERS:
            raise CompanyListError(
                f"{file.path}: line {count + 1} has more than {MAX_RECORD_CHARACTERS:,} characters",
                "Check that this file is a list",
            )


def open_delimited(file: TextFile, options: IntakeSettings, synonyms: Synonyms) -> TextTable:
    """Open delimited text.

    Raises:
        CompanyListError: The file has only blank lines.
    """
    path = file.path
    if len(options.delimiter) > 1 or options.delimiter in _NO_DELIMITERS:
        raise CompanyListError(f"{options.delimiter!r} cannot be the delimiter of {path}", "Use one of , ; | or a tab")
    sample = list(islice(read_lines(file), SAMPLE_ROWS))
    separator = _SEPARATOR_LINE.fullmatch(sample[0].strip())
    found = separator[1] if separator else _find_delimiter(path, sample, options, synonyms)
    layout = _Layout(file, options.delimiter or found, start=2 if separator else 1)
    records = list(islice((record for record in _read_records(layout) if not _is_blank(record.fields)), SAMPLE_ROWS))
    if not records:
        raise CompanyListError(f"{path} is empty: it has only blank lines", "Export the list again")
    lines, rows = [record.line for record in records], [record.fields for record in records]
    header = find_header(path, lines, rows, options, synonyms)
    names, data = None if header.row is None else rows[header.row], rows[header.data :]
    guesses = describe_header(header, lines, names)
    if names is not None and (surplus := _surplus_name(names, data)) is not None:
        names = names[:surplus] + names[surplus + 1 :]
        guesses += (f"The header has a separator too many: the empty name at position {surplus + 1} is left out",)
    width = _usual_width(data or rows) if names is None else len(names)
    layout = layout._replace(start=first_data_line(header, lines), width=width)
    fitting = [row for row in data if len(row) <= width] or [row[:width] for row in data]
    return TextTable(
        None if names is None else tuple(name.strip() for name in names),
        width,
        _count_above(layout),
        pl.DataFrame({"fields": fitting}, schema={"fields": pl.List(pl.String)}),
        partial(_batches, layout),
        guesses,
        delimiter=layout.delimiter.replace(_NO_DELIMITER, ""),
    )


def _find_delimiter(path: Path, sample: Sequence[str], options: IntakeSettings, synonyms: Synonyms) -> str:
    """Return the delimiter that yields known header names or, failing that, the same number of fields on most lines."""
    best, best_rank = _NO_DELIMITER, (0, _MIN_SAME_WIDTH, 1)
    for delimiter in _DELIMITERS:
        records = [record for record in _split_records(sample, delimiter) if not _is_blank(record.fields)]
        if not records:
            continue
        rows = [record.fields for record in records]
        header = find_header(path, [record.line for record in records], rows, options, synonyms)
        first = rows[min(header.data, len(rows) - 1) if header.row is None else header.row]
        if len(first) > 1:
            same_width = sum(len(row) == len(first) for row in rows) / len(rows)
            rank = int(known_names(first, synonyms) > 0), same_width, len(first)
            best, best_rank = max((best, best_rank), (delimiter, rank), key=lambda pair: pair[1])
    return best


def _surplus_name(names: Sequence[str], data: Sequence[Sequence[str]]) -> int | None:
    """Return the position of an empty name without which the header fits the data, whose lines fill that column."""
    if not data or len(names) != _usual_width(data) + 1:
        return None
    empty = [position for position, name in enumerate(names[:-1]) if not name.strip()]
    if len(empty) != 1 or not any(row[empty[0]].strip() for row in data if len(row) > empty[0]):
        return None
    return empty[0]


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0]


def _is_blank(fields: Iterable[str]) -> bool:
    return not any(cell.strip() for cell in fields)


def _count_above(layout: _Layout) -> int:
    """Count the records above the data."""
    records = _read_records(layout._replace(start=1))
    return sum(1 for _ in takewhile(lambda record: record.line < layout.start, records))


def _read_records(layout: _Layout) -> Iterator[_Record]:
    """Yield the records of a file from its line `start`."""
    records = _split_records(read_lines(layout.file), layout.delimiter)
    return (record for record in records if record.line >= layout.start)


def _split_records(lines: Iterable[str], delimiter: str) -> Iterator[_Record]:
    """Split lines into records. A line whose quotation mark stays open is a record of its own, with a flaw."""
    source, again = iter(lines), deque[str]()
    raw: list[str] = []
    is_cut = False

    def feed() -> Iterator[str]:
        nonlocal is_cut
        while len(raw) < _MAX_RECORD_LINES and sum(map(len, raw)) <= MAX_RECORD_CHARACTERS:
            line = again.popleft() if again else next(source, None)
            if line is None:
                break
            raw.append(line)
            yield line
        is_cut = True  # a record that is not complete now is an open one

    csv.field_size_limit(2 * MAX_RECORD_CHARACTERS)  # global, and 128 KiB by default
    number = 1
    while (line := again.popleft() if again else next(source, None)) is not None:
        again.appendleft(line)
        is_cut = False
        for fields in csv.reader(feed(), delimiter=delimiter):
            if is_cut or (len(raw) > 1 and _swallows(raw, delimiter)):
                first = raw[0].removesuffix("\n")
                yield _Record(number, [cell.strip('"') for cell in first.split(delimiter)], first, _OPEN_MARK)
                again.extendleft(reversed(raw[1:]))
                number += 1
            else:
                yield _Record(number, fields or [""], "".join(raw))
                number += len(raw)
            raw.clear()


def _swallows(raw: Sequence[str], delimiter: str) -> bool:
    """Tell whether a mark that was left open joined these lines: then a quoted field does not end at its closing mark.

    On one line this is harmless (`"Kroon" BV`).
    """
    try:
        deque(csv.reader(raw, delimiter=delimiter, strict=True), maxlen=0)
    except csv.Error:
        return True
    return False


def _batches(layout: _Layout, positions: Sequence[int]) -> Iterator[pl.DataFrame]:
    """Yield all lines after the header with the fields at these positions; see `firmlake.intake.table.TextTable`."""
    records = _read_records(layout)
    while batch := _take(records):
        yield _as_frame(batch, layout, positions)


def _take(records: Iterator[_Record]) -> list[_Record]:
    """Take records until they hold `_BATCH_CHARACTERS`."""
    taken, size = [], 0
    for record in records:
        taken.append(record)
        size += len(record.text)
        if size > _BATCH_CHARACTERS:
            break
    return taken


def _as_frame(records: Sequence[_Record], layout: _Layout, positions: Sequence[int]) -> pl.DataFrame:
    columns = list(islice(zip_longest(*(record.fields for record in records)), layout.width))
    missing = [None] * len(records)
    flaws = [_flaw(record, layout) for record in records]
    tails = [record.fields[-layout.width :] if _has_surplus(record, layout) else None for record in records]
    texts = [record.text.removesuffix("\n") if flaw else None for record, flaw in zip(records, flaws, strict=True)]
    return pl.DataFrame(
        {
            "line": [record.line for record in records],
            "defect": flaws,
            "text": texts,
            TAIL: tails,
            **{field(n): columns[n] if n < len(columns) else missing for n in positions},
        },
        schema={
            "line": pl.Int64,
            "defect": pl.String,
            "text": pl.String,
            TAIL: pl.List(pl.String),
            **{field(n): pl.String for n in positions},
        },
    )


def _has_surplus(record: _Record, layout: _Layout) -> bool:
    return len(record.fields) > layout.width and not (record.flaw or _is_blank(record.fields[layout.width :]))


def _flaw(record: _Record, layout: _Layout) -> str | None:
    """Return why the fields of a record are not those of its columns; None if they are."""
    width = len(record.fields)
    if record.flaw:
        return record.flaw
    if _is_blank(record.fields):
        return BLANK
    if _has_surplus(record, layout):
        return _SURPLUS.format(width, layout.width)
    if width == 1 < layout.width and layout.delimiter in record.fields[0]:
        inner = next(csv.reader([record.fields[0]], delimiter=layout.delimiter))
        if len(inner) == layout.width:
            return _WRAPPED.format(layout.width)
    return None


def _find_encoding(file: TextFile, wanted: str) -> str:
    path = file.path
    with _open(file) as stream:
        sample = stream.read(_SAMPLE_BYTES)
    marked = next((name for mark, name in _BOMS.items() if sample.startswith(mark)), "")
    encoding = marked or wanted or ("utf-8" if _is_utf8(file) else _FALLBACK)
    try:
        text = sample.decode(encoding, "replace")
    except LookupError as error:
        raise CompanyListError(
            f"encoding {encoding!r} of {path} is unknown", "Set intake.encoding to utf-8, utf-16 or cp1252"
        ) from error
    if len(_CONTROL.findall(text)) > _MAX_CONTROL_SHARE * len(text):
        utf16 = sample.count(0) > len(sample) // 3
        hint = "If it is UTF-16, set intake.encoding to utf-16-le" if utf16 else "Save the list as CSV or XLSX"
        raise CompanyListError(f"{path} is binary, not a list", hint)
    return encoding


def _blocks(file: TextFile) -> Iterator[str]:
    errors = "replace" if file.encoding == _FALLBACK else "strict"  # five bytes are undefined in Windows-1252
    try:
        with _open(file) as raw, io.TextIOWrapper(raw, file.encoding, errors) as stream:
            while block := stream.read(_BLOCK_CHARACTERS):
                yield block
    except UnicodeError as error:
        raise CompanyListError(
            f"{file.path} is not {file.encoding} throughout: it is truncated, or in another encoding",
            "Export it again, or set intake.encoding",
        ) from error


def _is_utf8(file: TextFile) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(file) as stream:
        try:
            while block := stream.read(_BLOCK_CHARACTERS):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


@contextmanager
def _open(file: TextFile) -> Iterator[BinaryIO]:
    """Open a file that may be compressed, converting errors of reading and decompression."""
    path = file.path
    try:
        with path.open("rb") as raw:
            if raw.peek(len(GZIP)).startswith(GZIP):
                inflated = _Bounded(gzip.GzipFile(fileobj=raw), file)
                yield cast(BinaryIO, io.BufferedReader(inflated, _SAMPLE_BYTES))
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CompanyListError(f"{path} is a truncated or damaged gzip file", "Copy or export it again") from error
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error


class _Bounded(io.RawIOBase):
    """Decompressed bytes, limited because a small file may inflate to any size."""

    def __init__(self, stream: gzip.GzipFile, file: TextFile) -> None:
        self._stream = stream
        self._file = file
        self._count = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes and count them."""
        count = self._stream.readinto(buffer)
        self._count += count
        if self._count > self._file.max_bytes:
            raise too_large(self._file.path, self._file.max_bytes >> 20, "MB", "intake.max_inflated_megabytes")
        return count
