"""The description of an export, `manifest.json`, and `latest.json`, which names the newest complete export.

latest.json                                      the only file that is ever replaced
exports/<export>/<table>/country=BE/part-*.parquet
exports/<export>/manifest.json                   after all files
exports/<export>/_SUCCESS                        after the manifest
"""

from __future__ import annotations

import hashlib
import io
from datetime import datetime
from typing import Any

import msgspec

from firmlake.core.errors import DamagedError
from firmlake.core.files import encode_json
from firmlake.core.text import count_of
from firmlake.delivery.destination import Destination, StoredFile

__all__ = [
    "LATEST",
    "ColumnShape",
    "ExportManifest",
    "ExportedFile",
    "ExportedTable",
    "Latest",
    "describe_rows",
    "folder_of",
    "name_latest",
    "read_latest",
    "read_manifest",
    "write_manifest",
]

LATEST = "latest.json"


class ExportedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file.

    Attributes:
        path: Below the export's folder.
        country: The country of all its rows if the table is split by country, else empty.
    """

    path: str
    row_count: int
    byte_count: int
    sha256: str
    country: str = ""


class ColumnShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: its type as DuckDB spells it, and how its values relate to natural persons (`tables.schemas`)."""

    name: str
    type: str
    nullable: bool
    comment: str
    privacy: str = ""


class ExportedTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One table.

    Attributes:
        key: Columns that identify a row; empty if the export lacks one of them.
        changes: Rows by kind of change, in an export of changes.
        delta_path: Path of the Delta Lake table below the destination, if it was written to one.
        delta_version: Version of the Delta Lake table that holds the export.
        iceberg_table: Name of the Iceberg table in its catalog, if it was written to one.
        iceberg_snapshot: Snapshot of the Iceberg table that holds the export.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[ColumnShape, ...]
    row_count: int
    files: tuple[ExportedFile, ...] = ()
    changes: dict[str, int] = {}
    delta_path: str = ""
    delta_version: int | None = None
    iceberg_table: str = ""
    iceberg_snapshot: int | None = None

    @property
    def byte_count(self) -> int:
        """Bytes of its files."""
        return sum(file.byte_count for file in self.files)


class ExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content and the origin of an export.

    Attributes:
        mode: `whole` replaces all exports before it; `changes` holds the changes since `previous`; `as_of` holds the
            state after a run and is never named by `latest.json`.
        run_id: The last run, overview, plan of contacts or new name of a list that is included.
        generation: The generation it was made from, published at `published_at`, UTC.
        previous: The export that `changes` apply to; empty for the other modes.
        mask: Columns that were dropped or hashed, by pattern.
    """

    export_id: str
    mode: str
    format: str
    run_id: str
    generation: int
    published_at: datetime
    schema_version: int
    firmlake_version: str
    previous: str = ""
    mask: dict[str, str] = {}
    tables: tuple[ExportedTable, ...] = ()

    @property
    def row_count(self) -> int:
        """Rows of all tables."""
        return sum(table.row_count for table in self.tables)

    @property
    def byte_count(self) -> int:
        """Bytes of all files."""
        return sum(table.byte_count for table in self.tables)


class Latest(msgspec.Struct, frozen=True):
    """The newest whole export, and the hash of its manifest."""

    export_id: str
    manifest: str
    manifest_sha256: str
    published_at: datetime


def describe_rows(part: ExportManifest | ExportedTable) -> str:
    """Describe the size of an export or one of its tables; the bytes of a Delta Lake table are not counted."""
    return count_of(part.row_count, "row") + (f", {part.byte_count:,} bytes" if part.byte_count else "")


def folder_of(export_id: str) -> str:
    """Return the folder of an export, below the destination."""
    return f"exports/{export_id}"


def read_manifest(destination: Destination, export_id: str) -> ExportManifest | None:
    """Read the manifest of a complete export; None if the export is incomplete."""
    folder = folder_of(export_id)
    found = destination.read(f"{folder}/_SUCCESS") and destination.read(f"{folder}/manifest.json")
    return _decode(f"{destination.url}/{folder}/manifest.json", found.content, ExportManifest) if found else None


def write_manifest(destination: Destination, manifest: ExportManifest) -> None:
    """Write the manifest and the success marker of an export whose files are written."""
    folder = folder_of(manifest.export_id)
    destination.put(f"{folder}/manifest.json", io.BytesIO(encode_json(manifest)))
    destination.put(f"{folder}/_SUCCESS", io.BytesIO())


def read_latest(destination: Destination) -> tuple[Latest, StoredFile] | None:
    """Read which export is the newest; None before the first export."""
    found = destination.read(LATEST)
    return (_decode(f"{destination.url}/{LATEST}", found.content, Latest), found) if found else None


def name_latest(destination: Destination, manifest: ExportManifest, known: StoredFile | None) -> None:
    """Make `latest.json` name an export, if the file has not changed since it was read.

    Raises:
        FirmlakeError: Another export has replaced the file.
    """
    path = f"{folder_of(manifest.export_id)}/manifest.json"
    found = destination.read(path)
    assert found  # it was written or read before
    latest = Latest(manifest.export_id, path, hashlib.sha256(found.content).hexdigest(), manifest.published_at)
    destination.replace(LATEST, encode_json(latest), known)


# ---------------------------------------------------------------------------------------------------------------------


def _decode(where: str, content: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{where} cannot be read: {error}", "Export to another folder, or remove this file"
        ) from None
