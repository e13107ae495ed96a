"""Clean archives and exports: each object that names a forgotten subject is overwritten without the name."""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import encode_json, read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.core.guard import RISKY
from firmlake.delivery import delta, iceberg
from firmlake.delivery.destination import Destination
from firmlake.delivery.files import LATEST, Latest, put_csv
from firmlake.delivery.record import DeliveredFile, DeliveredTable, Record
from firmlake.forget.place import Place, count_changed
from firmlake.forget.sources import clean_sources
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame


class VersionedTable(NamedTuple):
    """A Delta Lake or Iceberg table: its format, its path or name, and its destination."""

    format: str
    name: str
    url: str
    destination: Destination

    def count(self, forgotten: Forgotten) -> int:
        """Count the rows that name a forgotten subject."""
        batches = (
            delta.read_batches(f"{self.url}/{self.name}")
            if self.format == "delta"
            else iceberg.read_batches(self.url, self.name)
        )
        count = 0
        for batch in batches:
            frame = pl.DataFrame(pl.from_arrow(batch))
            count += count_changed(frame, clean_frame(frame, forgotten))
        return count

    def overwrite(self, forgotten: Forgotten) -> int:
        """Overwrite the rows without forgotten subjects, and return the new version or snapshot."""

        def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
            frame = pl.DataFrame(pl.from_arrow(batch))
            after = clean_frame(frame, forgotten)
            if after is frame:
                return batch
            made = after.select(batch.schema.names).to_arrow().cast(batch.schema).combine_chunks().to_batches()
            return made[0] if made else batch.slice(0, 0)

        if self.format == "delta":
            return delta.overwrite(f"{self.url}/{self.name}", clean)
        return iceberg.overwrite(self.url, self.name, clean)

    def drop_past(self) -> None:
        """Remove the versions before the last `overwrite`."""
        if self.format == "delta":
            delta.drop_past(self.destination, self.name)
        else:
            iceberg.drop_past(self.url, self.name)


def versioned_tables(destination: Destination, manifest: Record) -> Iterator[VersionedTable]:
    """Yield the Delta Lake and Iceberg tables that an export wrote to."""
    for table in manifest.tables:
        if name := table.delta_path or table.iceberg_table:
            yield VersionedTable(manifest.format, name, destination.url, destination)


def with_version(table: DeliveredTable, versions: Mapping[str, int]) -> DeliveredTable:
    """Return the description of a table with the version that `firmlake forget` wrote."""
    if version := versions.get(table.delta_path):
        return msgspec.structs.replace(table, delta_version=version)
    if version := versions.get(table.iceberg_table):
        return msgspec.structs.replace(table, iceberg_snapshot=version)
    return table


_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_BLOCK = 1 << 26  # bytes; a row must fit


class Cleaned(NamedTuple):
    """A cleaned file, its number of rows, and how many rows were changed or removed."""

    content: bytes
    row_count: int
    changed_count: int


def clean_file(content: bytes, file: DeliveredFile, table: DeliveredTable, forgotten: Forgotten) -> Cleaned:
    """Clean a file of an export.

    Args:
        content: The file.
        file: Its path and country.
        table: The table that the file is a part of.
        forgotten: The forgotten subjects.

    Raises:
        DamagedError: The file was changed since its export, or has an unknown format.
    """
    ending = PurePosixPath(file.path).suffix
    if ending not in _FORMATS:
        raise DamagedError(f"{file.path} has an unknown format", "Export again, and remove this file")
    read, write = _FORMATS[ending]
    try:
        held = read(content, table)
    except (ValueError, pa.ArrowException, pl.exceptions.PolarsError):
        # The error would quote the file.
        raise DamagedError(f"{file.path} was changed since its export", "Export again, and remove this file") from None
    before = _framed(held)
    if file.country:
        before = before.with_columns(country=pl.lit(file.country))
    before = before.with_row_index("row_of_file")
    after = clean_frame(before, forgotten)
    if after is before:
        return Cleaned(content, before.height, 0)
    kept = before.filter(pl.col("row_of_file").is_in(after["row_of_file"].implode()))
    count = before.height - after.height + count_changed(kept, after)
    written = io.BytesIO()
    write(written, table.name, after.select(held.schema.names).to_arrow().cast(held.schema))
    return Cleaned(written.getvalue(), after.height, count)


