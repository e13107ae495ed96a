"""Search files for forgotten subjects, in their own format and in every byte, and write a receipt of what was found."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import duckdb
import msgspec
import polars as pl

from firmlake import __version__
from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import ZstdError, decompress_frames, is_writable, write_json
from firmlake.core.folders import Folders
from firmlake.forget.sources import clean_answers, decode_line, list_addresses
from firmlake.landing.segments import read_segment
from firmlake.privacy.cleaning import clean_frame, clean_json, clean_record, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.warehouse.generations import connect_to, find_held, newest

if TYPE_CHECKING:
    from firmlake.forget.copies import Copies

UNREADABLE = (FirmlakeError, pl.exceptions.PolarsError, ZstdError, OSError, zipfile.BadZipFile)
"""Errors of reading damaged bytes in their format."""
PARQUET = b"PAR1"
_DATABASES = {".duckdb", ".sqlite"}
"""Endings of files that may be larger than memory; they are read in parts."""
_MEMORY = "100MB"
"""For DuckDB, which passes the rows of a table on and needs little."""
_OURS = (
    "landing/**/*", "lists/*", "logs/**/*", "plans/*", "staged/**/*", "state/**/*", "warehouse/*.duckdb", "*.log",
    "*.jsonl", "*.prom",
)  # fmt: skip
_COUNTRY = re.compile(r"\bcountry=([A-Z]{2})/")
_READABLE_START, _READABLE_END = re.compile(rb"\A[\t -~\x80-\xff]*"), re.compile(rb"[\t -~\x80-\xff]*\Z")
_BYTES_AROUND = 400
"""Bytes around a word in which to look for the rest of the name."""
_PART_BYTES = 1 << 22
"""Bytes that are searched at once: their words take twenty times the memory."""
_ROWS = 25_000
_TABLES = """
    SELECT table_name, string_agg(format('"{0}"::VARCHAR AS "{0}"', column_name), ', ' ORDER BY column_index)
    FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, schema_oid, table_oid)
    WHERE schema_name = 'main' AND NOT internal AND data_type IN ('VARCHAR', 'JSON') GROUP BY ALL ORDER BY ALL
"""
"""The tables of a generation, each with its columns of text as a query selects them."""


class Place(NamedTuple):
    """A file or table that names a forgotten subject.

    Attributes:
        what: "answers", "rows", "lines", "values", a table, or the kind of a copy.
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

    Without `copies`, the data folder alone is searched. Returns the receipt and its file; None if the folder cannot be
    written to.
    """
    found: list[Place] = []
    unread: list[tuple[str, str]] = []
    files = byte_count = content_count = 0
    addresses = list_addresses(folders)
    for path in _list_files(folders, "**/*"):
        content = _read(path)
        files, byte_count = files + 1, byte_count + path.stat().st_size
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


def list_ours(folders: Folders) -> list[Path]:
    """List what `firmlake forget` cleans or derives again: the files that firmlake wrote."""
    addresses = list_addresses(folders)
    return [path for path in _list_files(folders, *_OURS) if path not in addresses]


def find_places(folders: Folders, forgotten: Forgotten) -> list[Place]:
    """Find the places that name a forgotten subject in what `firmlake forget` cleans or derives again.

    Staged tables and earlier generations that cannot be read are passed over: they are derived again, or removed.
    """
    current = {path.name for path in (newest(folders), find_held(folders)) if path}
    places: list[Place] = []
    for path in list_ours(folders):
        is_earlier = path.suffix == ".duckdb" and path.name not in current
        try:
            places += search_format(path, _read(path), forgotten)
        except UNREADABLE:
            if not (is_earlier or folders.data / "staged" in path.parents):
                raise
    return places


def search(path: Path | str, content: bytes | None, forgotten: Forgotten) -> tuple[list[Place], int]:
    """Search a file, or an object of a copy, in its own format and then in every byte; None reads a database in parts.

    Its format tells contacts, and the company of a person who is forgotten about one company only. Returns a place for
    each way in which it names a forgotten subject, and the number of bytes searched when unpacked. Raises one of
    `UNREADABLE` if the bytes are damaged.
    """
    places = list(search_format(path, content, forgotten))
    hits = byte_count = 0
    for piece in [Path(path).open("rb")] if content is None else map(io.BytesIO, unpack(content)):  # noqa: SIM115
        with piece:
            size = piece.seek(0, io.SEEK_END)
            hits = max(hits, sum(_count_spelled(part, forgotten) for part in _read_parts(piece, size)))
        byte_count += size
    return [*places, *([Place(path, "bytes", hits)] if hits else [])], byte_count


def search_format(path: Path | str, content: bytes | None, forgotten: Forgotten) -> Iterator[Place]:
    """Yield the places that name a forgotten subject according to the format of a file."""
    name = PurePosixPath(path)
    if content is None:
        if name.suffix == ".duckdb":
            yield from search_generation(Path(path), forgotten)
        return
    is_list = name.parent.name == "lists" or "inputs" in name.parts
    kind, count = "lines", 0
    if name.suffix == ".zst" and "landing" in name.parts:
        kind, (_, count) = "answers", clean_answers(read_segment(Path(path), content), forgotten)
    elif content.startswith(PARQUET) or (name.suffix == ".csv" and "exports" in name.parts):
        is_parquet = content.startswith(PARQUET)
        frame = pl.read_parquet(io.BytesIO(content)) if is_parquet else pl.read_csv(content, infer_schema=False)
        if "country" not in frame.columns and (of_country := _COUNTRY.search(str(path))):
            frame = frame.with_columns(country=pl.lit(of_country[1]))
        kind, count = "rows", _count_rows(frame.iter_slices(_ROWS), forgotten)
    elif name.suffix == ".json" and "_delta_log" not in name.parts:
        kind, count = "values", int(clean_json(content, forgotten) != content)
    elif b"\0" not in content:
        lines = [decode_line(line)[0] for line in content.splitlines()]
        count = sum(forgotten.clean(line, has_contacts=is_list) != line for line in lines)
    if count:
        yield Place(path, kind, count)


def unpack(content: bytes) -> Iterator[bytes]:
    """Yield everything that the bytes of a file say; damaged ones raise one of `UNREADABLE`."""
    for start, unpack_packed in _PACKED.items():
        if content.startswith(start):
            yield from unpack_packed(content)
            return
    yield content
    lines = [] if b"\0" in content else [decode_line(line) for line in content.splitlines(keepends=True)]
    if any(encoding != "utf-8" for _, encoding in lines):
        yield "".join(text for text, _ in lines).encode("utf-8", "replace")


def search_generation(path: Path, forgotten: Forgotten) -> Iterator[Place]:
    """Yield each table of a generation that names a forgotten subject, with the number of such rows."""
    try:
        with connect_to(path) as connection:
            connection.execute(f"SET memory_limit = '{_MEMORY}'")
            for table, texts in connection.execute(_TABLES).fetchall():
                batches = connection.sql(f'SELECT {texts} FROM "{table}"').to_arrow_reader(_ROWS)  # noqa: S608 - our names
                if count := _count_rows((pl.DataFrame(pl.from_arrow(batch)) for batch in batches), forgotten):
                    yield Place(path, table.removesuffix("_versions"), count)
    except duckdb.Error as error:
        next_step = "Rebuild the newest generation with `firmlake replay`"
        raise DamagedError(f"{path} cannot be read: {error}", next_step) from None


def _read(path: Path) -> bytes | None:
    return None if path.suffix in _DATABASES else path.read_bytes()


def _read_parts(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield a file in parts, each with the first bytes of the next."""
    for start in range(0, size, _PART_BYTES):
        file.seek(start)
        yield file.read(_PART_BYTES + _BYTES_AROUND)


