"""Export the newest generation to a destination, in an order that makes a kill at any moment harmless.

Files are written first, then the manifest, then `_SUCCESS`, then `latest.json`. A reader that follows `latest.json`
sees either the previous export or this one, always complete. The name of an export is derived from its content, so a
repeated export finds what is done and resumes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError, UsageError, first_line
from firmlake.core.failure import recorded_delivery
from firmlake.core.files import is_writable, make_folder
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.delivery import delta, iceberg
from firmlake.delivery.destination import Destination, StoredFile, open_destination
from firmlake.delivery.manifest import (
    ColumnShape,
    ExportedFile,
    ExportedTable,
    ExportManifest,
    describe_rows,
    folder_of,
    name_latest,
    read_latest,
    read_manifest,
    write_manifest,
)
from firmlake.delivery.selection import (
    BASE,
    CHANGE,
    EXPORTED_TABLES,
    LastLoad,
    Selected,
    as_held,
    attach,
    check_mask,
    exported_type,
    last_load,
    mask_columns,
    select_as_of,
    select_changes,
    select_whole,
)
from firmlake.delivery.table_files import FORMATS, Source, TableFile
from firmlake.privacy.key import read_key
from firmlake.privacy.tombstones import key_path
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, lock_name, made_at, record_export, was_rebuilt
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.loads import has_loaded, loaded_runs

TABLE_FORMATS = {"delta": "Delta Lake", "iceberg": "Iceberg"}
"""Formats that are tables with versions instead of files."""


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to export.

    Attributes:
        mode: `whole`; `changes` since the last export, or `whole` if these are no longer known; `as_of`, the state
            after the run `as_of`.
        format: A key of `FORMATS`, or one of `TABLE_FORMATS`.
        file_bytes: Approximate size of a Parquet file.
        company_list: Restricts the tables to the companies of this list; empty for all companies.
        mask: "drop" or "hash" by pattern of columns; see `masking`.
        privacy: Where the key of the hashes is.
    """

    mode: str = "whole"
    format: str = "parquet"
    as_of: str = ""
    tables: tuple[str, ...] = EXPORTED_TABLES
    file_bytes: int = 128_000_000
    memory_limit: str = "224MB"
    company_list: str = ""
    mask: dict[str, str] = {}
    privacy: PrivacySettings = PrivacySettings()


def request_of(settings: Settings, as_of: str = "", company_list: str = "") -> ExportRequest:
    """Make a request from the settings; `as_of` names a run, `company_list` a list."""
    wanted = settings.export
    return ExportRequest(
        mode="as_of" if as_of else "changes" if wanted.changes else "whole",
        format=wanted.format,
        as_of=as_of,
        tables=wanted.tables or EXPORTED_TABLES,
        file_bytes=wanted.file_megabytes * 1_000_000,
        memory_limit=settings.run.duckdb_memory,
        company_list=company_list,
        mask=dict(wanted.mask),
        privacy=settings.privacy,
    )


def check_request(request: ExportRequest) -> None:
    """Check the format and the mask of a request.

    Raises:
        UsageError: The format is unknown or does not support the mode, or the mask names no column.
    """
    check_mask(request.mask)
    if request.format not in (*FORMATS, *TABLE_FORMATS):
        known = (*FORMATS, *TABLE_FORMATS)
        raise UsageError(f"There is no format {request.format}", f"Choose one of {', '.join(known)}")
    if request.mode == "changes" and request.company_list:
        raise UsageError(
            "Changes cannot be exported for a single list", "Export the list whole, or the changes of all companies"
        )
    if request.mode == "as_of" and request.format in TABLE_FORMATS:
        raise UsageError(
            f"{TABLE_FORMATS[request.format]} tables keep their own history, so --as-of does not apply",
            "Export as Parquet",
        )


class Exported(NamedTuple):
    """The result of an export.

    Attributes:
        is_new: Whether anything was written; False if the same export existed already.
        note: Why the export is whole although changes were requested; empty otherwise.
    """

    manifest: ExportManifest
    is_new: bool
    note: str = ""


class _Latest(NamedTuple):
    """The export that `latest.json` names, and the file as it was read."""

    manifest: ExportManifest | None
    file: StoredFile | None


def export(
    folders: Folders,
    request: ExportRequest,
    destination: Destination,
    tell: Callable[[str], object] = lambda line: None,
    *,
    now: Callable[[], datetime] = utc_now,
) -> Exported:
    """Export the newest generation, unless the destination already has exactly this export.

    Args:
        folders: The data folder.
        request: What to export.
        destination: Where to write.
        tell: Called with a line for each table.
        now: The clock, UTC.

    Raises:
        UsageError: The request names an unknown table, run or format, or contradicts what the destination holds.
        LockHeldError: Another process exports from this data folder to this destination.
        FirmlakeError: Nothing is published yet, the destination fails, or another export has replaced `latest.json`.
    """
    check_request(request)
    with (
        recorded_delivery(folders.state, f"an export to {destination.url}"),
        open_warehouse(folders, memory_limit=request.memory_limit, company_list=request.company_list) as connection,
        lock(folders, f"an export to {destination.url}", lock_name(destination.url), is_reader=True),
    ):
        latest, load = _read_latest(destination), last_load(connection)
        if latest.manifest and request.mode != "as_of":
            check_follows(connection, folders, latest.manifest, destination)
        if request.mode == "changes" and latest.manifest and holds(latest.manifest, load, request):
            return Exported(latest.manifest, is_new=False)
        mode, note = choose_mode(
            connection, folders, request, latest.manifest, is_rebuilt=was_rebuilt(folders, destination.url)
        )
        started = start(request, mode, load, latest.manifest)
        done = read_manifest(destination, started.export_id)
        manifest = done or write_export(connection, folders, request, destination, started, tell)
        if mode == "as_of" or request.company_list:
            return Exported(manifest, is_new=done is None)
        is_named = latest.manifest is not None and latest.manifest.export_id == manifest.export_id
        if not is_named:
            name_latest(destination, manifest, latest.file)
        last = LastExport(
            target=destination.url,
            export_id=manifest.export_id,
            generation=manifest.generation,
            exported_at=now(),
            made_at=made_at(folders, manifest.generation),
        )
        if is_writable(folders.state):
            record_export(folders, last)
        else:
            note = f"{note}; " if note else ""
            note += f"not recorded in {folders.data}, which cannot be written to"
    return Exported(manifest, is_new=not is_named, note=note)


