"""Records of the copies outside a data folder: archives, and the last export or load to each target.

The generation of an export is kept, because the next changes start from it. `firmlake forget` reaches the copies by
these records.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from shlex import quote

import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders

_DATABASES = ("postgres://", "postgresql://", "snowflake://", "bigquery://", "duckdb:")


class LastExport(msgspec.Struct, frozen=True, kw_only=True):
    """The last export to a target, or the last load into a schema of a database."""

    target: str  # the destination; for a load, the database without credentials, a space, and the schema
    export_id: str
    generation: int  # 0 if the destination has only exports of lists or of earlier days
    exported_at: datetime
    address: str = ""  # for a load, the address of the database; empty in records of earlier versions

    @property
    def is_load(self) -> bool:
        """Whether this is a load into a database."""
        return is_database(self.target)

    @property
    def database(self) -> tuple[str, str]:
        """The address of the database and the schema of a load."""
        name, _, schema = self.target.rpartition(" ")
        return self.address or name, schema


def is_database(address: str) -> bool:
    """Return whether an address is that of a database, and not of a folder or store."""
    return address.startswith(_DATABASES)


def record_export(folders: Folders, last: LastExport) -> None:
    """Record an export, replacing the record of the previous export to the same target."""
    write_json(export_record(folders, last.target), last)


def export_record(folders: Folders, target: str) -> Path:
    """Return the file that records the last export or load to a target."""
    return _folder(folders) / f"{_name(target)}.json"


def made_at(folders: Folders, generation: int) -> str:
    """Return time and size of the file of a generation: a restored data folder may give another the same number."""
    status = folders.generation(generation).stat()
    return f"{status.st_mtime_ns}-{status.st_size}"


def lock_name(target: str) -> str:
    """Return the name of the lock for exports to a target."""
    return f"exports/{_name(target)}.lock"


def last_exports(folders: Folders) -> list[LastExport]:
    """List the last export to each target, sorted by target; after a DamagedError, remove the record."""
    return sorted(map(_read, _folder(folders).glob("*.json")), key=lambda last: last.target)


def exported_generations(folders: Folders) -> set[int]:
    """Return the numbers of the generations that exports of changes start from."""
    return {last.generation for last in last_exports(folders) if last.generation}


def known_archives(folders: Folders) -> list[str]:
    """List the archives that this data folder was copied to."""
    path = _archives_record(folders)
    return list(read_json(path, tuple[str, ...])) if path.exists() else []


def note_archive(folders: Folders, url: str) -> None:
    """Record an archive, so that `firmlake forget` cleans it too."""
    if url not in (known := known_archives(folders)):
        write_json(_archives_record(folders), (*known, url))


def drop_copy(folders: Folders, address: str) -> None:
    """Remove a copy that no longer exists from the record, so that `forget` and proofs no longer look for it.

    The address is that of an archive or an export, or database and schema of a load, as `forget` names it. If no such
    copy is recorded, the UsageError lists all copies.
    """
    archives, exports = known_archives(folders), [last.target for last in last_exports(folders)]
    if address not in (*archives, *exports):
        known = ", ".join(map(quote, sorted({*archives, *exports}))) or "none"
        raise UsageError(f"No copy is recorded at {address}", f"The copies are: {known}")
    if address in archives:
        write_json(_archives_record(folders), tuple(url for url in archives if url != address))
    if address in exports:
        export_record(folders, address).unlink()


def _archives_record(folders: Folders) -> Path:
    return folders.state / "archives.json"


def _folder(folders: Folders) -> Path:
    return folders.state / "exports"


def _name(target: str) -> str:
    return hashlib.sha256(target.encode()).hexdigest()[:16]


def _read(path: Path) -> LastExport:
    return read_json(path, LastExport, "Remove it; the next export writes it again")
