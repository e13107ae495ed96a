"""Export the newest generation to a destination, in an order that makes a kill at any moment harmless.

Files are written first, then the manifest, then `_SUCCESS`, then `latest.json`. A reader that follows `latest.json`
sees either the previous export or this one, always complete. The name of an export is derived from its content, so a
repeated export finds what is done and resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from firmlake.core.clock import utc_now
from firmlake.core.errors import UsageError
from firmlake.core.failure import recorded_delivery
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.exports.decision import check_follows, choose_mode, holds, start
from firmlake.exports.destination import Destination, StoredFile, open_destination
from firmlake.exports.manifest import ExportManifest, name_latest, read_latest, read_manifest
from firmlake.exports.request import ExportRequest, check_request, request_of
from firmlake.exports.selection import last_load
from firmlake.exports.write import write_export
from firmlake.warehouse.exported import LastExport, lock_name, made_at, record_export, was_rebuilt
from firmlake.warehouse.generations import open_warehouse

__all__ = ["ExportRequest", "Exported", "export", "export_as_set", "request_of"]


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


# ---------------------------------------------------------------------------------------------------------------------


def _read_latest(destination: Destination) -> _Latest:
    latest = read_latest(destination)
    if latest is None:
        return _Latest(None, None)
    manifest = read_manifest(destination, latest[0].export_id)
    return _Latest(manifest, latest[1])  # if the manifest is missing, the next export is whole
