"""Exporting: from the newest generation to a target, in an order in which a kill at any moment does no harm.

Files first, then the manifest, then `_SUCCESS`, then `latest.json`: whoever follows that sees the export before or this
one, whole. An export is named by what goes into it; the same one again finds what is done and goes on there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb
import msgspec

from firmlake import __version__
from firmlake.errors import FirmlakeError, UsageError
from firmlake.exports.delta import commit
from firmlake.exports.formats import FORMATS, Source, TableFile
from firmlake.exports.manifest import (
    ColumnShape,
    ExportedFile,
    ExportedTable,
    Manifest,
    folder_of,
    name_latest,
    read_latest,
    read_manifest,
    write_manifest,
)
from firmlake.exports.selection import (
    BASE,
    CHANGE,
    EXPORTED_TABLES,
    Load,
    Selected,
    attach,
    exported_type,
    last_load,
    select_as_of,
    select_changes,
    select_whole,
)
from firmlake.exports.targets import Found, Target
from firmlake.files import make_folder
from firmlake.run import Folders
from firmlake.settings import Settings
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, record_export
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.load import loaded_runs

__all__ = ["Exported", "Request", "export", "request_of"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be exported.

    Attributes:
        mode: whole; changes: what changed since the last export to the target, and a whole one where that cannot be
            told any more; as_of: as it was after the run `as_of`.
        format: A key of `FORMATS`, or delta.
        file_bytes: About how large a Parquet file becomes.
    """

    mode: str = "whole"
    format: str = "parquet"
    as_of: str = ""
    tables: tuple[str, ...] = EXPORTED_TABLES
    file_bytes: int = 128_000_000
    memory_limit: str = "512MB"


def request_of(settings: Settings, as_of: str = "") -> Request:
    """Make a request from the settings; `as_of` names a run."""
    wanted = settings.export
    return Request(
        mode="as_of" if as_of else "changes" if wanted.changes else "whole",
        format=wanted.format,
        as_of=as_of,
        tables=wanted.tables or EXPORTED_TABLES,
        file_bytes=wanted.file_megabytes * 1_000_000,
        memory_limit=settings.run.duckdb_memory,
    )


class Exported(NamedTuple):
    """What came of it.

    Attributes:
        is_new: Whether anything was written; not where the same export was there already.
        note: Why it is whole although changes were asked for; empty otherwise.
    """

    manifest: Manifest
    is_new: bool
    note: str = ""


class _Held(NamedTuple):
    """The export that `latest.json` names, and that file as it was read."""

    manifest: Manifest | None
    file: Found | None