# ---------------------------------------------------------------------------------------------------------------------


def _framed(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table))


def _schema(table: DeliveredTable) -> pa.Schema:
    return pa.schema([(column.name, _type(column.type)) for column in table.columns])


def _type(name: str) -> pa.DataType:
    return pa.decimal128(*map(int, re.findall(r"\d+", name))) if name.startswith("DECIMAL") else _TYPES[name]


def _read_parquet(content: bytes, _table: DeliveredTable) -> pa.Table:
    return pq.read_table(pa.BufferReader(content), partitioning=None)


def _write_parquet(file: IO[bytes], _name: str, rows: pa.Table) -> None:
    pq.write_table(rows, file, compression="zstd")


def _read_csv(content: bytes, table: DeliveredTable) -> pa.Table:
    """Read the rows without the guard against formulas; quotes tell an empty text from null."""
    schema = _schema(table)
    rows = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        pyarrow.csv.ReadOptions(block_size=_BLOCK),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    text = pl.col(pl.String)
    plain = pl.when(text.str.contains(RISKY)).then(text.str.strip_prefix("'")).otherwise(text)
    return _framed(rows).with_columns(plain).select(schema.names).to_arrow().cast(schema)


def _write_csv(file: IO[bytes], _name: str, rows: pa.Table) -> None:
    put_csv(file, rows.schema, rows.to_batches())


_FORMATS: dict[str, tuple[Callable[[bytes, DeliveredTable], pa.Table], Callable[[IO[bytes], str, pa.Table], None]]] = {
    ".parquet": (_read_parquet, _write_parquet),
    ".csv": (_read_csv, _write_csv),
}


__all__ = ["clean_archive", "clean_export", "drop_archive", "has_hashes", "known_archives", "note_archive"]

_ARCHIVED = ("landing", "state")
_MANIFEST = "/manifest.json"


def known_archives(folders: Folders) -> list[str]:
    """List the archives that this data folder was copied to."""
    path = _archives_record(folders)
    return list(read_json(path, tuple[str, ...])) if path.exists() else []


def note_archive(folders: Folders, url: str) -> None:
    """Record an archive, so that `firmlake forget` cleans it too."""
    if url not in (known := known_archives(folders)):
        write_json(_archives_record(folders), (*known, url))


def drop_archive(folders: Folders, url: str) -> None:
    """Remove an archive that no longer exists from the record."""
    write_json(_archives_record(folders), tuple(known for known in known_archives(folders) if known != url))


def _archives_record(folders: Folders) -> Path:
    """Return the file that lists the archives."""
    return folders.state / "archives.json"


def clean_archive(destination: Destination, forgotten: Forgotten, *, write: bool) -> list[Place]:
    """Clean an archive: download it, clean it like a data folder, and upload what changed, logs and plans last.

    Args:
        destination: The archive.
        forgotten: The forgotten subjects.
        write: False only finds the places, and changes nothing.

    Returns:
        One place for each object that was changed or removed.

    Raises:
        FirmlakeError: There is no archive at the address.
    """
    with tempfile.TemporaryDirectory(prefix="firmlake-") as name:
        folders = Folders(Path(name))
        before: dict[str, bytes] = {}
        for path in (path for folder in _ARCHIVED for path in destination.sizes(folder)):
            found = destination.read(path)
            assert found, "it was listed"
            before[path] = hashlib.sha256(found.content).digest()
            write_file(folders.data / path, lambda aside, content=found.content: aside.write_bytes(content))  # type: ignore[misc]
        if not before:
            raise FirmlakeError(f"{destination.url} holds no archive", "Make it available again")
        for _ in clean_sources(folders, forgotten, write=True):
            pass
        after = {
            path.relative_to(folders.data).as_posix(): hashlib.sha256(path.read_bytes()).digest()
            for folder in _ARCHIVED
            for path in sorted((folders.data / folder).rglob("*"))
            if path.is_file()
        }
        changed = [path for path, digest in after.items() if digest != before.get(path)]
        gone = [path for path in before if path not in after]
        if write and (changed or gone):
            destination.clear("staged")  # these tables hold the old values; the next replay makes them again
            for path in sorted(changed, key=lambda path: "/log/" in path or path.endswith("/plan.json")):
                destination.put(path, io.BytesIO((folders.data / path).read_bytes()))
            for path in gone:
                destination.remove(path)
    return [Place(f"{destination.url}/{path}", "archive", 1) for path in sorted({*changed, *gone})]


