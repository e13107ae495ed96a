"""The copies that firmlake made outside the data folder: archives, exports and loaded databases.

An archive is a source, since it may be all that is left of pruned answers: it is cleaned as a data folder is. Exports
and loads are replaced by whole new ones; what they held before goes after that.
"""

from __future__ import annotations

import io
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import NamedTuple, TypeVar

import msgspec
import polars as pl

from firmlake.core.errors import FirmlakeError
from firmlake.core.files import remove_parts
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
from firmlake.privacy.forgotten import Forgotten
from firmlake.tables.schemas import WAREHOUSE_TABLES, Table
from firmlake.warehouse.exported import LastExport, drop_copy, known_archives, last_exports

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
_WRITTEN = (*_ARCHIVED, *_EXPORTED, "staged")
_TEXTS = ("text", "json")

R = TypeVar("R")


class _Copy(NamedTuple):
    """A copy: "archive", "export" or "load", its name for people, and the address by which it is recorded."""

    kind: str
    name: str
    address: str
    last: LastExport | None = None

    @property
    def gone(self) -> str:
        """The command that drops it from the record once it no longer exists."""
        return f"`firmlake forget --gone {quote(self.address)}`"


class Copies:
    """The copies recorded in a data folder; `tell` is called with a line for each.

    `failed` has the reason for each copy that the last call of `find` or `clean` could not read or clean, by name.
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
        return list(chain.from_iterable(self._each("Reading", self._find)))

    def clean(self, *, is_due: bool) -> None:
        """Clean archives and replace other copies: all if `is_due`, else only those that name a forgotten subject.

        One that fails is in `failed`.
        """
        self._each("Cleaning", partial(self._clean, is_due=is_due))

    def names(self) -> list[str]:
        """Return the names of the copies that the last call could read."""
        return [copy.name for copy in self._all() if copy.name not in self.failed]

    def out_of_reach(self) -> list[str]:
        """Describe the copies that could not be cleaned, and those that only the operator can clean, in sentences."""
        nested = sorted(self._folders.data.glob("portfolios/*/state"))
        prefect = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "prefect.db"
        return [
            *(f"{name[0].upper()}{name[1:]} was not cleaned: {why}" for name, why in self.failed.items()),
            *self._remarks,
            *(_NAMED.format(name=copy.name, gone=copy.gone) for copy in self._all() if self._is_named(copy)),
            *(f"{path.parent} is a separate data folder: forget there too, with --data" for path in nested),
            *([_PREFECT.format(path=prefect)] if prefect.exists() else []),
            *_ALWAYS,
        ]

    def _all(self) -> Iterator[_Copy]:
        for url in known_archives(self._folders):
            yield _Copy("archive", f"the archive {url}", url)
        for last in last_exports(self._folders):
            kind, name = ("load", "the database") if last.is_load else ("export", "the export in")
            yield _Copy(kind, f"{name} {last.target}", last.target, last)

    def _is_named(self, copy: _Copy) -> bool:
        return self._forgotten.clean(copy.name) != copy.name

    def _each(self, verb: str, work: Callable[[_Copy], R]) -> list[R]:
        self.failed, self._remarks = {}, []
        results: list[R] = []
        for copy in self._all():
            self._tell(f"{verb} {copy.name}")
            try:
                results.append(work(copy))
            except FirmlakeError as error:
                why = f"{error.message}. {error.next_step}".removesuffix(". ")
                self.failed[copy.name] = (
                    f"{why}. Then run `firmlake forget`; if the copy no longer exists, run {copy.gone}"
                )
        return results

    def _find(self, copy: _Copy) -> list[Place]:
        """Search all that a copy consists of, and return each file or table that names a forgotten subject."""
        counts: Counter[str] = Counter()
        for address, content in self._read_load(copy) if copy.kind == "load" else _read_files(copy):
            try:
                places, _ = search(address, content, self._forgotten)
            except UNREADABLE:  # the error would quote the file
                next_step = "Export again, and remove this file"
                raise FirmlakeError(f"{address} was changed since its export", next_step) from None
            if places:
                counts[address] += places[0].row_count
        return [Place(address, copy.kind, count) for address, count in counts.items()]

    def _read_load(self, copy: _Copy) -> Iterator[tuple[str, bytes]]:
        """Yield the texts of each loaded table as Parquet, in parts, each with the name of the table."""
        with open_target(self._request_of(copy)) as target:
            for table in _loaded_tables(target):
                schema = {column.name: pl.String for column in table.columns}
                for rows in target.read(table) if schema else ():
                    pl.DataFrame(rows, schema, orient="row").write_parquet(content := io.BytesIO())
                    yield f"{target.name} {table.name}", content.getvalue()

    def _clean(self, copy: _Copy, *, is_due: bool) -> None:
        if copy.kind == "archive":
            self._clean_archive(copy)
        elif is_due or self._find(copy):
            # What holds the newest generation is not made again, unless it names somebody all the same.
            make_again = self._export_again if copy.kind == "export" else self._load_again
            make_again(copy, is_named=not is_due)

    def _clean_archive(self, copy: _Copy) -> None:
        """Clean an archive like a data folder, and upload what changed, logs and plans last."""
        destination = open_destination(copy.address)
        with tempfile.TemporaryDirectory(prefix="firmlake-") as temporary:
            folders = Folders(Path(temporary))
            for address, content in _read_files(copy):
                path = folders.data / address.removeprefix(f"{destination.url}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            before = _identify_files(folders.data)
            clean_sources(folders, self._forgotten)
            after = _identify_files(folders.data)
            changed, gone = {path for path, _ in after.items() - before.items()}, before.keys() - after.keys()
            if changed or gone:
                destination.clear("staged")  # these tables hold the old values; the next replay makes them again
            for name in sorted(changed, key=lambda name: "/log/" in name or name.endswith("/plan.json")):
                with (folders.data / name).open("rb") as file:
                    destination.put(name, file)
        for name in gone:
            destination.remove(name)
        self._remove_rests(destination)

    def _export_again(self, copy: _Copy, *, is_named: bool) -> None:
        """Export the newest generation whole, as the last export was, and remove all earlier ones beside it."""
        destination = open_destination(copy.address, self._folders.readers)
        earlier, earlier_tables = destination.sizes("exports"), _tables_with_versions(destination)
        previous = FileTarget(destination).held()
        if previous is None:
            self._remove_exports(copy, destination)
            return
        request = Request(
            target=copy.address,
            format=previous.format,
            tables=tuple(table.name for table in previous.tables),
            mask=previous.mask,
            privacy=self._settings.privacy,
            memory_limit=self._settings.run.duckdb_memory,
        )
        if is_named:  # an export of another size has another name, so it is made beside the one that is there
            request = msgspec.structs.replace(request, file_bytes=request.file_bytes - secrets.randbelow(1_000_000))
        record = deliver(self._folders, request, now=self._now).record
        for format_, name in earlier_tables:
            is_kept = any(name in (table.delta_path, table.iceberg_table) for table in record.tables)
            lake = LAKES[format_](destination)
            (lake.drop_past if is_kept else lake.drop)(name)
        for path in earlier:  # last, because they name these tables
            if not path.startswith(f"{folder_of(record.delivery_id)}/"):
                destination.remove(path)
        self._remove_rests(destination)

    def _remove_exports(self, copy: _Copy, destination: Destination) -> None:
        """Remove exports of lists and of earlier days that name a forgotten subject, where no newest one is beside."""
        if not self._find(copy):
            return
        for format_, name in _tables_with_versions(destination):
            LAKES[format_](destination).drop(name)
        for path in destination.sizes("exports"):
            destination.remove(path)
        self._remove_rests(destination)
        drop_copy(self._folders, copy.address)

    def _load_again(self, copy: _Copy, *, is_named: bool) -> None:
        """Load the newest generation, and let the database overwrite or free the space of deleted rows."""
        request = self._request_of(copy)
        with open_target(request) as target:
            loaded = tuple(table.name for table in _loaded_tables(target))
        if not loaded:
            return
        request = msgspec.structs.replace(request, tables=loaded, mode="whole" if is_named else "changes")
        deliver(self._folders, request, now=self._now)
        with open_target(request) as target:
            self._remark(target.reclaim(loaded))

    def _request_of(self, copy: _Copy) -> Request:
        assert copy.last, "it is a load"
        address, schema = copy.last.database
        if address.startswith("duckdb:") and not Path(address.removeprefix("duckdb:")).exists():
            raise FirmlakeError(f"There is no file {address.removeprefix('duckdb:')}", "Make it available again")
        return Request(target=address, schema=schema, memory_limit=self._settings.run.duckdb_memory)

    def _remove_rests(self, destination: Destination) -> None:
        """Remove unfinished files and old versions of objects."""
        if isinstance(destination, Folder):
            for folder in _WRITTEN:
                remove_parts(destination.path / folder)
            for path in destination.path.glob(".latest.json.*.part"):
                path.unlink()
        self._remark(delete_versions(destination.url))

    def _remark(self, remark: str) -> None:
        if remark:
            self._remarks.append(remark)


def _read_files(copy: _Copy) -> Iterator[tuple[str, bytes]]:
    """Yield the address and content of each file of an archive or an export, and of the Iceberg tables it names."""
    destination = open_destination(copy.address)
    places = [(destination, folder) for folder in (_ARCHIVED if copy.kind == "archive" else _EXPORTED)]
    if not any(destination.sizes(folder) for _, folder in places):
        raise FirmlakeError(f"{destination.url} holds no {copy.kind}", "Make it available again")
    for format_, name in _tables_with_versions(destination) if copy.kind == "export" else ():
        if address := LAKES[format_](destination).location_of(name):
            places.append((open_destination(address), ""))
    files = {f"{where.url}/{path}": (where, path) for where, folder in places for path in where.sizes(folder)}
    for address, (where, path) in files.items():
        if found := where.read(path):
            yield address, found.content


def _tables_with_versions(destination: Destination) -> list[tuple[str, str]]:
    """List format and name of the Delta Lake and Iceberg tables that the exports in a destination wrote to."""
    manifests = (destination.read(path) for path in destination.sizes("exports") if path.endswith("/manifest.json"))
    records = [msgspec.json.decode(found.content, type=Record) for found in manifests if found]
    names = {(record.format, table.delta_path or table.iceberg_table) for record in records for table in record.tables}
    return sorted((format_, name) for format_, name in names if name)


def _loaded_tables(target: Database) -> Iterator[Table]:
    """Yield the tables that loads made in a database and that are still there, with their columns of text."""
    record, shapes = target.held(), target.shapes()
    for name in (table.name for table in (record.tables if record else ()) if table.name in shapes):
        if table := WAREHOUSE_TABLES.get(name):
            there = dict(shapes[name])
            texts = (column for column in table.columns if column.type in _TEXTS and column.name in there)
            yield table._replace(columns=tuple(texts))


def _identify_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of each file below a folder, which change when it is replaced."""
    files = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {path.relative_to(folder).as_posix(): (file.st_ino, file.st_mtime_ns) for path, file in files.items()}
