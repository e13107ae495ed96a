"""Prove that no file names a forgotten subject: search every byte, also after decompression, and write a receipt."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import polars as pl

from firmlake import __version__
from firmlake.core.errors import FirmlakeError
from firmlake.core.files import is_writable, write_json
from firmlake.core.folders import Folders
from firmlake.core.zstd import ZstdError
from firmlake.forget.documents import list_addresses
from firmlake.forget.generations import find_in_generation
from firmlake.forget.landed import clean_segment
from firmlake.forget.packed import PARQUET, decode_line, pieces
from firmlake.forget.place import Place, count_changed
from firmlake.forget.reach import Copies
from firmlake.privacy.cleaning import clean_json, clean_record
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["Receipt", "prove"]

_READABLE_START, _READABLE_END = re.compile(rb"\A[\t -~\x80-\xff]*"), re.compile(rb"[\t -~\x80-\xff]*\Z")
_AROUND = 400
"""Bytes around a word in which to look for the rest of the name."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search of the data folder and its recorded copies.

    Attributes:
        byte_count: Bytes read from disk.
        content_byte_count: Bytes searched, after decompression.
        tombstones: The mark of each tombstone, and when its subject was forgotten.
        found: Files that name a forgotten subject; empty if no file does. A file with the address of a copy has the
            kind "address".
        unread: Files that could not be read in their format, with the reason.
        copies: The archives, exports and loaded databases that were searched.
        not_searched: Places that firmlake cannot search.
        seal: Keyed hash of all other fields. With the key, anybody can check that the receipt was not edited.
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
    copies: tuple[str, ...] = ()
    not_searched: tuple[str, ...] = ()
    seal: str = ""


def prove(
    folders: Folders, forgotten: Forgotten, now: datetime, copies: Copies | None = None
) -> tuple[Receipt, Path | None]:
    """Search every file of a data folder and the copies recorded there, and write a receipt into `state/receipts`.

    Args:
        folders: The data folder.
        forgotten: The forgotten subjects.
        now: UTC.
        copies: The archives, exports and loaded databases; None searches the data folder alone.

    Returns:
        The receipt and its file; None if the folder cannot be written to.
    """
    found: list[Place] = []
    unread: list[tuple[str, str]] = []
    files = byte_count = content_count = 0
    addresses = list_addresses(folders)
    for path in sorted(path for path in folders.data.rglob("*") if path.is_file() and not path.is_symlink()):
        content = path.read_bytes()
        files, byte_count = files + 1, byte_count + len(content)
        places: list[Place] = []
        try:
            places += _look_into(path, content, forgotten)
            for piece in pieces(content):
                content_count += len(piece)
                if hits := _search(piece, forgotten):
                    places.append(Place(path, "bytes", hits))
        except (FirmlakeError, pl.exceptions.PolarsError, ZstdError, OSError, zipfile.BadZipFile) as error:
            unread.append((str(path), str(error)))
        found += [place._replace(what="address") for place in places[:1]] if path in addresses else places
    if copies:
        found += copies.clean(write=False)
        unread += copies.failed.items()
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
        copies=tuple(copies.names()) if copies else (),
        not_searched=tuple(copies.out_of_reach()) if copies else (),
    )
    # Paths and addresses may name forgotten subjects, but the receipt is kept forever.
    receipt = msgspec.json.decode(clean_record(msgspec.json.encode(receipt), forgotten), type=Receipt)
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
    elif content[:4] == PARQUET:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        if count := count_changed(frame, clean_frame(frame, forgotten)):
            yield Place(path, "rows", count)
    elif path.suffix == ".json":
        if clean_json(content, forgotten) != content:
            yield Place(path, "values", 1)
    elif b"\0" not in content:
        is_list = path.parent.name == "lists" or "inputs" in path.parts
        lines = [decode_line(line)[0] for line in content.splitlines()]
        if count := sum(forgotten.clean(line, has_contacts=is_list) != line for line in lines):
            yield Place(path, "lines", count)


def _search(content: bytes, forgotten: Forgotten) -> int:
    """Count the places where readable bytes hold a forgotten name of several words, in any encoding."""
    spelled = forgotten.spelled_in(content, shortest=2)
    if not spelled:
        return 0
    spans: set[tuple[int, int]] = set()
    longest_first = b"|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
    for found in re.finditer(longest_first, content):
        before = content[max(0, found.start() - _AROUND) : found.start()]
        after = content[found.end() : found.end() + _AROUND]
        start = found.start() - len(_READABLE_END.search(before)[0])  # type: ignore[index]
        end = found.end() + len(_READABLE_START.search(after)[0])  # type: ignore[index]
        if (start, end) not in spans and forgotten.name_spans(content[start:end].decode("utf-8", "ignore")):
            spans.add((start, end))
    return len(spans)
