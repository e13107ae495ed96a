"""Read text files of any encoding, line ending and compression as numbered lines."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.detect import GZIP, too_large

__all__ = ["MAX_LINE_CHARACTERS", "TextFile", "beginning", "line_blocks", "open_text"]

MAX_LINE_CHARACTERS: Final = 64 * 2**20
"""Longest line, or quoted field of several lines, that is read."""

_BLOCK_CHARACTERS: Final = 2 * 2**20
_SAMPLE_BYTES: Final = 2**16
_BOMS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FALLBACK: Final = "cp1252"
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
_MAX_CONTROL_SHARE: Final = 0.05
"""Random bytes contain 13 % control characters; text contains none, or a few NULs from a broken export."""


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


def open_text(path: Path, options: IntakeSettings) -> TextFile:
    """Detect the encoding of a text file: byte order mark, then `intake.encoding`, then UTF-8 if valid, then cp1252.

    Raises:
        CompanyListError: The encoding is unknown, or the file is binary. Name the encoding or another file.
    """
    file = TextFile(path, "", options.max_rows, options.max_inflated_megabytes * 2**20)
    return file._replace(encoding=_find_encoding(file, options.encoding))


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


def beginning(file: TextFile) -> str:
    """Return the first two characters other than white space, which reveal the kind of text.

    Raises:
        CompanyListError: The file has only blank lines.
    """
    for block in _blocks(file):
        if start := block.lstrip()[:_SAMPLE_BYTES]:
            return "".join(start.split())[:2]
    raise CompanyListError(f"{file.path} is empty: it has only blank lines", "Export the list again")


def line_blocks(file: TextFile) -> Iterator[pl.DataFrame]:
    """Yield the lines of a text file, block by block.

    LF, CR LF and CR end a line. The last line needs no line end.

    Yields:
        One row per line, in file order: `line` (from 1) and `text` without line end.

    Raises:
        CompanyListError: The file is truncated, damaged, in another encoding or larger than the settings allow, or a
            line is too long.
    """
    first, begun = 1, ""
    for block, is_last in _with_last(_blocks(file)):
        # The end of the file ends its last line, so that line belongs to the same block as the lines before it.
        whole, end, begun = (begun + block, "\n", "") if is_last else (begun + block).rpartition("\n")
        if len(begun) > MAX_LINE_CHARACTERS:
            raise CompanyListError(
                f"{file.path}: line {first + block.count(chr(10))} has more than {MAX_LINE_CHARACTERS:,} characters",
                "Check that this file is a list",
            )
        if end:
            lines = _lines(whole if is_last else whole + end, first)
            first += lines.height
            if first - 1 > file.max_lines:
                raise too_large(file.path, file.max_lines, "lines", "intake.max_rows")
            yield lines


def _with_last(blocks: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """Yield each block, and whether it is the last."""
    held = next(blocks, None)
    while held is not None:
        following = next(blocks, None)
        yield held, following is None
        held = following


def _lines(text: str, first: int) -> pl.DataFrame:
    lines = pl.read_lines(
        io.BytesIO(text.encode(errors="replace")), name="text", row_index_name="line", row_index_offset=first
    )
    return lines.with_columns(pl.col("line").cast(pl.Int64)).rechunk()


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