def clean_export(destination: Destination, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean all exports in a destination, including earlier ones, and update their manifests.

    Earlier versions of Delta Lake and Iceberg tables are removed, because their files hold the forgotten values.

    Raises:
        FirmlakeError: There is no export at the destination.
        DamagedError: Raised at the end if some files were changed since their export. These files stay unchanged.
    """
    manifests = {
        path: _read_manifest(destination, path) for path in destination.sizes("exports") if path.endswith(_MANIFEST)
    }
    if not manifests:
        raise FirmlakeError(f"{destination.url} holds no export", "Make it available again")
    unread: list[str] = []
    versions: dict[str, int] = {}
    for each in sorted({each for manifest in manifests.values() for each in versioned_tables(destination, manifest)}):
        if count := each.count(forgotten):
            if write:
                versions[each.name] = each.overwrite(forgotten)
            yield Place(f"{destination.url}/{each.name}", "export", count)
        if write:
            each.drop_past()
    for path, manifest in manifests.items():
        folder = path.removesuffix(_MANIFEST)
        described: dict[str, DeliveredFile] = {}
        is_changed = bool(versions)
        for file, cleaned in _clean_files(destination, folder, manifest, forgotten, unread):
            described[file.path] = _describe(file, cleaned)
            if cleaned.changed_count:
                is_changed = True
                if write:
                    destination.put(f"{folder}/{file.path}", io.BytesIO(cleaned.content))
                yield Place(f"{destination.url}/{folder}/{file.path}", "export", cleaned.changed_count)
        if write and (is_changed or not forgotten.register.is_done):  # a killed call may have cleaned files only
            _renew_manifest(destination, path, manifest, described, versions)
    if unread:
        raise DamagedError("; ".join(unread), "Export again, and remove these files")


def has_hashes(destination: Destination) -> bool:
    """Return whether an export in a destination holds hashed columns, which cannot be compared with tombstones."""
    manifests = (path for path in destination.sizes("exports") if path.endswith(_MANIFEST))
    return any("hash" in _read_manifest(destination, path).mask.values() for path in manifests)


# ---------------------------------------------------------------------------------------------------------------------


def _read_manifest(destination: Destination, path: str) -> Record:
    found = destination.read(path)
    assert found, "it was listed"
    return msgspec.json.decode(found.content, type=Record)


def _clean_files(
    destination: Destination, folder: str, manifest: Record, forgotten: Forgotten, unread: list[str]
) -> Iterator[tuple[DeliveredFile, Cleaned]]:
    """Yield each file of an export and its content without forgotten subjects; name those that cannot be read."""
    for table in manifest.tables:
        for file in table.files:
            if found := destination.read(f"{folder}/{file.path}"):
                try:
                    cleaned = clean_file(found.content, file, table, forgotten)
                except DamagedError as error:
                    unread.append(f"{folder}/{error.message}")
                else:
                    yield file, cleaned


def _describe(file: DeliveredFile, cleaned: Cleaned) -> DeliveredFile:
    content = cleaned.content
    return DeliveredFile(file.path, cleaned.row_count, len(content), hashlib.sha256(content).hexdigest(), file.country)


def _renew_manifest(
    destination: Destination,
    path: str,
    manifest: Record,
    described: dict[str, DeliveredFile],
    versions: dict[str, int],
) -> None:
    """Update sizes, checksums and versions in the manifest, and the manifest's checksum in `latest.json`."""
    tables = []
    for table in manifest.tables:
        files = tuple(described.get(file.path, file) for file in table.files)
        count = sum(file.row_count for file in files) if files else table.row_count
        table = msgspec.structs.replace(table, files=files, row_count=count)
        tables.append(with_version(table, versions))
    renewed = msgspec.structs.replace(manifest, tables=tuple(tables))
    if renewed == manifest:
        return
    content = encode_json(renewed)
    destination.put(path, io.BytesIO(content))
    if found := destination.read(LATEST):
        latest = msgspec.json.decode(found.content, type=Latest)
        if latest.manifest == path:
            named = msgspec.structs.replace(latest, manifest_sha256=hashlib.sha256(content).hexdigest())
            destination.replace(LATEST, encode_json(named), found)
