"""Read text files of any encoding and compression as a table: delimited text (CSV, TSV), and NDJSON.

Quotation marks are read as the standard library's `csv` reads them. A mark that stays open would swallow the lines
below it: such a line is refused, and the lines below it are read again.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, Final, NamedTuple, cast

import msgspec
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.table import (
    BLANK,
    SAMPLE_ROWS,
    Header,
    Reading,
    Table,
    as_rows,
    count_known,
    find_header,
    too_large,
)

GZIP: Final = b"\x1f\x8b"
_MAX_RECORD_CHARACTERS: Final = 64 * 2**20
"""Longest line, or quoted field of several lines, that is read."""

_MAX_RECORD_LINES: Final = 1_000
"""Most lines of a record. More lines mean that a quotation mark was left open and swallowed them."""

_BATCH_CHARACTERS: Final = 4 * 2**20
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

_NO_OBJECT: Final = "not a JSON object: write one object on each line"
_OPEN_MARK: Final = "a quotation mark on this line is not closed: close or remove it"
_SURPLUS: Final = "number of fields: {} instead of {}; quote fields that hold the delimiter"
_WRAPPED: Final = (
    "number of fields: 1 instead of {}; the whole line is in quotation marks: split it into columns in a spreadsheet "
    "program, or export the list again"
)
"""What a spreadsheet makes of some lines of a CSV file that it opened with another delimiter and saved again."""


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _File(NamedTuple):
    """A text file and its encoding."""

    reading: Reading
    encoding: str


class _Record(NamedTuple):
    """The number of the first line of a record, its fields, its lines as one text, and its defect, see `ROWS`."""

    line: int
    fields: Sequence[Any]
    text: str
    defect: str | None = None


class _Layout(NamedTuple):
    """How to read the lines of a file; `start` is the first line with data."""

    file: _File
    delimiter: str
    start: int
    width: int


class _Lines:
    """Lines that can be pushed back to be read again."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._source, self._again = iter(lines), deque[str]()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._again.popleft() if self._again else next(self._source)

    def push(self, lines: Sequence[str]) -> None:
        self._again.extendleft(reversed(lines))


def open_text(reading: Reading) -> Table:
    """Open a text file as a table: NDJSON if it begins with `{`, else delimited text.

    Its encoding is that of its byte order mark, else `intake.encoding`, else UTF-8 if it is valid, else cp1252.

    Raises:
        CompanyListError: The encoding is unknown; the file is binary, HTML, a JSON array or blank; or, now or while its
            rows are read, it is truncated, damaged, in another encoding or larger than the settings allow.
    """
    path, file = reading.path, _File(reading, _find_encoding(reading))
    start = "".join(islice((mark for line in _read_lines(file) for mark in "".join(line.split())[:2]), 2))
    if start.startswith("{"):
        return _open_ndjson(file)
    if start.startswith("<"):
        raise CompanyListError(
            f"{path} is an HTML or XML document, whatever its name says",
            "Open it in a spreadsheet program and save it as XLSX",
        )
    if start in {"[{", "[]"}:
        raise CompanyListError(
            f"{path} is a JSON array",
            f"Write one object on each line (NDJSON): jq -c '.[]' {quote(str(path))} > list.ndjson",
        )
    return _open_delimited(file)


def _read_lines(file: _File) -> Iterator[str]:
    """Yield the lines of a file with a line feed at the end; LF, CR LF and CR end a line, and the last need not."""
    (path, options, *_), encoding = file
    errors = "replace" if encoding == _FALLBACK else "strict"  # five bytes are undefined in Windows-1252
    size = 0
    try:
        with _opened(path) as raw, io.TextIOWrapper(raw, encoding, errors) as stream:
            max_size = options.max_inflated_megabytes << 20 if isinstance(raw, gzip.GzipFile) else sys.maxsize
            for number, line in enumerate(iter(partial(stream.readline, _MAX_RECORD_CHARACTERS), ""), 1):
                size += len(line)
                if number > options.max_rows:
                    raise too_large(path, options.max_rows, "lines", "intake.max_rows")
                if size > max_size:
                    raise too_large(path, max_size >> 20, "MB", "intake.max_inflated_megabytes")
                if len(line) == _MAX_RECORD_CHARACTERS:
                    raise CompanyListError(
                        f"{path}: line {number} has more than {_MAX_RECORD_CHARACTERS:,} characters",
                        "Check that this file is a list",
                    )
                yield line if line.endswith("\n") else f"{line}\n"
    except UnicodeError as error:
        raise CompanyListError(
            f"{path} is not {encoding} throughout: it is truncated, or in another encoding",
            "Export it again, or set intake.encoding",
        ) from error


