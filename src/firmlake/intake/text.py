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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import BinaryIO, Final, cast

import msgspec
import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.refusals import TooLargeError, refusal
from firmlake.intake.table import (
    BLANK,
    SAMPLE_ROWS,
    Reading,
    Record,
    Table,
    as_batches,
    count_known,
    find_header,
)

GZIP: Final = b"\x1f\x8b"
_MAX_RECORD_CHARACTERS: Final = 64 * 2**20
"""Longest line, or quoted field of several lines, that is read."""

_MAX_RECORD_LINES: Final = 1_000
"""Most lines of a record. More lines mean that a quotation mark was left open and swallowed them."""

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


def open_text(reading: Reading) -> Table:
    """Open a text file as a table: NDJSON if it begins with `{`, else delimited text.

    Its encoding is that of its byte order mark, else `intake.encoding`, else UTF-8 if it is valid, else cp1252. Raises
    CompanyListError now, or while rows are read.
    """
    reading, path = _with_encoding(reading, _find_encoding(reading)), reading.path
    start = "".join(islice((mark for line in _read_lines(reading) for mark in "".join(line.split())[:2]), 2))
    if start.startswith("{"):
        return _open_ndjson(reading)
    if start.startswith("<"):
        raise refusal("html", path=path)
    if start in {"[{", "[]"}:
        raise refusal("json_array", path=path, quoted=quote(str(path)))
    return _open_delimited(reading)


def _read_lines(reading: Reading) -> Iterator[str]:
    """Yield the lines of a file with a line feed at the end; LF, CR LF and CR end a line, and the last need not."""
    path, options, *_ = reading
    encoding = options.encoding
    errors = "replace" if encoding == _FALLBACK else "strict"  # five bytes are undefined in Windows-1252
    size = 0
    try:
        with _opened(path) as raw, io.TextIOWrapper(raw, encoding, errors) as stream:
            max_size = options.max_inflated_megabytes << 20 if isinstance(raw, gzip.GzipFile) else sys.maxsize
            for number, line in enumerate(iter(partial(stream.readline, _MAX_RECORD_CHARACTERS), ""), 1):
                size += len(line)
                if number > options.max_rows:
                    raise refusal("max_rows", TooLargeError, path=path, limit=options.max_rows)
                if size > max_size:
                    raise refusal("max_inflated_megabytes", TooLargeError, path=path, limit=max_size >> 20)
                if len(line) == _MAX_RECORD_CHARACTERS:
                    raise refusal("long_line", path=path, number=number, most=_MAX_RECORD_CHARACTERS)
                yield line if line.endswith("\n") else f"{line}\n"
    except UnicodeError as error:
        raise refusal("other_encoding", path=path, encoding=encoding) from error


def _open_ndjson(reading: Reading) -> Table:
    """Open NDJSON; the columns are the keys of the first objects."""
    path, options, *_ = reading
    keys = dict[str, None]()
    objects = [_read_object(line) or {} for line in islice(_read_lines(reading), SAMPLE_ROWS)]
    for each in objects:
        keys.update(dict.fromkeys(each))
        if len(keys) > options.max_columns:
            raise refusal("max_columns", TooLargeError, path=path, limit=options.max_columns)
    if not keys:
        raise refusal("no_objects", path=path)
    sample = pl.Series([[each.get(key) for key in keys] for each in objects], dtype=pl.List(pl.String))
    names = tuple(keys)
    return Table(
        names=names,
        width=len(names),
        sample=sample,
        rows=lambda _positions: as_batches(_ndjson_records(reading, names)),
    )


def _ndjson_records(reading: Reading, keys: Sequence[str]) -> Iterator[Record]:
    is_cut = False
    for number, line in enumerate(_read_lines(reading), 1):
        found = _read_object(line)
        defect = None if found is not None else _NO_OBJECT if line.strip() else BLANK
        if defect != BLANK:
            is_cut = defect is not None and not line.rstrip().endswith("}")
        yield Record(number, [found.get(key) for key in keys] if found else [], line, defect)
    if is_cut:
        raise refusal("truncated_lines", path=reading.path)


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


def _open_delimited(reading: Reading) -> Table:
    path, wanted = reading.path, reading.options.delimiter
    if len(wanted) > 1 or wanted in _NO_DELIMITERS:
        raise refusal("bad_delimiter", wanted=wanted, path=path)
    lines = _sample_lines(reading) or ["\n"]
    if separator := _SEPARATOR_LINE.fullmatch(lines[0].strip()):
        wanted, lines[0] = wanted or separator[1], "\n"
    delimiter = wanted or _find_delimiter(reading, lines)
    records = list(_split_records(lines, delimiter))
    filled = [record for record in records if not _is_blank(record.cells)]
    if not filled:
        raise refusal("blank", path=path)
    header = find_header(reading, filled)
    names, guesses = header.names, header.guesses
    data = [record.cells for record in filled[header.data :] if not record.defect]
    if names is not None and (surplus := _surplus_name(names, data)) is not None:
        names = names[:surplus] + names[surplus + 1 :]
        guesses += (f"The header has a separator too many: the empty name at position {surplus + 1} is left out",)
    width = _usual_width(data or [record.cells for record in filled]) if names is None else len(names)
    fitting = [fields for fields in data if len(fields) <= width] or [fields[:width] for fields in data]
    return Table(
        names=names,
        width=width,
        header_count=sum(record.line < header.line for record in records),
        sample=pl.Series(fitting, dtype=pl.List(pl.String)),
        rows=lambda _positions: as_batches(_delimited_records(reading, delimiter, header.line, width)),
        guesses=guesses,
        delimiter=delimiter.replace(_NO_DELIMITER, ""),
    )


