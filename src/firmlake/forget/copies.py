"""Clean archives and exports: each object that names a forgotten subject is overwritten without the name."""

from __future__ import annotations

import hashlib
import html
import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.files import read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.exports.destination import Destination
from firmlake.exports.manifest import LATEST, ExportManifest, Latest
from firmlake.forget.place import Place
from firmlake.forget.sources import clean_sources
from firmlake.forget.versioned import versioned_tables, with_version
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten
from firmlake.privacy.frames import clean_frame

__all__ = ["archives_record", "clean_archive", "clean_export", "has_hashes", "known_archives", "note_archive"]

_ARCHIVED = ("runs", "landing", "state")
_MANIFEST = "/manifest.json"
_PLANS_LAST = ("plan.json", "outcome.json")
_CELL = re.compile(r"(<t(?: [^>]*)?>)(.*?)(</t>)", re.DOTALL)


def known_archives(folders: Folders) -> list[str]:
    """List the archives that this data folder was copied to."""
    path = archives_record(folders)
    return list(read_json(path, tuple[str, ...])) if path.exists() else []


def note_archive(folders: Folders, url: str) -> None:
    """Record an archive, so that `firmlake forget` cleans it too."""
    if url not in (known := known_archives(folders)):
        write_json(archives_record(folders), (*known, url))


def archives_record(folders: Folders) -> Path:
    """Return the file that lists the archives."""
    return folders.state / "archives.json"


def clean_archive(destination: Destination, forgotten: Forgotten, *, write: bool) -> list[Place]:
    """Clean an archive: download it, clean it like a data folder, and upload the changed files, plans last.

    Args:
        destination: The archive.
        forgotten: The forgotten subjects.
        write: False only finds the places, and changes nothing.

    Returns:
        One place for each object that was changed or removed.
    """
    with tempfile.TemporaryDirectory(prefix="firmlake-") as name:
        folders = Folders(Path(name))
        before = {}
        for path in (path for folder in _ARCHIVED for path in destination.sizes(folder)):
            found = destination.read(path)
            assert found, "it was listed"
            before[path] = hashlib.sha256(found.content).digest()
            write_file(folders.data / path, lambda aside, content=found.content: aside.write_bytes(content))  # type: ignore[misc]
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
            destination.clear("staged")  # staged tables hold the old values; the next replay makes them again
            for path in sorted(changed, key=lambda path: path.endswith(_PLANS_LAST)):
                destination.put(path, io.BytesIO((folders.data / path).read_bytes()))
            for path in gone:
                destination.remove(path)
    return [Place(f"{destination.url}/{path}", "archive", 1) for path in sorted({*changed, *gone})]


