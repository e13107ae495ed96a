"""The copies that firmlake made outside the data folder: archives, exports and loaded databases.

An archive is a source, since it may be all that is left of pruned answers: it is cleaned as a data folder is. Exports
and loads are replaced by whole new ones; what they held before goes after that.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.files import read_json, write_file, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.delivery.database import Database
from firmlake.delivery.deliver import Request, deliver, open_target
from firmlake.delivery.destination import Destination, Folder, delete_versions, open_destination
from firmlake.delivery.files import FileTarget, folder_of
from firmlake.delivery.lakes import LAKES
from firmlake.delivery.record import Record
from firmlake.forget.proof import UNREADABLE, Place, search
from firmlake.forget.sources import clean_sources
from firmlake.privacy.cleaning import clean_frame, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.tables.schemas import WAREHOUSE_TABLES, Column
from firmlake.warehouse.exported import LastExport, export_record, last_exports
from firmlake.warehouse.generations import generation_number, newest

_ALWAYS = (
    "Copies and backups of the data folder: after restoring one, clean it with `firmlake forget` or `replay`",
    "Files written by `--out`, `--log`, `--page` and `report --to`, and databases that exports were loaded into",
)
_PREFECT = (
    "Prefect's database {path} keeps log lines, parameters and artifacts: delete the flow runs that name a forgotten "
    "subject there"
)
_NAMED = (
    "The address of {name} names a forgotten subject, and is kept to reach the copy: move the copy to another address, "
    "then run {gone}"
)
_ARCHIVED = ("landing", "state")
_EXPORTED = ("exports", *LAKES)
_TEXTS = ("text", "json")


class _Copy(NamedTuple):
    """A copy: its kind, its name for people, and the address by which it is recorded."""

    kind: str
    name: str
    address: str
    last: LastExport | None

    @property
    def gone(self) -> str:
        """The command that drops it from the record once it no longer exists."""
        return f"`firmlake forget --gone {quote(self.address)}`"


class Copies:
    """The copies recorded in a data folder.

    Args:
        folders: The data folder.
        forgotten: The forgotten subjects.
        settings: Limits of DuckDB, and where the key of masks is.
        now: The clock, UTC.
        tell: Called with a line for each copy.

    Attributes:
        failed: The reason for each copy that the last call of `find` or `clean` could not read or clean, by name.
    """

    def __init__(
        self,
        folders: Folders,
        forgotten: Forgotten,
        settings: Settings,
        now: Callable[[], datetime],
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._folders, self._forgotten, self._settings = folders, forgotten, settings
        self._now, self._tell = now, tell
        self.failed: dict[str, str] = {}
        self._remarks: list[str] = []

    def find(self) -> list[Place]:
        """Find the places in all copies that name a forgotten subject; a copy that cannot be read is in `failed`."""
        return self._each("Reading", self._find)

    def clean(self, *, is_due: bool) -> list[Place]:
        """Clean every copy; one that fails is in `failed` and does not stop the others.

        Args:
            is_due: Replace all exports and loads; False only those that name a forgotten subject.

        Returns:
            The places that were cleaned.
        """
        return self._each("Cleaning", lambda copy: self._clean(copy, is_due=is_due))

    def names(self) -> list[str]:
        """Return the names of the copies that the last call could read."""
        return [copy.name for copy in self._all() if copy.name not in self.failed]

    def out_of_reach(self) -> list[str]:
        """Describe the copies that could not be cleaned, and those that only the operator can clean, in sentences."""
        nested = sorted(self._folders.data.glob("portfolios/*/state"))
        return [
            *(f"{name[0].upper()}{name[1:]} was not cleaned: {why}" for name, why in self.failed.items()),
            *self._remarks,
            *(f"{path.parent} is a separate data folder: forget there too, with --data" for path in nested),
            *_logs(),
            *_ALWAYS,
        ]

    def _all(self) -> Iterator[_Copy]:
        for url in known_archives(self._folders):
            yield _Copy("archive", f"the archive {url}", url, None)
        for last in last_exports(self._folders):
            kind, name = ("load", "the database") if last.is_load else ("export", "the export in")
            yield _Copy(kind, f"{name} {last.target}", last.target, last)

    def _each(self, verb: str, work: Callable[[_Copy], list[Place]]) -> list[Place]:
        self.failed, self._remarks = {}, []
        places: list[Place] = []
        for copy in self._all():
            self._tell(f"{verb} {copy.name}")
            if self._forgotten.clean(copy.name) != copy.name:
                self._remarks.append(_NAMED.format(name=copy.name, gone=copy.gone))
            try:
                places += work(copy)
            except FirmlakeError as error:
                why = f"{error.message}. {error.next_step}".removesuffix(". ")
                self.failed[copy.name] = (
                    f"{why}. Then run `firmlake forget`; if the copy no longer exists, run {copy.gone}"
                )
        return places

    def _find(self, copy: _Copy) -> list[Place]:
        if copy.last is None:
            return list(_find_in_archive(open_destination(copy.address), self._forgotten))
        if copy.kind == "load":
            return list(_find_in_database(self._database(copy.last), self._forgotten))
        return list(_find_in_export(open_destination(copy.address), self._forgotten))

    def _clean(self, copy: _Copy, *, is_due: bool) -> list[Place]:
        is_unfinished = not self._forgotten.register.is_done
        if copy.last is None:
            destination = open_destination(copy.address)
            places = _clean_archive(destination, self._forgotten)
            if places or is_unfinished:
                self._remark(_remove_rests(destination))
            return places
        is_due = is_due or (is_unfinished and not self._is_of_newest(copy.last))
        places = [Place(copy.address, copy.kind, 1)] if is_due else self._find(copy)
        if copy.kind == "load":
            self._load_again(copy.last, is_needed=bool(places), is_unfinished=is_unfinished)
        elif places:
            self._export_again(copy.last)
        elif is_unfinished:
            self._remark(_remove_rests(open_destination(copy.address)))
        return places

    def _is_of_newest(self, last: LastExport) -> bool:
        published = newest(self._folders)
        return published is not None and generation_number(published) == last.generation

    def _load_again(self, last: LastExport, *, is_needed: bool, is_unfinished: bool) -> None:
        """Load the newest generation whole, and let the database overwrite or free the space of deleted rows."""
        request = self._database(last)
        with open_target(request) as target:
            loaded = tuple(_loaded_tables(target))
        if loaded and is_needed:
            deliver(self._folders, msgspec.structs.replace(request, tables=loaded), now=self._now)
        if loaded and (is_needed or is_unfinished):
            with open_target(request) as target:
                self._remark(target.reclaim(loaded))

    def _database(self, last: LastExport) -> Request:
        address, schema = last.database
        if address.startswith("duckdb:") and not Path(address.removeprefix("duckdb:")).exists():
            raise FirmlakeError(f"There is no file {address.removeprefix('duckdb:')}", "Make it available again")
        return Request(target=address, schema=schema, mode="whole", memory_limit=self._settings.run.duckdb_memory)

    def _export_again(self, last: LastExport) -> None:
        """Export the newest generation whole, as the last export was, and remove all earlier ones beside it."""
        destination = open_destination(last.target, self._folders.readers)
        previous = FileTarget(destination).held()
        if previous is None:
            raise FirmlakeError(f"{destination.url} holds no export", "Make it available again")
        earlier, earlier_tables = destination.sizes("exports"), _tables_with_versions(destination)
        request = Request(
            target=last.target,
            format=previous.format,
            tables=tuple(table.name for table in previous.tables),
            mask=previous.mask,
            privacy=self._settings.privacy,
            memory_limit=self._settings.run.duckdb_memory,
        )
        record = deliver(self._folders, request, now=self._now).record
        for format_, name in earlier_tables:
            is_kept = any(name in (table.delta_path, table.iceberg_table) for table in record.tables)
            lake = LAKES[format_](destination)
            (lake.drop_past if is_kept else lake.drop)(name)
        for path in earlier:  # last, because they name these tables
            if not path.startswith(f"{folder_of(record.delivery_id)}/"):
                destination.remove(path)
        self._remark(_remove_rests(destination))

    def _remark(self, remark: str) -> None:
        if remark:
            self._remarks.append(remark)


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

    Args:
        folders: The data folder.
        address: The address of an archive or an export, or database and schema of a load, as `Copies` names them.

    Raises:
        UsageError: No such copy is recorded. The next step lists all copies.
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


@contextmanager
def _downloaded(destination: Destination) -> Iterator[Folders]:
    """Download an archive into a data folder of its own.

    Raises:
        FirmlakeError: There is no archive at the address.
    """
    with tempfile.TemporaryDirectory(prefix="firmlake-") as name:
        folders = Folders(Path(name))
        for path in (path for folder in _ARCHIVED for path in destination.sizes(folder)):
            found = destination.read(path)
            assert found, "it was listed"
            write_file(folders.data / path, lambda aside, content=found.content: aside.write_bytes(content))  # type: ignore[misc]
        if not any(folders.data.iterdir()):
            raise FirmlakeError(f"{destination.url} holds no archive", "Make it available again")
        yield folders


def _contents(folders: Folders) -> dict[str, bytes]:
    paths = [path for path in sorted(folders.data.rglob("*")) if path.is_file()]
    return {path.relative_to(folders.data).as_posix(): path.read_bytes() for path in paths}


def _find_in_archive(destination: Destination, forgotten: Forgotten) -> Iterator[Place]:
    with _downloaded(destination) as folders:
        for path, content in _contents(folders).items():
            for place in search(folders.data / path, content, forgotten)[0]:
                yield place._replace(path=f"{destination.url}/{path}")


def _clean_archive(destination: Destination, forgotten: Forgotten) -> list[Place]:
    """Clean an archive like a data folder, and upload what changed, logs and plans last."""
    with _downloaded(destination) as folders:
        before = _contents(folders)
        clean_sources(folders, forgotten)
        after = _contents(folders)
    changed = [path for path, content in after.items() if content != before.get(path)]
    gone = before.keys() - after.keys()
    if changed or gone:
        destination.clear("staged")  # these tables hold the old values; the next replay makes them again
    for path in sorted(changed, key=lambda path: "/log/" in path or path.endswith("/plan.json")):
        destination.put(path, io.BytesIO(after[path]))
    for path in gone:
        destination.remove(path)
    return [Place(f"{destination.url}/{path}", "archive", 1) for path in sorted({*changed, *gone})]


def _find_in_export(destination: Destination, forgotten: Forgotten) -> Iterator[Place]:
    """Search all objects that exports wrote to a destination, and to the Iceberg tables that it names."""
    if not destination.sizes("exports"):
        raise FirmlakeError(f"{destination.url} holds no export", "Make it available again")
    places = [(destination, folder) for folder in _EXPORTED]
    for format_, name in _tables_with_versions(destination):
        if address := LAKES[format_](destination).location_of(name):
            places.append((open_destination(address), ""))
    searched = set()
    for where, folder in places:
        for path in where.sizes(folder):
            address = f"{where.url}/{path}"
            if address not in searched and (found := where.read(path)):
                searched.add(address)
                yield from _search(address, found.content, forgotten)


def _search(address: str, content: bytes, forgotten: Forgotten) -> list[Place]:
    try:
        return search(address, content, forgotten)[0]
    except UNREADABLE:  # the error would quote the file
        next_step = "Export again, and remove this file"
        raise FirmlakeError(f"{address} was changed since its export", next_step) from None


def _tables_with_versions(destination: Destination) -> list[tuple[str, str]]:
    """List format and name of the Delta Lake and Iceberg tables that the exports in a destination wrote to."""
    manifests = (destination.read(path) for path in destination.sizes("exports") if path.endswith("/manifest.json"))
    records = [msgspec.json.decode(found.content, type=Record) for found in manifests if found]
    names = {(record.format, table.delta_path or table.iceberg_table) for record in records for table in record.tables}
    return sorted((format_, name) for format_, name in names if name)


def _loaded_tables(target: Database) -> dict[str, tuple[Column, ...]]:
    """Return the tables that loads made in a database and that are still there, with their columns of text."""
    record, shapes = target.held(), target.shapes()
    return {
        table.name: tuple(
            column
            for column in WAREHOUSE_TABLES[table.name].columns
            if column.type in _TEXTS and column.name in dict(shapes[table.name])
        )
        for table in (record.tables if record else ())
        if table.name in shapes and table.name in WAREHOUSE_TABLES
    }


def _find_in_database(request: Request, forgotten: Forgotten) -> Iterator[Place]:
    with open_target(request) as target:
        for name, texts in _loaded_tables(target).items():
            schema = {column.name: pl.String for column in texts}
            parts = target.read(WAREHOUSE_TABLES[name]._replace(columns=texts)) if texts else ()
            frames = (pl.DataFrame(rows, schema, orient="row") for rows in parts)
            if count := sum(count_changed(frame, clean_frame(frame, forgotten)) for frame in frames):
                yield Place(f"{target.name} {name}", "load", count)


def _remove_rests(destination: Destination) -> str:
    """Remove unfinished files and old versions of objects; return where old versions may be left, or an empty text."""
    if isinstance(destination, Folder):
        for folder in (*_ARCHIVED, *_EXPORTED, "staged"):
            for path in (destination.path / folder).rglob("*.part"):
                path.unlink()
        for path in destination.path.glob(".latest.json.*.part"):
            path.unlink()
    return delete_versions(destination.url)


def _logs() -> Iterator[str]:
    """Describe the database of a local Prefect server, if there is one."""
    path = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "prefect.db"
    if path.exists():
        yield _PREFECT.format(path=path)