def _sample_lines(reading: Reading) -> list[str]:
    """Return the first lines, blank ones included, until there are enough others."""
    lines, count = [], 0
    for line in _read_lines(reading):
        lines.append(line)
        count += not line.isspace()
        if count == SAMPLE_ROWS:
            break
    return lines


def _find_delimiter(reading: Reading, lines: Sequence[str]) -> str:
    """Return the delimiter that yields known header names or, failing that, the same number of fields on most lines."""
    best, best_rank = _NO_DELIMITER, (0, _MIN_SAME_WIDTH, 1)
    for delimiter in _DELIMITERS:
        records = [record for record in _split_records(lines, delimiter) if not _is_blank(record.cells)]
        if not records:
            continue
        header = find_header(reading, records)
        first = header.names or records[min(header.data, len(records) - 1)].cells
        if len(first) > 1:
            same_width = sum(len(record.cells) == len(first) for record in records) / len(records)
            rank = int(count_known(first, reading.synonyms) > 0), same_width, len(first)
            best, best_rank = max((best, best_rank), (delimiter, rank), key=lambda pair: pair[1])
    return best


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


def _split_records(source: Iterable[str], delimiter: str) -> Iterator[Record]:
    """Split lines into records. A line whose quotation mark stays open is a record of its own."""
    csv.field_size_limit(2 * _MAX_RECORD_CHARACTERS)  # global, and 128 KiB by default
    lines, again, number = iter(source), deque[str](), 1

    def following() -> str:
        return again.popleft() if again else next(lines, "")

    while line := following():
        raw = [line]
        if '"' not in line:
            yield Record(number, line.removesuffix("\n").split(delimiter), line)
        elif (fields := _read_quoted(raw, iter(following, ""), delimiter)) is not None:
            yield Record(number, fields, "".join(raw))
        else:
            again.extendleft(reversed(raw[1:]))
            raw, fields = [line], line.removesuffix("\n").split(delimiter)
            yield Record(number, [text.strip('"') for text in fields], line, _OPEN_MARK)
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


def _delimited_records(reading: Reading, delimiter: str, start: int, width: int) -> Iterator[Record]:
    """Yield the records from the first line of data on."""
    for line, cells, text, defect, _ in _split_records(_read_lines(reading), delimiter):
        if line >= start and defect:
            yield Record(line, cells[:width], text, defect)  # nobody knows where the others belong
        elif line >= start:
            yield Record(line, cells, text, _find_defect(cells, delimiter, width))


def _find_defect(fields: Sequence[str], delimiter: str, width: int) -> str | None:
    """Return why the fields of a record are not those of its columns; None if they are."""
    if _is_blank(fields):
        return BLANK
    if not _is_blank(fields[width:]):
        return _SURPLUS.format(len(fields), width)
    if len(fields) == 1 < width and delimiter in fields[0]:
        inner = next(csv.reader(fields[0].splitlines(keepends=True), delimiter=delimiter))
        return _WRAPPED.format(width) if len(inner) == width else None
    return None


def _find_encoding(reading: Reading) -> str:
    path, options, *_ = reading
    with _opened(path) as stream:
        sample = stream.read(_SAMPLE_BYTES)
    marked = next((name for mark, name in _BOMS.items() if sample.startswith(mark)), "")
    encoding = marked or options.encoding or ("utf-8" if _is_utf8(reading) else _FALLBACK)
    try:
        text = sample.decode(encoding, "replace")
    except LookupError as error:
        raise refusal("unknown_encoding", encoding=encoding, path=path) from error
    if len(_CONTROL.findall(text)) > _MAX_CONTROL_SHARE * len(text):
        raise refusal("utf_16" if sample.count(0) > len(sample) // 3 else "binary", path=path)
    return encoding


def _with_encoding(reading: Reading, encoding: str) -> Reading:
    return reading._replace(options=msgspec.structs.replace(reading.options, encoding=encoding))


def _is_utf8(reading: Reading) -> bool:
    try:
        deque(_read_lines(_with_encoding(reading, "utf-8")), maxlen=0)
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
        raise refusal("damaged_gzip", path=path) from error
    except OSError as error:
        raise refusal("unreadable", path=path, problem=error.strerror) from error
