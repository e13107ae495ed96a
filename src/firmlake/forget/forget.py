"""Forget persons, contacts and companies: write a tombstone for each, then clean every file that names one.

The tombstones alone tell each step what to clean, and each file is replaced in one rename. If `firmlake forget` is
killed, the next call finishes the work without being given the names again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.exports.destination import open_destination
from firmlake.forget.copies import clean_archive, clean_export, known_archives
from firmlake.forget.frozen import clean_documents, clean_inputs, clean_runs, remove_parts
from firmlake.forget.generations import clean_generations, find_in_generation
from firmlake.forget.landed import clean_landing
from firmlake.forget.place import Place
from firmlake.forget.staged import clean_staged
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register, write_register
from firmlake.rebuild.finished import finished_runs
from firmlake.report.page import write_report
from firmlake.warehouse.exported import last_exports
from firmlake.warehouse.generations import newest

__all__ = ["Forgetting", "clean_restored", "find_places", "forget"]


class Forgetting(NamedTuple):
    """The result of one call of `forget`.

    Attributes:
        places: Where a forgotten subject was named, before cleaning.
        finished_count: Subjects of earlier, interrupted calls that are forgotten now.
        out_of_reach: Copies that firmlake knows about but cannot change, one sentence each.
    """

    places: list[Place]
    subject_count: int
    finished_count: int
    out_of_reach: list[str]


def forget(
    settings: Settings,
    subjects: Sequence[Subject],
    now: Callable[[], datetime],
    tell: Callable[[str], object] = lambda line: None,
    *,
    is_dry: bool = False,
) -> Forgetting:
    """Forget subjects, and finish the work of earlier calls that were interrupted.

    Args:
        settings: The data folder, the key, and the limits of the warehouse. The caller holds the folder's lock.
        subjects: Whom to forget. If empty, only interrupted calls are finished and restored files cleaned.
        now: The clock, UTC.
        tell: Receives a line for each step.
        is_dry: Find the places, but write nothing.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file, then call again. All landed
            answers and frozen tables are checked before the first change.
        SettingsError: The key of earlier tombstones is missing. Restore it.
    """
    folders = Folders.of(settings)
    held = read_register(settings.privacy, folders)
    begun = sum(not one.is_done for one in held[0].tombstones) if held else 0
    register, key = add_tombstones(settings.privacy, folders, subjects, now(), is_dry=is_dry)
    forgotten = Forgotten(register, key)
    finished_runs(folders)
    if not register.tombstones:
        return Forgetting([], 0, 0, _out_of_reach(folders))
    places = [*find_places(folders, forgotten, settings, tell), *_clean_copies(folders, forgotten, tell, write=False)]
    if is_dry:
        return Forgetting(places, len(subjects), 0, _out_of_reach(folders))
    write_register(folders, register)
    _clean(folders, forgotten, settings, now, tell)
    done = (msgspec.structs.replace(one, is_done=True) for one in register.tombstones)
    write_register(folders, msgspec.structs.replace(register, tombstones=tuple(done)))
    return Forgetting(places, len(subjects), begun, _out_of_reach(folders))


def find_places(
    folders: Folders, forgotten: Forgotten, settings: Settings, tell: Callable[[str], object] = lambda line: None
) -> Iterator[Place]:
    """Yield every place in a data folder that names a forgotten subject, without changing it."""
    return _walk(folders, forgotten, settings, tell, write=False)


def clean_restored(folders: Folders, settings: PrivacySettings) -> int:
    """Clean landed answers, plans and lists that were restored from a copy, before a replay reads them.

    Returns:
        The number of changed files; 0 if there are no tombstones.
    """
    forgotten = open_forgotten(settings, folders)
    if forgotten is None:
        return 0
    changed = list(_sources(folders, forgotten, write=True))
    if changed:
        for _ in clean_staged(folders, forgotten, write=True):
            pass
    return len(changed)


# ---------------------------------------------------------------------------------------------------------------------


def _walk(
    folders: Folders, forgotten: Forgotten, settings: Settings, tell: Callable[[str], object], *, write: bool
) -> Iterator[Place]:
    verb = "Cleaning" if write else "Reading"
    tell(f"{verb} lists, plans and landed answers")
    yield from _sources(folders, forgotten, write=write)
    tell(f"{verb} staged tables")
    yield from clean_staged(folders, forgotten, write=write)
    tell(f"{verb} generations of the warehouse")
    yield from clean_generations(folders, partial(find_in_generation, forgotten=forgotten), settings.run, write=write)


def _sources(folders: Folders, forgotten: Forgotten, *, write: bool) -> Iterator[Place]:
    """Clean the files from which staged tables and the warehouse are made."""
    for clean in (clean_inputs, clean_documents, clean_runs, clean_landing):
        yield from clean(folders, forgotten, write=write)


def _clean(
    folders: Folders,
    forgotten: Forgotten,
    settings: Settings,
    now: Callable[[], datetime],
    tell: Callable[[str], object],
) -> None:
    remove_parts(folders.data)
    for _ in _walk(folders, forgotten, settings, tell, write=True):
        pass
    for _ in _clean_copies(folders, forgotten, tell, write=True):
        pass
    report = folders.data / "report.html"
    if report.exists() and newest(folders) is not None:
        tell("Rendering report.html again")
        write_report(folders, now(), report, memory_limit=settings.run.duckdb_memory)


def _clean_copies(
    folders: Folders, forgotten: Forgotten, tell: Callable[[str], object], *, write: bool
) -> Iterator[Place]:
    """Clean the archives and exports recorded in the data folder."""
    verb = "Cleaning" if write else "Reading"
    for url in known_archives(folders):
        tell(f"{verb} the archive {url}")
        yield from clean_archive(open_destination(url), forgotten, _clean_folder, write=write)
    for last in last_exports(folders):
        tell(f"{verb} exports in {last.target}")
        yield from clean_export(open_destination(last.target, folders.readers), forgotten, write=write)


def _clean_folder(folders: Folders, forgotten: Forgotten) -> None:
    for _ in _sources(folders, forgotten, write=True):
        pass


def _out_of_reach(folders: Folders) -> list[str]:
    found = [
        f"{path.parent} is a data folder of its own: forget there too, with --data"
        for path in sorted(folders.data.glob("portfolios/*/state"))
    ]
    return [
        *found,
        "Copies and backups of the data folder: after restoring one, clean it with `firmlake forget` or `replay`",
        "Exported Delta Lake and Iceberg tables: export them again, then remove their old versions (vacuum)",
        "Old object versions in buckets with versioning: remove them with a lifecycle rule",
        "Files written by `--out`, `--log` and `report --to`, and databases that exports were loaded into",
    ]