def _open_ndjson(file: _File) -> Table:
    """Open NDJSON; the columns are the keys of the first objects."""
    path, options, *_ = file.reading
    keys = dict[str, None]()
    objects = [_read_object(line) or {} for line in islice(_read_lines(file), SAMPLE_ROWS)]
    for each in objects:
        keys.update(dict.fromkeys(each))
        if len(keys) > options.max_columns:
            raise too_large(path, options.max_columns, "columns", "intake.max_columns")
    if not keys:
        raise CompanyListError(
            f"{path} looks like JSON, but none of its first lines is an object",
            "Write one object on each line (NDJSON)",
        )
    sample = pl.Series([[each.get(key) for key in keys] for each in objects], dtype=pl.List(pl.String))
    rows = partial(_rows, partial(_ndjson_records, file, tuple(keys)))
    return Table(names=tuple(keys), width=len(keys), sample=sample, rows=rows)


def _ndjson_records(file: _File, keys: Sequence[str]) -> Iterator[_Record]:
    is_cut = False
    for number, line in enumerate(_read_lines(file), 1):
        found = _read_object(line)
        defect = None if found is not None else _NO_OBJECT if line.strip() else BLANK
        if defect != BLANK:
            is_cut = defect is not None and not line.rstrip().endswith("}")
        yield _Record(number, [found.get(key) for key in keys] if found else [], line, defect)
    if is_cut:
        raise CompanyListError(
            f"{file.reading.path} is truncated: its last line is incomplete", "Copy or export it again"
        )


def _read_object(line: str) -> dict[str, str | None] | None:
    """Return the values of an object by key: text as it is, null as None, anything else as written; None if none."""
    try:
        return {key: _as_text(value) for key, value in _members.decode(line).items()}
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _as_text(value: msgspec.Raw) -> str | None:
    written = bytes(value).strip()
    if written == b"null":
        return None
    return msgspec.json.decode(written, type=str) if written.startswith(b'"') else written.decode()


def _open_delimited(file: _File) -> Table:
    path, wanted = file.reading.path, file.reading.options.delimiter
    if len(wanted) > 1 or wanted in _NO_DELIMITERS:
        raise CompanyListError(f"{wanted!r} cannot be the delimiter of {path}", "Use one of , ; | or a tab")
    lines = _sample_lines(file)
    if not lines:
        raise _blank(path)
    separator = _SEPARATOR_LINE.fullmatch(lines[0].strip())
    if separator:
        wanted, lines[0] = wanted or separator[1], "\n"
    delimiter = wanted or _find_delimiter(file.reading, lines)
    records = list(_split_records(lines, delimiter))
    filled = [record for record in records if not _is_blank(record.fields)]
    if not filled:
        raise _blank(path)
    header = _header_of(file.reading, filled)
    names, guesses = header.names, header.guesses
    data = [record.fields for record in filled[header.data :] if not record.defect]
    if names is not None and (surplus := _surplus_name(names, data)) is not None:
        names = names[:surplus] + names[surplus + 1 :]
        guesses += (f"The header has a separator too many: the empty name at position {surplus + 1} is left out",)
    width = _usual_width(data or [record.fields for record in filled]) if names is None else len(names)
    fitting = [fields for fields in data if len(fields) <= width] or [fields[:width] for fields in data]
    return Table(
        names=names,
        width=width,
        header_count=sum(record.line < header.line for record in records),
        sample=pl.Series(fitting, dtype=pl.List(pl.String)),
        rows=partial(_rows, partial(_delimited_records, _Layout(file, delimiter, header.line, width))),
        guesses=guesses,
        delimiter=delimiter.replace(_NO_DELIMITER, ""),
    )


def _sample_lines(file: _File) -> list[str]:
    """Return the first lines, blank ones included, until there are enough others."""
    lines, count = [], 0
    for line in _read_lines(file):
        lines.append(line)
        count += not line.isspace()
        if count == SAMPLE_ROWS:
            break
    return lines


def _find_delimiter(reading: Reading, lines: Sequence[str]) -> str:
    """Return the delimiter that yields known header names or, failing that, the same number of fields on most lines."""
    best, best_rank = _NO_DELIMITER, (0, _MIN_SAME_WIDTH, 1)
    for delimiter in _DELIMITERS:
        records = [record for record in _split_records(lines, delimiter) if not _is_blank(record.fields)]
        if not records:
            continue
        header = _header_of(reading, records)
        first = header.names or records[min(header.data, len(records) - 1)].fields
        if len(first) > 1:
            same_width = sum(len(record.fields) == len(first) for record in records) / len(records)
            rank = int(count_known(first, reading.synonyms) > 0), same_width, len(first)
            best, best_rank = max((best, best_rank), (delimiter, rank), key=lambda pair: pair[1])
    return best


def _header_of(reading: Reading, records: Sequence[_Record]) -> Header:
    return find_header(reading, [record.line for record in records], [record.fields for record in records])


