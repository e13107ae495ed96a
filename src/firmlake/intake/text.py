"""Text files as numbered lines, whatever their encoding, line ends and compression."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import polars as pl

from firmlake.core.errors import CompanyListError
from firmlake.intake.formats import GZIP

__all__ = ["MAX_LINE_CHARACTERS", "beginning", "find_encoding", "line_blocks"]

MAX_LINE_CHARACTERS: Final = 64 * 2**20
"""The longest line, or quoted field of several lines, that is taken into memory."""

_BLOCK_CHARACTERS: Final = 2 * 2**20
_SAMPLE_BYTES: Final = 2**16
_BOMS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FALLBACK: Final = "cp1252"
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
_MAX_CONTROL_SHARE: Final = 0.05
"""Of random bytes 13 % are control characters; text has none, or some NULs from a broken export."""


def find_encoding(path: Path, wanted: str = "") -> str:
    """Give the encoding of a text file: of its byte order mark, else as wanted, else UTF-8 if it is, else cp1252.

    Raises:
        CompanyListError: The encoding is unknown to Python, or the file is binary; name the encoding or another file.
    """
    with _open(path) as file:
        sample = file.read(_SAMPLE_BYTES)
    marked = next((name for mark, name in _BOMS.items() if sample.startswith(mark)), "")
    encoding = marked or wanted or ("utf-8" if _is_utf8(path) else _FALLBACK)
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


def beginning(path: Path, encoding: str) -> str:
    """Give the first characters, without white space, from which the kind of text can be told.

    Raises:
        CompanyListError: There is none: the file has only blank lines, or nothing behind its byte order mark.
    """
    for block in _blocks(path, encoding):
        if start := block.lstrip()[:_SAMPLE_BYTES]:
            return "".join(start.split())[:2]
    raise CompanyListError(f"{path} is empty: it has only blank lines", "Export the list again")


def line_blocks(path: Path, encoding: str) -> Iterator[pl.DataFrame]:
    """Give the lines of a text file, block by block.

    LF, CR LF and CR end a line. The last line needs no end.

    Args:
        path: The file, plain or compressed with gzip.
        encoding: As `find_encoding` gives it.

    Yields:
        One row for each line, in file order: `line` (from 1) and `text` without line end.

    Raises:
        CompanyListError: The file is cut or damaged, does not have this encoding, or has a line that is too long.
    """
    first, begun = 1, ""
    for block in _blocks(path, encoding):
        whole, end, rest = (begun + block).rpartition("\n")
        begun = rest
        if len(begun) > MAX_LINE_CHARACTERS:
            raise CompanyListError(
                f"{path}: line {first + block.count(chr(10))} has more than {MAX_LINE_CHARACTERS:,} characters",
                "Look whether this file is a list",
            )
        if end:
            lines = _lines(whole + end, first)
            yield lines
            first += lines.height
    if begun:
        yield _lines(begun, first)


def _lines(text: str, first: int) -> pl.DataFrame:
    lines = pl.read_lines(
        io.BytesIO(text.encode(errors="replace")), name="text", row_index_name="line", row_index_offset=first
    )
    return lines.with_columns(pl.col("line").cast(pl.Int64)).rechunk()


def _blocks(path: Path, encoding: str) -> Iterator[str]:
    errors = "replace" if encoding == _FALLBACK else "strict"  # five bytes mean nothing in Windows-1252
    try:
        with _open(path) as file, io.TextIOWrapper(file, encoding, errors) as stream:
            while block := stream.read(_BLOCK_CHARACTERS):
                yield block
    except UnicodeError as error:
        raise CompanyListError(
            f"{path} is not {encoding} all through: cut, or in another encoding",
            "Export it again or set intake.encoding",
        ) from error


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as file:
        try:
            while block := file.read(_BLOCK_CHARACTERS):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Open a file that may be compressed; whatever is wrong with its compression is said in our words."""
    try:
        with path.open("rb") as file:
            compressed = file.peek(len(GZIP)).startswith(GZIP)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CompanyListError(f"{path} is a gzip file that was cut or damaged", "Copy or export it again") from error
    except OSError as error:
        raise CompanyListError(
            f"{path} cannot be read: {error.strerror}", "Check the path and its permissions"
        ) from error
