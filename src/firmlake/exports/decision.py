"""Decide whether to export anything, as changes or whole, and under which name."""

from __future__ import annotations

import hashlib

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.exports.destination import Destination
from firmlake.exports.manifest import ExportManifest
from firmlake.exports.request import ExportRequest
from firmlake.exports.selection import BASE, LastLoad, attach, last_load
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.loads import has_loaded

__all__ = ["check_follows", "choose_mode", "holds", "start"]


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
