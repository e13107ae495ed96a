"""What the bytes of a file say, unpacked as far as anybody can."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterator

import polars as pl

from firmlake.core.files import decompress_frames
from firmlake.privacy.forgotten import Forgotten

PARQUET = b"PAR1"
_CELL = re.compile(r"[^<>\r\n\t;,|\"]+")


def unpack(content: bytes) -> Iterator[bytes]:
    """Yield everything that the bytes of a file say.

    Raises:
        OSError, zipfile.BadZipFile, ZstdError, pl.exceptions.PolarsError: The bytes are damaged.
    """
    for start, unpack_packed in _PACKED.items():
        if content.startswith(start):
            yield from unpack_packed(content)
            return
    yield content
    lines = [] if b"\0" in content else [decode_line(line) for line in content.splitlines(keepends=True)]
    if any(encoding != "utf-8" for _, encoding in lines):
        yield "".join(text for text, _ in lines).encode("utf-8", "replace")


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
    pieces = list(unpack(content)) if content.startswith(tuple(_PACKED)) else []
    cells = {cell.strip() for piece in pieces for cell in _CELL.findall(piece.decode("utf-8", "replace"))}
    return (
        not pieces
        or bool(forgotten.spelled_in(b"\n".join(pieces), shortest=2))
        or any(forgotten.clean(cell, has_contacts=True) != cell for cell in cells)
    )


def _unzip(content: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            yield name.encode()
            yield from unpack(packed.read(name))


def _read_parquet(content: bytes) -> Iterator[bytes]:
    yield content[-8 - int.from_bytes(content[-8:-4], "little") :]  # the metadata
    for column in pl.read_parquet(io.BytesIO(content)).iter_columns():
        if column.dtype == pl.String or column.dtype.is_integer():
            yield "\n".join(column.drop_nulls().unique().cast(pl.String)).encode()


_PACKED: dict[bytes, Callable[[bytes], Iterator[bytes]]] = {
    PARQUET: _read_parquet,
    b"PK\x03\x04": _unzip,
    b"\x1f\x8b": lambda content: unpack(gzip.decompress(content)),
    **dict.fromkeys((b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), lambda content: iter([decompress_frames(content)])),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), lambda content: iter([content.decode("utf-16", "replace").encode()])),
}
"""How files are unpacked that begin with these bytes: Parquet, zip, gzip, zstd and UTF-16."""