def _list_files(folders: Folders, *patterns: str) -> list[Path]:
    found = {path for pattern in patterns for path in folders.data.glob(pattern)}
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _count_rows(frames: Iterable[pl.DataFrame], forgotten: Forgotten) -> int:
    """Count the rows that name a forgotten subject."""
    return sum(count_changed(frame, clean_frame(frame, forgotten)) for frame in frames)


def _count_spelled(content: bytes, forgotten: Forgotten) -> int:
    """Count the places where readable bytes hold a forgotten name of several words, in any encoding."""
    spelled = forgotten.spelled_in(content, shortest=2)
    spans: set[tuple[int, int]] = set()
    longest_first = b"|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
    for found in re.finditer(longest_first, content) if spelled else ():
        before = content[max(0, found.start() - _BYTES_AROUND) : found.start()]
        after = content[found.end() : found.end() + _BYTES_AROUND]
        start = found.start() - len(_READABLE_END.search(before)[0])  # type: ignore[index]
        end = found.end() + len(_READABLE_START.search(after)[0])  # type: ignore[index]
        text = content[start:end].decode("utf-8", "ignore")
        if (start, end) not in spans and forgotten.clean(text) != text:
            spans.add((start, end))
    return len(spans)


def _unzip(content: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            yield name.encode()
            yield from unpack(packed.read(name))


def _read_parquet(content: bytes) -> Iterator[bytes]:
    yield content[-8 - int.from_bytes(content[-8:-4], "little") :]  # the metadata
    for column in pl.read_parquet(io.BytesIO(content)).iter_columns():
        if column.dtype == pl.String or column.dtype.is_integer():
            yield column.drop_nulls().unique().cast(pl.String).str.join("\n").item().encode()


_PACKED: dict[bytes, Callable[[bytes], Iterator[bytes]]] = {
    PARQUET: _read_parquet,
    b"PK\x03\x04": _unzip,
    b"\x1f\x8b": lambda content: unpack(gzip.decompress(content)),
    **dict.fromkeys((b"\x28\xb5\x2f\xfd", b"\x57\x2a\x4d\x18"), lambda content: iter([decompress_frames(content)])),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), lambda content: iter([content.decode("utf-16", "replace").encode()])),
}
"""How files are unpacked that begin with these bytes: Parquet, zip, gzip, zstd and UTF-16."""