def export_as_set(
    settings: Settings,
    as_of: str = "",
    tell: Callable[[str], object] = lambda line: None,
    company_list: str = "",
) -> tuple[Exported, Destination]:
    """Export as set in the settings.

    Args:
        settings: `export.target` names the destination.
        as_of: A run; empty for the newest state.
        tell: Called with a line for each table.
        company_list: A list; empty for all companies.

    Returns:
        The export, and its destination.

    Raises:
        UsageError: No destination is named.
        FirmlakeError: As `export`.
    """
    if not settings.export.target:
        raise UsageError("No export target is named", "Run `firmlake export FOLDER`, or set export.target")
    folders = Folders.existing(settings)
    destination = open_destination(settings.export.target, folders.readers)
    return export(folders, request_of(settings, as_of, company_list), destination, tell), destination


def _read_latest(destination: Destination) -> _Latest:
    latest = read_latest(destination)
    if latest is None:
        return _Latest(None, None)
    manifest = read_manifest(destination, latest[0].export_id)
    return _Latest(manifest, latest[1])  # if the manifest is missing, the next export is whole


def check_follows(
    connection: duckdb.DuckDBPyConnection, folders: Folders, last: ExportManifest, destination: Destination
) -> None:
    """Check that a destination holds an earlier state of this data folder.

    Raises:
        FirmlakeError: The destination holds a later generation, or an export from another data folder.
    """
    load = last_load(connection)
    if last.published_at > load.published_at:
        raise FirmlakeError(
            f"{destination.url} holds a newer export, of generation {last.generation} from {last.published_at} UTC",
            "Export from the data folder that the newer export came from, or to another destination",
        )
    if not has_loaded(connection, folders, last.run_id):
        raise FirmlakeError(
            f"{destination.url} holds an export of run {last.run_id}, which is not in {folders.data}: it came from "
            "another data folder, or from a later copy of this one",
            "Export to another destination, or move that export away first",
        )


def holds(last: ExportManifest, load: LastLoad, request: ExportRequest) -> bool:
    """Return whether an export has everything that a request asks for."""
    return (
        (last.generation, last.published_at) == (load.generation, load.published_at)
        and last.format == request.format
        and last.mask == request.mask
        and {table.name for table in last.tables} >= set(request.tables)
    )


def choose_mode(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: ExportRequest,
    last: ExportManifest | None,
    *,
    is_rebuilt: bool = False,
) -> tuple[str, str]:
    """Decide whether changes can be exported; if so, attach the generation that they start from.

    Args:
        connection: The warehouse.
        folders: The data folder.
        request: What to export.
        last: The last export to the destination; None if there is none.
        is_rebuilt: Whether the generation exported last was rebuilt since then, so that changes would miss what was
            removed.

    Returns:
        The mode, and why it differs from the requested one.
    """
    if request.mode != "changes":
        return request.mode, ""
    if last is None:
        return "whole", "nothing was exported before"
    if last.format != request.format:
        return "whole", f"the last export was {last.format}"
    if last.mask != request.mask:
        return "whole", "the last export had another mask"
    if {table.name for table in last.tables} != set(request.tables):
        return "whole", "the last export had other tables"
    if is_rebuilt:
        return (
            "whole",
            f"generation {last.generation}, which was exported last, was rebuilt by `firmlake forget` or `prune`",
        )
    path = folders.generation(last.generation)
    if last.schema_version == SCHEMA_VERSION and path.exists():
        attach(connection, path)
        if last_load(connection, BASE).published_at == last.published_at:
            return "changes", ""
    return "whole", f"generation {last.generation}, which was exported last, is no longer kept"


def start(request: ExportRequest, mode: str, load: LastLoad, last: ExportManifest | None) -> ExportManifest:
    """Make the manifest of a new export, whose name is derived from everything that goes into the export."""
    previous = last.export_id if last and mode == "changes" else ""
    content: tuple[object, ...] = (
        request.format,
        request.tables,
        request.file_bytes,
        load.generation,
        load.published_at,
        previous,
    )
    if request.company_list:
        content = (*content, request.company_list)
    if request.mask:
        content = (*content, sorted(request.mask.items()))
    digest = hashlib.sha256(msgspec.json.encode((*content, SCHEMA_VERSION, __version__))).hexdigest()[:8]
    run_id = request.as_of if mode == "as_of" else load.run_id
    return ExportManifest(
        export_id=f"{run_id}-{mode}-{digest}",
        mode=mode,
        format=request.format,
        run_id=run_id,
        generation=load.generation,
        published_at=load.published_at,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
        previous=previous,
        mask=request.mask,
    )


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
