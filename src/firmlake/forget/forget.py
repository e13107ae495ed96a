"""Forget persons, contacts and companies: write a tombstone for each, clean the sources, and derive the rest again.

Tombstones alone tell what to remove. If `firmlake forget` is killed, the next call finishes the work without needing
the names again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from firmlake.core.files import remove_parts
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.forget.copies import Copies
from firmlake.forget.proof import Place, find_places
from firmlake.forget.sources import check_sources, clean_sources
from firmlake.landing.run import list_runs
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register, write_register
from firmlake.privacy.words import name_words
from firmlake.rebuild.replay import begin_cleaning, check_derivable, derive_again, end_cleaning
from firmlake.report.page import write_report
from firmlake.tables.index import drop_index
from firmlake.tables.stage import clear_stage
from firmlake.warehouse.generations import newest, newest_of_all


class Forgetting(NamedTuple):
    """The result of one call of `forget`.

    Attributes:
        places: Where a subject is named, the same in a dry run. After an interrupted call, only what was left.
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
    """Forget subjects, and finish the work of earlier calls that were interrupted. The caller holds the folder's lock.

    Args:
        subjects: If empty, only interrupted calls are finished and restored files cleaned.
        tell: Called with a line for each step.
        is_dry: Find the places, but write nothing.
        agree: Called before anything is written with all names that would go, if other names than those given are among
            them; raises an error if they are not meant. None takes them all.

    Raises:
        DamagedError: The contents of a file do not match its checksum. Restore the file, then call again. All landed
            answers, lists, targets and generations are checked before the first change.
        SettingsError: The key of earlier tombstones is missing. Restore it.
    """
    folders = Folders.of(settings)
    previous = read_register(settings.privacy, folders)
    finished_count = sum(not one.is_done for one in previous[0].tombstones) if previous else 0
    register, key = add_tombstones(settings.privacy, folders, subjects, now(), is_dry=is_dry)
    forgotten = Forgotten(register, key)
    copies = Copies(folders, forgotten, settings, now, tell)
    if not register.tombstones:
        return Forgetting([], 0, 0, copies.out_of_reach())
    tell("Searching lists, plans, landed answers, staged tables and generations")
    check_sources(folders)
    found = find_places(folders, forgotten)
    places, names = [*found, *copies.find()], tuple(forgotten.names.values())
    if is_dry:
        return Forgetting(places, len(subjects), 0, copies.out_of_reach(), names)
    given = {name_words(subject.name) for subject in subjects if subject.kind == "person"}
    if agree and given and forgotten.names.keys() - given:
        agree(names)
    check_derivable(folders)
    write_register(folders, register)
    _erase(folders, forgotten, copies, settings, now, tell, is_named=bool(found), is_left=finished_count > 0)
    return Forgetting(places, len(subjects), finished_count, copies.out_of_reach(), names, copies.failed)


def clean_restored(folders: Folders, settings: PrivacySettings) -> int:
    """Clean landed answers, plans and lists from a copy or an archive before they are loaded, and pruned tables.

    Returns the number of changed files; 0 if there are no tombstones.
    """
    forgotten = open_forgotten(settings, folders)
    changed = clean_sources(folders, forgotten) if forgotten else 0
    if changed:
        drop_index(folders)
        for run in list_runs(folders):
            if not run.is_pruned:
                clear_stage(run)  # the replay stages it again
    return changed


def _erase(
    folders: Folders,
    forgotten: Forgotten,
    copies: Copies,
    settings: Settings,
    now: Callable[[], datetime],
    tell: Callable[[str], object],
    *,
    is_named: bool,
    is_left: bool,
) -> None:
    """Clean the sources, derive the rest again, replace the copies.

    Generations and all copies are made again if the data folder names a subject (`is_named`), and copies also if an
    earlier call did not end (`is_left`).
    """
    was_killed = begin_cleaning(folders)
    drop_index(folders)
    remove_parts(folders.data)
    tell("Cleaning lists, plans and landed answers")
    is_due = clean_sources(folders, forgotten) > 0 or is_named or was_killed
    if is_due and newest_of_all(folders) is not None:
        tell("Deriving staged tables and the newest generation again")
        derive_again(folders, now, settings.run)
    copies.clean(is_due=is_due or is_left)
    if (report := folders.data / "report.html").exists() and newest(folders) is not None:
        tell("Rendering report.html again")
        write_report(folders, now(), report, memory_limit=settings.run.duckdb_memory)
    if not copies.failed:
        write_register(folders, forgotten.register.done)
    end_cleaning(folders)