def _surplus_name(names: Sequence[str], data: Sequence[Sequence[str]]) -> int | None:
    """Return the position of an empty name without which the header fits the data, whose lines fill that column."""
    if not data or len(names) != _usual_width(data) + 1:
        return None
    empty = [position for position, name in enumerate(names[:-1]) if not name]
    if len(empty) != 1 or not any(row[empty[0]].strip() for row in data if len(row) > empty[0]):
        return None
    return empty[0]


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0]


def _is_blank(fields: Iterable[str]) -> bool:
    return not "".join(fields).strip()


def _split_records(source: Iterable[str], delimiter: str) -> Iterator[_Record]:
    """Split lines into records. A line whose quotation mark stays open is a record of its own."""
    csv.field_size_limit(2 * _MAX_RECORD_CHARACTERS)  # global, and 128 KiB by default
    lines, number = _Lines(source), 1
    for line in lines:
        raw = [line]
        if '"' not in line:
            yield _Record(number, line.removesuffix("\n").split(delimiter), line)
        elif (fields := _read_quoted(raw, lines, delimiter)) is not None:
            yield _Record(number, fields, "".join(raw))
        else:
            lines.push(raw[1:])
            raw, first = [line], line.removesuffix("\n")
            yield _Record(number, [text.strip('"') for text in first.split(delimiter)], line, _OPEN_MARK)
        number += len(raw)


def _read_quoted(raw: list[str], lines: Iterator[str], delimiter: str) -> list[str] | None:
    """Return the fields of a record with quotation marks, and append its other lines; None if a mark stays open.

    A mark that was left open may also end at the next one, in the middle of a field. On one line this is harmless
    (`"Kroon" BV`).
    """
    is_cut = False

    def feed() -> Iterator[str]:
        nonlocal is_cut
        yield raw[0]
        size = len(raw[0])
        for line in islice(lines, _MAX_RECORD_LINES - 1):
            raw.append(line)
            size += len(line)
            yield line
            if size > _MAX_RECORD_CHARACTERS:
                break
        is_cut = True  # a record that is not complete now is an open one

    fields = next(csv.reader(feed(), delimiter=delimiter))
    if is_cut:
        return None
    if len(raw) > 1:
        try:
            deque(csv.reader(raw, delimiter=delimiter, strict=True), maxlen=0)
        except csv.Error:
            return None
    return fields


def _delimited_records(layout: _Layout) -> Iterator[_Record]:
    for record in _split_records(_read_lines(layout.file), layout.delimiter):
        if record.line >= layout.start and record.defect:
            yield record._replace(fields=record.fields[: layout.width])  # nobody knows where the others belong
        elif record.line >= layout.start:
            yield record._replace(defect=_find_defect(record, layout))


def _find_defect(record: _Record, layout: _Layout) -> str | None:
    """Return why the fields of a record are not those of its columns; None if they are."""
    fields, width = record.fields, layout.width
    if _is_blank(fields):
        return BLANK
    if not _is_blank(fields[width:]):
        return _SURPLUS.format(len(fields), width)
    if len(fields) == 1 < width and layout.delimiter in fields[0]:
        inner = next(csv.reader(fields, delimiter=layout.delimiter))
        if len(inner) == width:
            return _WRAPPED.format(width)
    return None


def _rows(read: Callable[[], Iterator[_Record]], _positions: Collection[int] | None = None) -> Iterator[pl.DataFrame]:
    """Yield records as frames, each of about `_BATCH_CHARACTERS`."""
    taken, size = list[_Record](), 0
    for record in chain(read(), [None]):
        if record is not None:
            taken.append(record)
            size += len(record.text)
        if taken and (record is None or size > _BATCH_CHARACTERS):
            lines, fields, texts, defects = zip(*taken, strict=True)
            yield as_rows(lines, fields, defects=defects, texts=[text.removesuffix("\n") for text in texts])
            taken, size = [], 0


def _blank(path: Path) -> CompanyListError:
    return CompanyListError(f"{path} is empty: it has only blank lines", "Export the list again")


def _find_encoding(reading: Reading) -> str:
    path, options, *_ = reading
    with _opened(path) as stream:
        sample = stream.read(_SAMPLE_BYTES)
    marked = next((name for mark, name in _BOMS.items() if sample.startswith(mark)), "")
    encoding = marked or options.encoding or ("utf-8" if _is_utf8(reading) else _FALLBACK)
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


def _is_utf8(reading: Reading) -> bool:
    try:
        deque(_read_lines(_File(reading, "utf-8")), maxlen=0)
    except CompanyListError as error:
        if isinstance(error.__cause__, UnicodeError):
            return False
        raise
    return True


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that may be compressed, converting errors of reading and decompression."""
    try:
        with path.open("rb") as raw:
            is_compressed = raw.peek(len(GZIP)).startswith(GZIP)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_compressed else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CompanyListError(f"{path} is a truncated or damaged gzip file", "Copy or export it again") from error
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error
