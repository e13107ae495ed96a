"""Search files for forgotten subjects, in their own format and in every byte, and write a receipt of what was found."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import msgspec
import polars as pl

from firmlake import __version__
from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import is_writable, write_json
from firmlake.core.folders import Folders
from firmlake.core.zstd import ZstdError, decompress_frames
from firmlake.landing.segments import read_segment
from firmlake.privacy.cleaning import clean_frame, clean_json, clean_record, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.warehouse.generations import connect_to

if TYPE_CHECKING:
    from firmlake.forget.copies import Copies

_GZIP, _ZSTD, _ZIP, _PARQUET = b"\x1f\x8b", (b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), b"PK\x03\x04", b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
UNREADABLE = (FirmlakeError, pl.exceptions.PolarsError, ZstdError, OSError, zipfile.BadZipFile)
_OURS = (
    "landing/**/*", "lists/*", "logs/**/*", "plans/*", "staged/**/*", "state/**/*", "warehouse/*.duckdb", "*.log",
    "*.jsonl", "*.prom",
)  # fmt: skip
_CELL = re.compile(r"[^<>\r\n\t;,|\"]+")
_COUNTRY = re.compile(r"\bcountry=([A-Z]{2})/")
_READABLE_START, _READABLE_END = re.compile(rb"\A[\t -~\x80-\xff]*"), re.compile(rb"[\t -~\x80-\xff]*\Z")
_BYTES_AROUND = 400
"""Bytes around a word in which to look for the rest of the name."""
_ROWS = 100_000
_TABLES = """
    SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal AND NOT temporary ORDER BY ALL
"""
_TEXT_COLUMNS = """
    SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main'
    AND data_type IN ('VARCHAR', 'JSON')
"""


class Place(NamedTuple):
    """A part of a file or object that names a forgotten subject.

    Attributes:
        what: "answers", "list", "plan", "staged", a table, ...
        row_count: The number of records, rows or lines that name a forgotten subject; 1 if they were not counted.
    """

    path: Path | str
    what: str
    row_count: int


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
    for path in _list_files(folders, ("**/*",)):
        content = path.read_bytes()
        files, byte_count = files + 1, byte_count + len(content)
        try:
            places, searched_count = search(path, content, forgotten)
            content_count += searched_count
            found += [place._replace(what="address") for place in places[:1]] if path in addresses else places
        except UNREADABLE as error:
            unread.append((str(path), str(error)))
    if copies:
        found += copies.find()
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


def list_addresses(folders: Folders) -> set[Path]:
    """List the files with the addresses of copies. They are not cleaned: a cleaned address would lead nowhere."""
    return {path for pattern in ("archives.json", "exports/*.json") for path in folders.state.glob(pattern)}


def find_places(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Yield every place that `firmlake forget` would clean or derive again: what firmlake wrote, by its formats."""
    for path in _list_files(folders, _OURS):
        if path not in list_addresses(folders):
            yield from search_format(path, path.read_bytes(), forgotten)


def search(path: Path | str, content: bytes, forgotten: Forgotten) -> tuple[list[Place], int]:
    """Search a file, or an object of a copy, in its own format and then in every byte.

    Its format tells contacts, and the company of a person who is forgotten about one company only.

    Returns:
        A place for each way in which it names a forgotten subject, and the number of bytes searched when unpacked.

    Raises:
        FirmlakeError, OSError, ZstdError, zipfile.BadZipFile, pl.exceptions.PolarsError: The bytes are damaged.
    """
    places = list(search_format(path, content, forgotten))
    hits = byte_count = 0
    for piece in pieces(content):
        byte_count += len(piece)
        hits = max(hits, _count_spelled(piece, forgotten))
    return [*places, *([Place(path, "bytes", hits)] if hits else [])], byte_count


def search_format(path: Path | str, content: bytes, forgotten: Forgotten) -> Iterator[Place]:
    """Yield the places that name a forgotten subject according to the format of a file."""
    name = PurePosixPath(path)
    if name.suffix == ".duckdb":
        yield from search_generation(Path(path), forgotten)
        return
    kind, count = "lines", 0
    if name.suffix == ".zst" and "landing" in name.parts:
        kind, count = "answers", _count_answers(Path(path), forgotten)
    elif content[:4] == _PARQUET:
        frame = pl.read_parquet(io.BytesIO(content))
        if "country" not in frame.columns and (of_country := _COUNTRY.search(str(path))):
            frame = frame.with_columns(country=pl.lit(of_country[1]))
        kind, count = "rows", count_changed(frame, clean_frame(frame, forgotten))
    elif name.suffix == ".csv" and "exports" in name.parts:
        frame = pl.read_csv(content, infer_schema=False)
        kind, count = "rows", count_changed(frame, clean_frame(frame, forgotten))
    elif name.suffix == ".json" and "_delta_log" not in name.parts:
        kind, count = "values", int(clean_json(content, forgotten) != content)
    elif b"\0" in content:
        kind, count = "list", int("inputs" in name.parts and may_name(content, forgotten))
    else:
        is_list = name.parent.name == "lists" or "inputs" in name.parts
        lines = [decode_line(line)[0] for line in content.splitlines()]
        count = sum(forgotten.clean(line, has_contacts=is_list) != line for line in lines)
    if count:
        yield Place(path, kind, count)


