"""The last export to each place. Its generation is kept, since the next export of changes starts from it."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path

import msgspec

from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders

__all__ = ["LastExport", "exported_generations", "last_exports", "lock_name", "record_export"]


class LastExport(msgspec.Struct, frozen=True, kw_only=True):
    """The last export to a place."""

    target: str
    export_id: str
    generation: int
    exported_at: datetime


def record_export(folders: Folders, last: LastExport) -> None:
    """Record an export. It replaces the record of the previous export to the same place."""
    write_json(_folder(folders) / f"{_name(last.target)}.json", last)


def lock_name(target: str) -> str:
    """Name the lock that exports to a place take."""
    return f"exports/{_name(target)}.lock"


def last_exports(folders: Folders) -> list[LastExport]:
    """List the last export to each place, sorted by place.

    Raises:
        DamagedError: A record was changed. Remove it; the next export writes it again.
    """
    return sorted(map(_read, _folder(folders).glob("*.json")), key=lambda last: last.target)


def exported_generations(folders: Folders) -> set[int]:
    """Return the numbers of the generations that exports of changes start from."""
    return {last.generation for last in last_exports(folders)}


# ---------------------------------------------------------------------------------------------------------------------


def _folder(folders: Folders) -> Path:
    return folders.state / "exports"


def _name(target: str) -> str:
    return hashlib.sha256(target.encode()).hexdigest()[:16]


def _read(path: Path) -> LastExport:
    return read_json(path, LastExport, "Remove it; the next export writes it again")