def clean_export(destination: Destination, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean every export in a destination, also earlier ones, and update their manifests.

    The earlier versions of Delta Lake and Iceberg tables are removed, since their files hold the forgotten values.
    """
    manifests = {
        path: _read_manifest(destination, path) for path in destination.sizes("exports") if path.endswith(_MANIFEST)
    }
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
        changed: dict[str, tuple[bytes, int]] = {}
        for file in (file for table in manifest.tables for file in table.files):
            read = destination.read(f"{folder}/{file.path}")
            if read is None:
                continue
            content, rows, count = _clean_file(file.path, read.content, file.country, file.row_count, forgotten)
            if count:
                changed[file.path] = content, rows
                yield Place(f"{destination.url}/{folder}/{file.path}", "export", count)
        if write and (changed or versions):
            for name, (content, _) in changed.items():
                destination.put(f"{folder}/{name}", io.BytesIO(content))
            _renew_manifest(destination, path, manifest, changed, versions)


def has_hashes(destination: Destination) -> bool:
    """Tell whether an export in a destination holds hashed columns, which tombstones cannot be matched with."""
    manifests = (path for path in destination.sizes("exports") if path.endswith(_MANIFEST))
    return any("hash" in _read_manifest(destination, path).mask.values() for path in manifests)


# ---------------------------------------------------------------------------------------------------------------------


def _read_manifest(destination: Destination, path: str) -> ExportManifest:
    found = destination.read(path)
    assert found, "it was listed"
    return msgspec.json.decode(found.content, type=ExportManifest)


def _clean_file(path: str, content: bytes, country: str, rows: int, forgotten: Forgotten) -> tuple[bytes, int, int]:
    """Return the cleaned file, its number of rows, and the number of rows or cells that were changed or removed."""
    if path.endswith(".parquet"):
        return _clean_parquet(content, country, forgotten)
    if path.endswith(".xlsx"):
        cleaned, count = _clean_workbook(content, forgotten)
        return cleaned, rows, count
    lines = content.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    kept = [line for line in lines if not (forgotten.has_companies and forgotten.names_company(line))]
    new = [forgotten.clean(line) or "" for line in kept]
    count = len(lines) - len(kept) + sum(a != b for a, b in zip(new, kept, strict=True))
    return "".join(new).encode("utf-8", "surrogateescape"), rows - (len(lines) - len(kept)), count


def _clean_parquet(content: bytes, country: str, forgotten: Forgotten) -> tuple[bytes, int, int]:
    table = pq.read_table(pa.BufferReader(content), partitioning=None)
    before = pl.DataFrame(pl.from_arrow(table))
    if country:
        before = before.with_columns(country=pl.lit(country))
    numbered = before.with_row_index("row_of_file")
    after = clean_frame(numbered, forgotten)
    if after is numbered:
        return content, table.num_rows, 0
    kept = numbered.filter(pl.col("row_of_file").is_in(after["row_of_file"].implode()))
    count = before.height - after.height + sum(a != b for a, b in zip(kept.rows(), after.rows(), strict=True))
    file = io.BytesIO()
    pq.write_table(after.select(table.schema.names).to_arrow().cast(table.schema), file, compression="zstd")
    return file.getvalue(), after.height, count


def _clean_workbook(content: bytes, forgotten: Forgotten) -> tuple[bytes, int]:
    file, count = io.BytesIO(), 0
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.infolist():
            text = old.read(each).decode("utf-8", "surrogateescape")

            def clean(found: re.Match[str]) -> str:
                nonlocal count
                value = html.unescape(found[2])
                cleaned = forgotten.clean(value)
                count += cleaned != value
                return f"{found[1]}{html.escape(FORGOTTEN if cleaned is None else cleaned, quote=False)}{found[3]}"

            new.writestr(each, _CELL.sub(clean, text).encode("utf-8", "surrogateescape"))
    return (file.getvalue(), count) if count else (content, 0)


def _renew_manifest(
    destination: Destination,
    path: str,
    manifest: ExportManifest,
    changed: dict[str, tuple[bytes, int]],
    versions: dict[str, int],
) -> None:
    """Update sizes, checksums and versions in the manifest, and the manifest's checksum in `latest.json`."""
    tables = []
    for table in manifest.tables:
        files = tuple(
            msgspec.structs.replace(
                file,
                row_count=changed[file.path][1],
                byte_count=len(changed[file.path][0]),
                sha256=hashlib.sha256(changed[file.path][0]).hexdigest(),
            )
            if file.path in changed
            else file
            for file in table.files
        )
        count = sum(file.row_count for file in files) if files else table.row_count
        table = msgspec.structs.replace(table, files=files, row_count=count)
        tables.append(with_version(table, versions))
    renewed = msgspec.structs.replace(manifest, tables=tuple(tables))
    if renewed == manifest:
        return
    content = _as_text(renewed)
    destination.put(path, io.BytesIO(content))
    if found := destination.read(LATEST):
        latest = msgspec.json.decode(found.content, type=Latest)
        if latest.manifest == path:
            named = msgspec.structs.replace(latest, manifest_sha256=hashlib.sha256(content).hexdigest())
            destination.replace(LATEST, _as_text(named), found)


def _as_text(content: ExportManifest | Latest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