def search_generation(path: Path, forgotten: Forgotten) -> Iterator[Place]:
    """Yield each table of a generation that names a forgotten subject, with the number of such rows.

    Raises:
        DamagedError: The generation cannot be read.
    """
    try:
        with connect_to(path) as connection:
            for (table,) in connection.execute(_TABLES).fetchall():
                if count := sum(_count_in_batches(connection, table, forgotten)):
                    yield Place(path, table.removesuffix("_versions"), count)
    except duckdb.Error as error:
        next_step = "Rebuild the newest generation with `firmlake replay`"
        raise DamagedError(f"{path} cannot be read: {error}", next_step) from None


def pieces(content: bytes) -> Iterator[bytes]:
    """Yield everything that the bytes of a file say, unpacked.

    Raises:
        OSError, zipfile.BadZipFile, ZstdError, pl.exceptions.PolarsError: The bytes are damaged.
    """
    if content[:4] in _ZSTD:
        yield decompress_frames(content)
    elif content[:2] == _GZIP:
        yield from pieces(gzip.decompress(content))
    elif content[:4] == _ZIP:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for name in packed.namelist():
                yield name.encode()
                yield from pieces(packed.read(name))
    elif content[:4] == _PARQUET:
        yield content[-8 - int.from_bytes(content[-8:-4], "little") :]  # the metadata
        for column in pl.read_parquet(io.BytesIO(content)).iter_columns():
            if column.dtype == pl.String or column.dtype.is_integer():
                yield "\n".join(column.drop_nulls().unique().cast(pl.String)).encode()
    elif content[:2] in _UTF16:
        yield content.decode("utf-16", "replace").encode()
    else:
        yield content
        decoded = [] if b"\0" in content else [decode_line(line) for line in content.splitlines(keepends=True)]
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
    if content[:4] not in (_ZIP, _PARQUET, *_ZSTD) and content[:2] not in (_GZIP, *_UTF16):
        return True
    found = list(pieces(content))
    if forgotten.spelled_in(b"\n".join(found), shortest=2):
        return True
    cells = {cell.strip() for piece in found for cell in _CELL.findall(piece.decode("utf-8", "replace"))}
    return any(forgotten.clean(cell, has_contacts=True) != cell for cell in cells)


def _list_files(folders: Folders, patterns: Iterable[str]) -> list[Path]:
    found = {path for pattern in patterns for path in folders.data.glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _count_answers(path: Path, forgotten: Forgotten) -> int:
    """Count the records of a segment that name a forgotten subject in their header or body."""
    return sum(
        any(map(forgotten.has_company, one.header.companies)) or clean_json(one.body, forgotten) != one.body
        for one in read_segment(path)
    )


def _count_in_batches(connection: duckdb.DuckDBPyConnection, table: str, forgotten: Forgotten) -> Iterator[int]:
    """Count the rows of a table that name a forgotten subject, batch by batch."""
    columns = [name for (name,) in connection.execute(_TEXT_COLUMNS, [table]).fetchall()]
    if not columns:
        return
    texts = ", ".join(f'"{name}"::VARCHAR AS "{name}"' for name in columns)
    for batch in connection.sql(f'SELECT {texts} FROM "{table}"').to_arrow_reader(_ROWS):  # noqa: S608 - our own names
        frame = pl.DataFrame(pl.from_arrow(batch))
        yield count_changed(frame, clean_frame(frame, forgotten))


def _count_spelled(content: bytes, forgotten: Forgotten) -> int:
    """Count the places where readable bytes hold a forgotten name of several words, in any encoding."""
    spelled = forgotten.spelled_in(content, shortest=2)
    if not spelled:
        return 0
    spans: set[tuple[int, int]] = set()
    longest_first = b"|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
    for found in re.finditer(longest_first, content):
        before = content[max(0, found.start() - _BYTES_AROUND) : found.start()]
        after = content[found.end() : found.end() + _BYTES_AROUND]
        start = found.start() - len(_READABLE_END.search(before)[0])  # type: ignore[index]
        end = found.end() + len(_READABLE_START.search(after)[0])  # type: ignore[index]
        if (start, end) not in spans and forgotten.name_spans(content[start:end].decode("utf-8", "ignore")):
            spans.add((start, end))
    return len(spans)
