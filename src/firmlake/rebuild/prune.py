"""Prune a data folder: remove what is old and no longer needed.

Pruning always keeps

    a generation      if it is the newest, among the number to keep, or the start of a load or an export of changes
    a staged run      if it is not in the warehouse, or if its landed answers are gone
    landed answers    if their run is not in the warehouse, or not completely staged; their headers in any case
    both of a run     if the one that would stay is damaged
    a kept list       if an unfinished run has its name

Either the landed answers or the staged tables of a run stay, so that `firmlake replay` gives the same result. Copy
landed answers before you prune them: they are what was paid for, and only they can be flattened by a later version.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.landing.run import Run, open_run, read_runs, remove_unused_lists
from firmlake.landing.segments import read_segment, rewrite_segment
from firmlake.tables.stage import check_landed, check_staged, read_manifest
from firmlake.warehouse.exported import export_record, exported_generations, last_exports
from firmlake.warehouse.generations import generation_number, list_generations, newest, open_warehouse
from firmlake.warehouse.loads import loaded_runs


class Removable(NamedTuple):
    """Something that can be removed.

    It is a "generation", "staged", "landed" for the bodies of answers, "list" for a kept copy of a list that was not a
    file, or "rest" for the remains of a killed verification.
    """

    kind: str
    path: Path
    byte_count: int  # on disk
    ended_at: datetime | None = None  # when its run ended, UTC; None if it belongs to no run


class Pinned(NamedTuple):
    """An old generation that is kept only because an export or a load starts from it."""

    generation: Path
    byte_count: int
    target: str  # of the export, or database and schema of the load
    record: Path  # the file that records the export or load; without it, nothing is kept


def find_pinned(folders: Folders, *, keep_generations: int) -> list[Pinned]:
    """List the old generations that are kept because an export or a load starts from them, with its target."""
    needed = _needed(folders, keep_generations)
    old = {generation_number(path): path for path in list_generations(folders) if path not in needed}
    return [
        Pinned(old[one.generation], old[one.generation].stat().st_size, one.target, export_record(folders, one.target))
        for one in last_exports(folders)
        if one.generation in old
    ]


def find_removable(
    folders: Folders,
    now: datetime,
    *,
    keep_generations: int,
    staged_days: int | None = None,
    landed_days: int | None = None,
    landed_days_of: Callable[[Run], int | None] = lambda run: None,
) -> tuple[list[Removable], dict[str, DamagedError]]:
    """Find what can be removed, without changing anything. None keeps all of a kind.

    Args:
        keep_generations: The number of newest generations to keep.
        staged_days: Remove staged tables of runs that ended more than this many days ago, and copies of lists made more
            than this many days ago.
        landed_days: Remove landed answers of runs that ended more than this many days ago. If a run is old enough for
            both, only its landed answers are removed.
        landed_days_of: Overrides `landed_days` for single runs; None means no override.

    Returns:
        What can be removed; and, by name, the runs in the warehouse that are kept whole because they are damaged.
    """
    needed, exported = _needed(folders, keep_generations), exported_generations(folders)
    old = (path for path in list_generations(folders) if path not in needed)
    found = [_measured("generation", path) for path in old if generation_number(path) not in exported]
    found += [_measured("rest", path) for path in folders.data.glob(".verify-*")]
    if newest(folders) is None:
        return found, {}
    with open_warehouse(folders) as connection:
        loaded = set(loaded_runs(connection))
    runs, unreadable = read_runs(folders)
    unfinished = {run.plan.list_name for run in runs if run.outcome() is None}
    found += _lists(folders, now, staged_days, unfinished)
    damaged = {run_id: error for run_id, error in unreadable.items() if run_id in loaded}
    for run in runs:
        outcome = run.outcome()
        if run.run_id in loaded and outcome:
            age = now - outcome.finished_at
            try:
                of_run = landed_days_of(run)
                is_landed_old = _is_over(age, landed_days if of_run is None else of_run)
                found += _of_run(run, outcome.finished_at, _is_over(age, staged_days), is_landed_old)
            except DamagedError as error:
                damaged[run.run_id] = error
    return found, damaged


def prune(folders: Folders, removable: Iterable[Removable], now: datetime) -> None:
    """Remove what `find_removable` found. If the process is killed, the next prune goes on."""
    for each in removable:
        if each.kind == "landed":
            open_run(folders, each.path.name.removeprefix("run=")).mark_pruned(now)
            for segment in each.path.glob(_SEGMENTS):
                rewrite_segment(segment, [(landed.header, None) for landed in read_segment(segment)])
        elif each.path.is_dir():
            (each.path / "manifest.json").unlink(missing_ok=True)  # first: without it, the rest is no staged run
            shutil.rmtree(each.path)
        else:
            each.path.unlink()
    remove_unused_lists(folders)


def _needed(folders: Folders, keep: int) -> set[Path | None]:
    return {newest(folders), *list_generations(folders)[-keep:]}


def _lists(folders: Folders, now: datetime, days: int | None, unfinished: Collection[str]) -> Iterator[Removable]:
    for path in sorted(folders.inputs.glob("*/*")):
        made_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        if path.name not in unfinished and _is_over(now - made_at, days):
            yield _measured("list", path.parent)


def _of_run(run: Run, ended_at: datetime, is_staged_old: bool, is_landed_old: bool) -> Iterator[Removable]:
    landed, staged, is_pruned = run.folders.landing(run.run_id), run.folders.staged(run.run_id), run.is_pruned
    manifest = read_manifest(run)
    is_of_answers = is_pruned or (is_landed_old and manifest is not None)
    is_of_tables = not is_of_answers and is_staged_old and run.has_landed and staged.exists()
    if not is_pruned and (is_of_answers or is_of_tables):
        run.check()
        if manifest:
            check_landed(run, manifest)
        if manifest and is_of_answers:
            check_staged(run, manifest)
    if is_of_tables:
        yield _measured("staged", staged, ended_at)
    elif is_of_answers:  # those of a pruned run have bodies if the prune was killed
        frames = (one.body_frame for path in landed.glob(_SEGMENTS) for one in read_segment(path))
        if size := sum(map(len, frames)):
            yield Removable("landed", landed, size, ended_at)


_SEGMENTS = "shard=*/[0-9]*.zst"


def _is_over(age: timedelta, days: int | None) -> bool:
    return days is not None and age > timedelta(days=days)


def _measured(kind: str, path: Path, ended_at: datetime | None = None) -> Removable:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return Removable(kind, path, sum(each.stat().st_size for each in files), ended_at)
