"""Unpack the files that firmlake or its users may have written, as far as possible."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Iterator

import polars as pl

from firmlake.core.zstd import decompress_frames
from firmlake.privacy.forgotten import Forgotten

__all__ = ["PARQUET", "decode_line", "may_name", "pieces"]

PARQUET = b"PAR1"
_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", (b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), b"PK\x03\x04"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CELL = re.compile(r"[^<>\r\n\t;,|\"]+")


def pieces(content: bytes) -> Iterator[bytes]:
    """Yield the bytes of a file, and the unpacked bytes of its compressed parts.

    Raises:
        OSError, zipfile.BadZipFile, ZstdError, pl.exceptions.PolarsError: The bytes are damaged.
    """
    yield content
    if content[:4] in _ZSTD:
        yield decompress_frames(content)
    elif content[:2] == _GZIP:
        yield from pieces(gzip.decompress(content))
    elif content[:4] == _ZIP:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for name in packed.namelist():
                yield from pieces(packed.read(name))
    elif content[:4] == PARQUET:
        frame = pl.read_parquet(io.BytesIO(content))
        for column in frame.select(pl.col(pl.String)).iter_columns():
            yield "\n".join(column.drop_nulls().unique().to_list()).encode()
    elif content[:2] in _UTF16:
        yield content.decode("utf-16", "replace").encode()
    elif b"\0" not in content:
        decoded = [decode_line(line) for line in content.splitlines(keepends=True)]
        if any(encoding != "utf-8" for _, encoding in decoded):
            yield "".join(text for text, _ in decoded).encode("utf-8", "replace")


def decode_line(line: bytes) -> tuple[str, str]:
    """Decode a line of a text as the intake does: UTF-8 if it is valid, else Windows-1252.

    Returns:
        The text, and its encoding. With `surrogateescape` the encoding gives the same bytes back.
    """
    try:
        return line.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return line.decode("cp1252", "surrogateescape"), "cp1252"


def may_name(content: bytes, forgotten: Forgotten) -> bool:
    """Return whether a list in a binary format may name a forgotten subject; False means that it certainly does not.

    A list in a format that cannot be unpacked, such as an old workbook, always may.
    """
    if content[:4] not in (_ZIP, PARQUET, *_ZSTD) and content[:2] not in (_GZIP, *_UTF16):
        return True
    if content[:4] == PARQUET:
        frame = pl.read_parquet(io.BytesIO(content))
        texts = [pl.Series(column.cast(pl.String, strict=False)) for column in frame.iter_columns()]
        found = ["\n".join(text.drop_nulls().unique().to_list()).encode() for text in texts]
    else:
        found = list(pieces(content))[1:]
    if forgotten.spelled_in(b"\n".join(found), shortest=2):
        return True
    cells = {cell.strip() for piece in found for cell in _CELL.findall(piece.decode("utf-8", "replace"))}
    return any(forgotten.clean(cell, has_contacts=True) != cell for cell in cells)
