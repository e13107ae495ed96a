"""Forget persons, contacts and companies: write a tombstone for each, then clean every file that names one.

Each step knows what to clean from the tombstones alone, and each file is replaced in one rename. If `firmlake forget`
is killed, the next call finishes the work without needing the names again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.forget.documents import remove_parts
from firmlake.forget.generations import check_generations, clean_generations, find_in_generation
from firmlake.forget.place import Place
from firmlake.forget.reach import Copies
from firmlake.forget.sources import check_sources, clean_sources
from firmlake.forget.staged import clean_staged
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register, write_register
from firmlake.privacy.words import name_words
from firmlake.rebuild.replay import finished_runs
from firmlake.report.page import write_report
from firmlake.tables.index import drop_index
from firmlake.warehouse.generations import newest

__all__ = ["Forgetting", "clean_merged", "clean_restored", "forget"]


class Forgetting(NamedTuple):
    """The result of one call of `forget`.

    Attributes:
        places: Where a forgotten subject was named. After an interrupted call, only what was left to clean.
        finished_count: Subjects of earlier, interrupted calls that are now forgotten.
        out_of_reach: Copies that firmlake cannot change or could not reach, one sentence each, with what to do.
        names: The different names in staged tables and generations from which a person was removed, or would be.
        failed: The reason for each recorded copy that could not be cleaned, by name. The next call tries again.
    """

    places: list[Place]
    subject_count: int
    finished_count: int
    out_of_reach: list[str]
    names: Sequence[str] = ()
    failed: Mapping[str, str] = MappingProxyType({})

    @property
    def is_complete(self) -> bool:
        """Whether every recorded copy was cleaned."""
        return not self.failed


def forget(
    settings: Settings,
    subjects: Sequence[Subject],
    now: Callable[[], datetime],
    tell: Callable[[str], object] = lambda line: None,
    *,
    is_dry: bool = False,
    agree: Callable[[Sequence[str]], object] | None = None,
) -> Forgetting:
    """Forget subjects, and finish the work of earlier calls that were interrupted.

    Args:
        settings: The data folder, the key, and the limits of the warehouse. The caller holds the folder's lock.
        subjects: The subjects to forget. If empty, only interrupted calls are finished and restored files cleaned.
        now: The clock, UTC.
        tell: Called with a line for each step.
        is_dry: Find the places, but write nothing.
        agree: Called before anything is written with all names that would go, if other names than those given are
            among them; raises an error if they are not meant. None takes them all.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file, then call again. All landed
            answers, lists, targets and generations are checked before the first change.
        SettingsError: The key of earlier tombstones is missing. Restore it.
    """
    folders = Folders.of(settings)
    held = read_register(settings.privacy, folders)
    begun = sum(not one.is_done for one in held[0].tombstones) if held else 0
    register, key = add_tombstones(settings.privacy, folders, subjects, now(), is_dry=is_dry)
    forgotten = Forgotten(register, key)
    finished_runs(folders)
    copies = Copies(folders, forgotten, settings, now, tell)
    if not register.tombstones:
        return Forgetting([], 0, 0, copies.out_of_reach())
    if is_dry:
        places = [*find_places(folders, forgotten, settings, tell), *copies.clean(write=False)]
        return Forgetting(places, len(subjects), 0, copies.out_of_reach(), tuple(forgotten.names.values()))
    if agree:
        _ask_about_names(folders, forgotten, subjects, settings, agree)
    tell("Checking lists, plans, landed answers and generations")
    check_sources(folders)
    check_generations(folders)
    write_register(folders, register)
    drop_index(folders)
    remove_parts(folders.data)
    places = [*_walk(folders, forgotten, settings, tell, write=True), *copies.clean(write=True)]
    _render_report(folders, settings, now, tell)
    if not copies.failed:
        done = (msgspec.structs.replace(one, is_done=True) for one in register.tombstones)
        write_register(folders, msgspec.structs.replace(register, tombstones=tuple(done)))
    names = tuple(forgotten.names.values())
    return Forgetting(places, len(subjects), begun, copies.out_of_reach(), names, copies.failed)


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
    changed = list(clean_sources(folders, forgotten, write=True))
    if changed:
        drop_index(folders)
        for _ in clean_staged(folders, forgotten, write=True):
            pass
    return len(changed)


def clean_merged(folders: Folders, settings: PrivacySettings) -> None:
    """Clean files fetched and staged from an archive, using the tombstones of the data folder that receives them."""
    if forgotten := open_forgotten(settings, folders):
        for clean in (clean_sources, clean_staged):
            for _ in clean(folders, forgotten, write=True):
                pass


# ---------------------------------------------------------------------------------------------------------------------


def _ask_about_names(
    folders: Folders,
    forgotten: Forgotten,
    subjects: Sequence[Subject],
    settings: Settings,
    agree: Callable[[Sequence[str]], object],
) -> None:
    """Find the names that would go, and ask if one has more words than the name of a person to forget."""
    given = {name_words(subject.name) for subject in subjects if subject.kind == "person"}
    if not given:
        return
    for _ in _walk_tables(folders, forgotten, settings, write=False):
        pass
    if forgotten.names.keys() - given:
        agree(tuple(forgotten.names.values()))


def _walk_tables(folders: Folders, forgotten: Forgotten, settings: Settings, *, write: bool) -> Iterator[Place]:
    yield from clean_staged(folders, forgotten, write=write)
    yield from clean_generations(folders, partial(find_in_generation, forgotten=forgotten), settings.run, write=write)


def _walk(
    folders: Folders, forgotten: Forgotten, settings: Settings, tell: Callable[[str], object], *, write: bool
) -> Iterator[Place]:
    verb = "Cleaning" if write else "Reading"
    tell(f"{verb} lists, plans and landed answers")
    yield from clean_sources(folders, forgotten, write=write)
    tell(f"{verb} staged tables and generations of the warehouse")
    yield from _walk_tables(folders, forgotten, settings, write=write)


def _render_report(
    folders: Folders, settings: Settings, now: Callable[[], datetime], tell: Callable[[str], object]
) -> None:
    report = folders.data / "report.html"
    if report.exists() and newest(folders) is not None:
        tell("Rendering report.html again")
        write_report(folders, now(), report, memory_limit=settings.run.duckdb_memory)
