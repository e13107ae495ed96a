"""Prove that no file names a forgotten subject: search every byte, also decompressed, and write a receipt."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
import zstandard

from firmlake import __version__
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import is_writable, write_json
from firmlake.core.folders import Folders
from firmlake.forget.generations import find_in_generation
from firmlake.forget.landed import clean_segment
from firmlake.forget.place import Place, count_changed
from firmlake.privacy.cleaning import clean_json
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["Receipt", "prove"]

_READABLE_START, _READABLE_END = re.compile(rb"\A[\t -~\x80-\xff]*"), re.compile(rb"[\t -~\x80-\xff]*\Z")
_AROUND = 400
"""Bytes around a word in which the rest of the name is looked for."""
_GZIP, _ZSTD, _ZIP, _PARQUET = b"\x1f\x8b", (b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), b"PK\x03\x04", b"PAR1"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search of the data folder.

    Attributes:
        byte_count: Bytes read from disk.
        content_byte_count: Bytes searched, after decompression.
        tombstones: The mark of each tombstone, and when its subject was forgotten.
        found: Files that name a forgotten subject. Empty if no file does.
        unread: Files that could not be read in their format, with the reason.
        seal: Keyed hash of all of the above. With the key, one can check that the receipt was not edited.
    """

    proved_at: datetime
    firmlake_version: str
    data: str
    file_count: int
    byte_count: int
    content_byte_count: int
    tombstones: dict[str, datetime]
    found: tuple[tuple[str, str, int], ...]
    unread: tuple[tuple[str, str], ...] = ()
    seal: str = ""


class _Piece(NamedTuple):
    """Content of a file, as it is or decompressed."""

    content: bytes
    is_packed: bool


def prove(folders: Folders, forgotten: Forgotten, now: datetime) -> tuple[Receipt, Path | None]:
    """Search every file of a data folder, and write a receipt into `state/receipts`.

    Returns:
        The receipt and its file; None if the folder cannot be written to.
    """
    found: list[Place] = []
    unread: list[tuple[str, str]] = []
    files = byte_count = content_count = 0
    for path in sorted(path for path in folders.data.rglob("*") if path.is_file() and not path.is_symlink()):
        content = path.read_bytes()
        files, byte_count = files + 1, byte_count + len(content)
        try:
            found += _look_into(path, content, forgotten)
            for piece in _pieces(content):
                content_count += len(piece.content)
                if hits := _search(piece, forgotten):
                    found.append(Place(path, "bytes", hits))
        except (FirmlakeError, pl.exceptions.PolarsError, zstandard.ZstdError, OSError, zipfile.BadZipFile) as error:
            unread.append((str(path), str(error)))
    receipt = Receipt(
        proved_at=now,
        firmlake_version=__version__,
        data=str(folders.data.absolute()),
        file_count=files,
        byte_count=byte_count,
        content_byte_count=content_count,
        tombstones={one.mark: one.forgotten_at for one in forgotten.register.tombstones},
        found=tuple((str(place.path), place.what, place.row_count) for place in found),
        unread=tuple(unread),
    )
    receipt = msgspec.structs.replace(receipt, seal=forgotten.keyed(msgspec.json.encode(receipt).decode()))
    path = folders.state / "receipts" / f"{now:%Y%m%dT%H%M%SZ}.json"
    if not is_writable(folders.state):
        return receipt, None
    write_json(path, receipt)
    return receipt, path


# ---------------------------------------------------------------------------------------------------------------------


def _look_into(path: Path, content: bytes, forgotten: Forgotten) -> Iterator[Place]:
    """Search a file in its own format, which also finds contacts and persons forgotten for one company only."""
    if path.suffix == ".zst" and "landing" in path.parts:
        if count := clean_segment(path, forgotten)[1]:
            yield Place(path, "answers", count)
    elif path.suffix == ".duckdb":
        yield from find_in_generation(path, forgotten)
    elif content[:4] == _PARQUET:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        if count := count_changed(frame, clean_frame(frame, forgotten)):
            yield Place(path, "rows", count)
    elif path.suffix == ".json":
        if clean_json(content, forgotten) != content:
            yield Place(path, "values", 1)
    elif b"\0" not in content:
        is_list = path.parent.name == "lists" or "inputs" in path.parts
        lines = content.decode("utf-8", "surrogateescape").splitlines()
        if count := sum(forgotten.clean(line, has_contacts=is_list) != line for line in lines):
            yield Place(path, "lines", count)


def _pieces(content: bytes) -> Iterator[_Piece]:
    """Yield the bytes of a file, and the unpacked bytes of its compressed parts."""
    is_packed = content[:4] in _ZSTD or content[:2] == _GZIP or content[:4] in (_ZIP, _PARQUET)
    yield _Piece(content, is_packed)
    if content[:4] in _ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
        yield _Piece(reader.read(), False)
    elif content[:2] == _GZIP:
        yield _Piece(gzip.decompress(content), False)
    elif content[:4] == _ZIP:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for name in packed.namelist():
                yield _Piece(packed.read(name), False)
    elif content[:4] == _PARQUET:
        frame = pl.read_parquet(io.BytesIO(content))
        for column in frame.select(pl.col(pl.String)).iter_columns():
            yield _Piece("\n".join(column.drop_nulls().unique().to_list()).encode(), False)


def _search(piece: _Piece, forgotten: Forgotten) -> int:
    """Count the places where readable bytes hold a forgotten name of several words, in any encoding."""
    spelled = forgotten.spelled_in(piece.content)
    if not spelled:
        return 0
    spans: set[tuple[int, int]] = set()
    longest_first = b"|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
    for found in re.finditer(longest_first, piece.content):
        before = piece.content[max(0, found.start() - _AROUND) : found.start()]
        after = piece.content[found.end() : found.end() + _AROUND]
        start = found.start() - len(_READABLE_END.search(before)[0])  # type: ignore[index]
        end = found.end() + len(_READABLE_START.search(after)[0])  # type: ignore[index]
        if (start, end) not in spans and forgotten.name_spans(piece.content[start:end].decode("utf-8", "ignore")):
            spans.add((start, end))
    return len(spans)
