"""Clean the copies that firmlake made outside the data folder: archives, exports and loaded databases."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote

import msgspec
import polars as pl

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.delivery.database import Database, Shape
from firmlake.delivery.deliver import Request, deliver, open_target
from firmlake.delivery.destination import Destination, Folder, delete_versions, open_destination
from firmlake.forget.copies import clean_archive, clean_export, drop_archive, has_hashes, known_archives
from firmlake.forget.place import Place, count_changed
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.exported import LastExport, export_record, last_exports, lock_name

_TEXTS = ("text", "json")


def clean_load(
    folders: Folders,
    last: LastExport,
    forgotten: Forgotten,
    settings: Settings,
    now: Callable[[], datetime],
    remarks: list[str],
    *,
    write: bool,
) -> Iterator[Place]:
    """Clean a database, after the generations of the data folder were cleaned.

    Args:
        folders: The data folder.
        last: The last load into the database.
        forgotten: The forgotten subjects.
        settings: The memory limit of DuckDB.
        now: The clock, UTC.
        remarks: Gets a sentence appended about deleted rows that the database keeps elsewhere.
        write: False only finds the places.

    Yields:
        A place for each table that names a forgotten subject.

    Raises:
        FirmlakeError: The database cannot be reached, or holds a load from another data folder.
    """
    address, schema = last.database
    if address.startswith("duckdb:") and not Path(address.removeprefix("duckdb:")).exists():
        raise FirmlakeError(f"There is no file {address.removeprefix('duckdb:')}", "Make it available again")
    request = Request(target=address, schema=schema, mode="whole", memory_limit=settings.run.duckdb_memory)
    with open_target(request) as target:
        there, held = target.shapes(), target.held()
        names = [table.name for table in held.tables] if held else []
        loaded = {name: there[name] for name in names if name in there and name in WAREHOUSE_TABLES}
        places = list(_find(target, loaded, forgotten))
    if write and loaded and (places or not forgotten.register.is_done):
        if places:
            deliver(folders, msgspec.structs.replace(request, tables=tuple(loaded)), now=now)
        with open_target(request) as target:
            if remark := target.reclaim(tuple(loaded)):
                remarks.append(remark)
    yield from places


# ---------------------------------------------------------------------------------------------------------------------


def _find(target: Database, loaded: Mapping[str, Shape], forgotten: Forgotten) -> Iterator[Place]:
    for name, shape in loaded.items():
        known = WAREHOUSE_TABLES[name]
        texts = tuple(column for column in known.columns if column.type in _TEXTS and column.name in dict(shape))
        if not texts:
            continue
        count = 0
        for rows in target.read(known._replace(columns=texts)):
            frame = pl.DataFrame(rows, schema={column.name: pl.String for column in texts}, orient="row")
            count += count_changed(frame, clean_frame(frame, forgotten))
        if count:
            yield Place(f"{target.name} {name}", "load", count)


__all__ = ["Copies", "drop_copy"]

_ALWAYS = (
    "Copies and backups of the data folder: after restoring one, clean it with `firmlake forget` or `replay`",
    "Files written by `--out`, `--log`, `--page` and `report --to`, and databases that exports were loaded into",
)
_PREFECT = (
    "Prefect's database {path} keeps log lines, parameters and artifacts: delete the flow runs that name a forgotten "
    "subject there"
)
_HASHED = (
    "Exports in {url} have columns hashed by `export.mask`, in which forgotten subjects cannot be found: export whole "
    "again"
)
_NAMED = (
    "The address of {name} names a forgotten subject, and is kept to reach the copy: move the copy to another address, "
    "then run {gone}"
)
_OURS = ("exports", "landing", "runs", "state", "staged")
"""Folders of archives and exports in which only firmlake writes."""
Clean = Callable[[], Iterator[Place]]


class Copies:
    """The copies recorded in a data folder, and those that could not be cleaned.

    Args:
        folders: The data folder.
        forgotten: The forgotten subjects.
        settings: Limits of DuckDB.
        now: The clock, UTC.
        tell: Called with a line for each copy.
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

    def clean(self, *, write: bool) -> list[Place]:
        """Clean every copy; one that fails is recorded in `failed` and does not stop the others.

        Args:
            write: False only finds the places.

        Returns:
            The places that named a forgotten subject.
        """
        self.failed, self._remarks = {}, []
        places: list[Place] = []
        for name, gone, clean in self._all(write=write):
            self._tell(f"{'Cleaning' if write else 'Reading'} {name}")
            if self._forgotten.clean(name) != name:
                self._remarks.append(_NAMED.format(name=name, gone=gone))
            try:
                places += clean()
            except FirmlakeError as error:
                why = f"{error.message}. {error.next_step}".removesuffix(". ")
                self.failed[name] = f"{why}. Then run `firmlake forget`; if the copy no longer exists, run {gone}"
        return places

    def names(self) -> list[str]:
        """Return the names of the copies that the last `clean` could read."""
        return [name for name, _, _ in self._all(write=False) if name not in self.failed]

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

    # -----------------------------------------------------------------------------------------------------------------

    def _all(self, *, write: bool) -> Iterator[tuple[str, str, Clean]]:
        """Yield the name of each copy, the command to drop it once it no longer exists, and a function to clean it."""
        for url in known_archives(self._folders):
            gone = f"`firmlake forget --gone {quote(url)}`"
            yield f"the archive {url}", gone, partial(self._archive, url, write=write)
        for last in last_exports(self._folders):
            gone = f"`firmlake forget --gone {quote(last.target)}`"
            if last.is_load:
                yield f"the database {last.target}", gone, partial(self._load, last, write=write)
            else:
                yield f"the export in {last.target}", gone, partial(self._export, last, write=write)

    def _archive(self, url: str, *, write: bool) -> Iterator[Place]:
        destination = open_destination(url)
        places = list(clean_archive(destination, self._forgotten, write=write))
        self._drop_versions(destination, places, write=write)
        yield from places

    def _export(self, last: LastExport, *, write: bool) -> Iterator[Place]:
        destination = open_destination(last.target, self._folders.readers)
        what = f"firmlake forget in {destination.url}"
        with lock(self._folders, what, lock_name(destination.url), is_reader=True) if write else nullcontext():
            places = []
            for place in clean_export(destination, self._forgotten, write=write):
                places.append(place)
                yield place
            self._drop_versions(destination, places, write=write)
        if has_hashes(destination):
            self._remarks.append(_HASHED.format(url=destination.url))

    def _load(self, last: LastExport, *, write: bool) -> Iterator[Place]:
        yield from clean_load(
            self._folders, last, self._forgotten, self._settings, self._now, self._remarks, write=write
        )

    def _drop_versions(self, destination: Destination, places: list[Place], *, write: bool) -> None:
        """Delete old versions of objects, including those that a killed call left, and unfinished files in a folder."""
        if write and isinstance(destination, Folder):
            unfinished = (path for folder in _OURS for path in (destination.path / folder).rglob("*.part"))
            for path in [*unfinished, *destination.path.glob(".latest.json.*.part")]:
                path.unlink()
        if write and (places or not self._forgotten.register.is_done) and (remark := delete_versions(destination.url)):
            self._remarks.append(remark)


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
        drop_archive(folders, address)
    if address in exports:
        export_record(folders, address).unlink()


def _logs() -> Iterator[str]:
    """Describe the database of a local Prefect server, if there is one."""
    path = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "prefect.db"
    if path.exists():
        yield _PREFECT.format(path=path)
