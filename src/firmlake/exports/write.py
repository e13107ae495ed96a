"""Write an export: the files of its tables, or commits to its Delta Lake or Iceberg tables, and then its manifest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb
import msgspec

from firmlake.core.errors import FirmlakeError, first_line
from firmlake.core.files import is_writable, make_folder
from firmlake.core.folders import Folders
from firmlake.exports import delta, iceberg
from firmlake.exports.destination import Destination
from firmlake.exports.manifest import (
    ColumnShape,
    ExportedFile,
    ExportedTable,
    ExportManifest,
    describe_rows,
    folder_of,
    write_manifest,
)
from firmlake.exports.masking import mask_columns
from firmlake.exports.request import ExportRequest
from firmlake.exports.selection import (
    CHANGE,
    Selected,
    as_held,
    exported_type,
    select_as_of,
    select_changes,
    select_whole,
)
from firmlake.exports.table_files import FORMATS, Source, TableFile
from firmlake.privacy.key import read_key
from firmlake.privacy.tombstones import key_path
from firmlake.warehouse.loads import loaded_runs

__all__ = ["write_export"]


def write_export(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: ExportRequest,
    destination: Destination,
    started: ExportManifest,
    tell: Callable[[str], object],
) -> ExportManifest:
    """Write all tables of a request, replacing the remains of a killed export.

    Returns:
        `started`, with the tables.
    """
    destination.clear(folder_of(started.export_id))
    scratch = folders.state if is_writable(folders.state) else Path(tempfile.gettempdir())
    tables = []
    key = read_key(key_path(request.privacy, folders), "privacy.key_file") if "hash" in request.mask.values() else b""
    for selected in _select(connection, request, started):
        selected = mask_columns(connection, selected, request.mask, key)
        source = Source(connection, selected, scratch, request.file_bytes)
        try:
            make_folder(scratch)
            table = _write_table(source, destination, started)
        except (OSError, duckdb.IOException, duckdb.OutOfMemoryException) as error:
            what = f"{source.table.name}: no temporary file can be written in {scratch}: {first_line(error)}"
            raise FirmlakeError(what, "Make room there, then export again") from error
        tell(f"{table.name}: {describe_rows(table)}")
        tables.append(table)
    manifest = msgspec.structs.replace(started, tables=tuple(tables))
    write_manifest(destination, manifest)
    return manifest


# ---------------------------------------------------------------------------------------------------------------------


def _select(connection: duckdb.DuckDBPyConnection, request: ExportRequest, started: ExportManifest) -> list[Selected]:
    if started.mode == "as_of":
        chosen = select_as_of(request.tables, request.as_of, loaded_runs(connection))
    else:
        chosen = select_changes(request.tables) if started.mode == "changes" else select_whole(request.tables)
    return [as_held(connection, selected) for selected in chosen]


def _write_table(source: Source, destination: Destination, started: ExportManifest) -> ExportedTable:
    changes = dict(source.counts(CHANGE.name)) if started.mode == "changes" else {}
    is_whole = started.mode == "whole"
    if started.format == "delta":
        made = delta.commit(source, destination.url, started.export_id, started.published_at, is_whole=is_whole)
        described = _describe(source, (), made.row_count, changes)
        return msgspec.structs.replace(described, delta_path=made.path, delta_version=made.version)
    if started.format == "iceberg":
        done = iceberg.commit(source, destination.url, started.export_id, started.published_at, is_whole=is_whole)
        described = _describe(source, (), done.row_count, changes)
        return msgspec.structs.replace(described, iceberg_table=done.name, iceberg_snapshot=done.snapshot)
    folder = folder_of(started.export_id)
    files = tuple(_put(destination, folder, file) for file in FORMATS[started.format](source))
    return _describe(source, files, sum(file.row_count for file in files), changes)


def _put(destination: Destination, folder: str, written: TableFile) -> ExportedFile:
    with written.file as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        size = file.tell()
        file.seek(0)
        destination.put(f"{folder}/{written.path}", file)
    return ExportedFile(written.path, written.row_count, size, sha256, written.country)


def _describe(source: Source, files: Iterable[ExportedFile], row_count: int, changes: dict[str, int]) -> ExportedTable:
    table = source.table
    columns = tuple(ColumnShape(c.name, exported_type(c), bool(c.null), c.comment, c.privacy) for c in table.columns)
    return ExportedTable(table.name, table.meaning, table.key, columns, row_count, tuple(files), changes)