def export(
    folders: Folders,
    request: Request,
    target: Target,
    tell: Callable[[str], object] = lambda line: None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Exported:
    """Export from the newest generation, unless exactly this is done already.

    Args:
        folders: The data folder.
        request: What.
        target: Where.
        tell: Gets a line for each table.
        now: Gives the time, UTC.

    Raises:
        UsageError: The request names what there is not, or does not go with what the target holds.
        FirmlakeError: Nothing is published yet; the target fails; another export came between.
    """
    _check(request)
    held = _read_held(target)
    with open_warehouse(folders) as connection:
        connection.execute(f"SET memory_limit = '{request.memory_limit}'")
        load = last_load(connection)
        if held.manifest and request.mode != "as_of":
            _check_order(held.manifest, load, target)
        if request.mode == "changes" and held.manifest and _holds(held.manifest, load, request):
            return Exported(held.manifest, is_new=False)
        mode, note = _decide(connection, folders, request, held.manifest)
        started = _start(request, mode, load, held.manifest)
        done = read_manifest(target, started.export_id)
        manifest = done or _write(connection, folders, request, target, started, tell)
    if mode == "as_of":
        return Exported(manifest, is_new=done is None)
    is_named = held.manifest is not None and held.manifest.export_id == manifest.export_id
    if not is_named:
        name_latest(target, manifest, held.file)
    last = LastExport(
        target=target.url, export_id=manifest.export_id, generation=manifest.generation, exported_at=now()
    )
    record_export(folders, last)
    return Exported(manifest, is_new=not is_named, note=note)


# ---------------------------------------------------------------------------------------------------------------------


def _check(request: Request) -> None:
    if request.format not in (*FORMATS, "delta"):
        raise UsageError(f"There is no format {request.format}", f"There are {', '.join(FORMATS)} and delta")
    if request.mode == "as_of" and request.format == "delta":
        raise UsageError("A Delta Lake table keeps its earlier versions itself", "Export the past as Parquet")


def _read_held(target: Target) -> _Held:
    latest = read_latest(target)
    if latest is None:
        return _Held(None, None)
    manifest = read_manifest(target, latest[0].export_id)
    return _Held(manifest, latest[1])  # a manifest that was removed is as good as none: the next export is whole


def _check_order(held: Manifest, load: Load, target: Target) -> None:
    if held.published_at > load.published_at:
        raise FirmlakeError(
            f"{target.url} holds a newer export, of generation {held.generation} from {held.published_at} UTC",
            "Export from the data folder that it came from, or to another place",
        )


def _holds(held: Manifest, load: Load, request: Request) -> bool:
    return (
        (held.generation, held.published_at) == (load.generation, load.published_at)
        and held.format == request.format
        and {table.name for table in held.tables} >= set(request.tables)
    )


def _decide(
    connection: duckdb.DuckDBPyConnection, folders: Folders, request: Request, held: Manifest | None
) -> tuple[str, str]:
    """Decide whether changes can be told; the generation that they start from is then attached."""
    if request.mode != "changes":
        return request.mode, ""
    if held is None:
        return "whole", "nothing was exported before"
    if held.format != request.format:
        return "whole", f"the last export was {held.format}"
    if {table.name for table in held.tables} != set(request.tables):
        return "whole", "the last export had other tables"
    path = folders.warehouse / f"gen_{held.generation:06}.duckdb"
    if held.schema_version == SCHEMA_VERSION and path.exists():
        attach(connection, path)
        if last_load(connection, BASE).published_at == held.published_at:
            return "changes", ""
    return "whole", f"generation {held.generation}, which was exported last, is no longer kept"


def _start(request: Request, mode: str, load: Load, held: Manifest | None) -> Manifest:
    """Name an export by all that goes into it."""
    previous = held.export_id if held and mode == "changes" else ""
    content = (request.format, request.tables, request.file_bytes, load.generation, load.published_at, previous)
    digest = hashlib.sha256(msgspec.json.encode((*content, SCHEMA_VERSION, __version__))).hexdigest()[:8]
    run_id = request.as_of if mode == "as_of" else load.run_id
    return Manifest(
        export_id=f"{run_id}-{mode}-{digest}",
        mode=mode,
        format=request.format,
        run_id=run_id,
        generation=load.generation,
        published_at=load.published_at,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
        previous=previous,
    )


def _write(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: Request,
    target: Target,
    started: Manifest,
    tell: Callable[[str], object],
) -> Manifest:
    target.clear(folder_of(started.export_id))  # what a killed one left
    make_folder(folders.state)
    tables = []
    for selected in _select(connection, request, started):
        source = Source(connection, selected, folders.state, request.file_bytes)
        table = _write_table(source, target, started)
        tell(f"{table.name}: {table.row_count:,} rows, {sum(file.byte_count for file in table.files):,} bytes")
        tables.append(table)
    manifest = msgspec.structs.replace(started, tables=tuple(tables))
    write_manifest(target, manifest)
    return manifest


def _select(connection: duckdb.DuckDBPyConnection, request: Request, started: Manifest) -> list[Selected]:
    if started.mode == "as_of":
        return select_as_of(request.tables, request.as_of, loaded_runs(connection))
    return select_changes(request.tables) if started.mode == "changes" else select_whole(request.tables)


def _write_table(source: Source, target: Target, started: Manifest) -> ExportedTable:
    changes = dict(source.counts(CHANGE.name)) if started.mode == "changes" else {}
    if started.format == "delta":
        committed = commit(
            source, target.url, started.export_id, started.published_at, is_whole=started.mode == "whole"
        )
        return _describe(source, (), committed.row_count, changes, committed.path, committed.version)
    folder = folder_of(started.export_id)
    files = tuple(_put(target, folder, file) for file in FORMATS[started.format](source))
    return _describe(source, files, sum(file.row_count for file in files), changes)


def _put(target: Target, folder: str, written: TableFile) -> ExportedFile:
    with written.file as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        size = file.tell()
        file.seek(0)
        target.put(f"{folder}/{written.path}", file)
    return ExportedFile(written.path, written.row_count, size, sha256, written.country)


def _describe(
    source: Source,
    files: Iterable[ExportedFile],
    row_count: int,
    changes: dict[str, int],
    delta_path: str = "",
    delta_version: int | None = None,
) -> ExportedTable:
    table = source.table
    columns = tuple(ColumnShape(c.name, exported_type(c), bool(c.null), c.comment) for c in table.columns)
    return ExportedTable(
        table.name, table.meaning, table.key, columns, row_count, tuple(files), changes, delta_path, delta_version
    )
