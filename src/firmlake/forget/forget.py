"""Forget persons, contacts and companies: write a tombstone for each, clean the sources, and derive the rest again.

Tombstones alone tell what to remove. If `firmlake forget` is killed, the next call finishes the work without needing
the names again.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.forget.copies import Copies
from firmlake.forget.proof import Place, find_places, search_generation
from firmlake.forget.sources import check_sources, clean_sources, remove_parts
from firmlake.intake.identifiers import read_company
from firmlake.landing.run import list_runs
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.privacy.tombstones import Subject, add_tombstones, read_register, write_register
from firmlake.privacy.words import name_words
from firmlake.rebuild.replay import begin_cleaning, check_derivable, derive_again, end_cleaning
from firmlake.report.page import write_report
from firmlake.tables.index import drop_index
from firmlake.tables.stage import clear_stage
from firmlake.warehouse.generations import find_held, list_generations, newest, newest_of_all

_FORMS = "person NAME, person NAME COUNTRY NUMBER, contact ID, or company COUNTRY NUMBER"
_NUMBER_OF_PARTS = {"person": (1, 3), "contact": (1,), "company": (1, 2)}


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
    previous = read_register(settings.privacy, folders)
    finished_count = sum(not one.is_done for one in previous[0].tombstones) if previous else 0
    register, key = add_tombstones(settings.privacy, folders, subjects, now(), is_dry=is_dry)
    forgotten = Forgotten(register, key)
    copies = Copies(folders, forgotten, settings, now, tell)
    if not register.tombstones:
        return Forgetting([], 0, 0, copies.out_of_reach())
    if is_dry:
        tell("Reading sources, staged tables and generations")
        places = [*find_places(folders, forgotten), *copies.find()]
        return Forgetting(places, len(subjects), 0, copies.out_of_reach(), tuple(forgotten.names.values()))
    tell("Checking lists, plans, landed answers and generations")
    current = [path for path in (newest(folders), find_held(folders)) if path]
    places = [place for path in current for place in search_generation(path, forgotten)]
    if agree and _has_other_names(forgotten, subjects):
        agree(tuple(forgotten.names.values()))
    check_sources(folders)
    check_derivable(folders)
    write_register(folders, register)
    places = _erase(folders, forgotten, copies, settings, now, tell, places)
    names = tuple(forgotten.names.values())
    return Forgetting(places, len(subjects), finished_count, copies.out_of_reach(), names, copies.failed)


def clean_restored(folders: Folders, settings: PrivacySettings) -> int:
    """Clean landed answers, plans and lists that were restored from a copy, before a replay reads them.

    Returns:
        The number of changed files; 0 if there are no tombstones.
    """
    changed = clean_merged(folders, settings)
    if changed:
        drop_index(folders)
        for run in list_runs(folders):
            if not run.is_pruned:
                clear_stage(run)  # the replay stages it again
    return len(changed)


def clean_merged(folders: Folders, settings: PrivacySettings) -> list[Place]:
    """Clean files fetched and staged from an archive, using the tombstones of the data folder that receives them."""
    forgotten = open_forgotten(settings, folders)
    return clean_sources(folders, forgotten) if forgotten else []


def read_subject(parts: Sequence[str]) -> Subject:
    """Read a subject from its parts: its kind, then a name, an id, or a country and a company number.

    Raises:
        UsageError: The parts are not a valid subject. The message does not repeat them, because logs keep messages.
    """
    kind, *rest = (part.strip() for part in parts)
    if len(rest) not in _NUMBER_OF_PARTS.get(kind, ()) or not all(rest):
        raise UsageError("This is not a person, contact or company", f"Give {_FORMS}")
    if kind == "company" and len(rest) == 1:
        rest = [rest[0][:2], rest[0][2:]]  # as in `firmlake changes --company "BE 0403227515"`
    company = _read_company(*rest[-2:]) if len(rest) > 1 else None
    if kind == "company":
        return Subject("company", "", company)
    return Subject("person", rest[0], company) if kind == "person" else Subject("contact", rest[0])


def read_subjects(path: Path) -> list[Subject]:
    """Read a file with one subject on each line, its parts separated by commas, semicolons or tabs.

    Raises:
        UsageError: The file cannot be read, or a line is not a valid subject. The message gives the line number.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    subjects = []
    for number, line in enumerate(lines, 1):
        delimiter = max(",;\t", key=line.count)
        for parts in csv.reader([line], delimiter=delimiter) if line.strip() else ():
            try:
                subjects.append(read_subject([part for part in parts if part.strip()]))
            except UsageError as error:
                raise UsageError(f"{path}, line {number}: {error.message}", error.next_step) from None
    return subjects


def _read_company(country: str, number: str) -> Company:
    try:
        return read_company(country.upper(), number)
    except UsageError:
        raise UsageError("The company number is not valid for this country", f"Give {_FORMS}") from None


def _erase(
    folders: Folders,
    forgotten: Forgotten,
    copies: Copies,
    settings: Settings,
    now: Callable[[], datetime],
    tell: Callable[[str], object],
    places: list[Place],
) -> list[Place]:
    """Clean the sources, derive the rest again, replace the copies; return all places, after those already found."""
    was_killed = begin_cleaning(folders)
    drop_index(folders)
    remove_parts(folders.data)
    tell("Cleaning lists, plans and landed answers")
    places = [*clean_sources(folders, forgotten), *places]
    is_due, has_warehouse = bool(places) or was_killed, newest_of_all(folders) is not None
    if is_due and has_warehouse:
        tell("Deriving staged tables and the newest generation again")
        derive_again(folders, now, settings.run)
    else:
        places += _remove_earlier(folders, forgotten)
    places += copies.clean(is_due=is_due)
    if (report := folders.data / "report.html").exists() and newest(folders) is not None:
        tell("Rendering report.html again")
        write_report(folders, now(), report, memory_limit=settings.run.duckdb_memory)
    if not copies.failed:
        write_register(folders, forgotten.register.done)
    end_cleaning(folders)
    return places


def _has_other_names(forgotten: Forgotten, subjects: Sequence[Subject]) -> bool:
    """Tell whether a name that would go has more words than that of a person to forget."""
    given = {name_words(subject.name) for subject in subjects if subject.kind == "person"}
    return bool(given and forgotten.names.keys() - given)


def _remove_earlier(folders: Folders, forgotten: Forgotten) -> Iterator[Place]:
    """Remove generations before the newest that name a subject, such as restored ones."""
    published = newest(folders)
    for path in list_generations(folders):
        if published and path.name != published.name and (found := list(search_generation(path, forgotten))):
            yield from found
            path.unlink()
