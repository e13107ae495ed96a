"""Pruning: what is old and can be spared, never what is still needed.

Needed is

    a generation      the newest, those kept by number, and the one that an export of changes starts from
    a staged run      that is not in the warehouse, or whose landed answers are gone
    landed answers    of a run that is not in the warehouse, or that is not staged whole
    both              of a run of which the one that would stay is damaged

Of a run's landed answers and staged tables one always stays, so that `firmlake replay` gives the same. Landed answers
are what was paid for, and all that a later version can flatten anew: copy them elsewhere before you prune them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from firmlake.core.errors import DamagedError
from firmlake.core.files import sync_folder
from firmlake.core.run import Folders, Run, open_run, read_runs
from firmlake.tables.stage import check_landed, check_staged, read_manifest
from firmlake.warehouse.exported import exported_generations
from firmlake.warehouse.generations import generation_number, list_generations, newest, open_warehouse
from firmlake.warehouse.load import loaded_runs

__all__ = ["Spared", "find_spared", "prune"]

_GOING = ".going-"
"""Start of the name of a folder that is being removed: nobody else takes it for a run."""


class Spared(NamedTuple):
    """What can be spared: generation, staged or landed.

    Attributes:
        byte_count: What it takes on disk.
        ended_at: When its run ended, UTC; None for a generation.
    """

    kind: str
    path: Path
    byte_count: int
    ended_at: datetime | None = None


def find_spared(
    folders: Folders,
    now: datetime,
    *,
    keep_generations: int,
    staged_days: int | None = None,
    landed_days: int | None = None,
) -> tuple[list[Spared], dict[str, DamagedError]]:
    """Find what can be spared; nothing is changed.

    Args:
        folders: The data folder.
        now: UTC.
        keep_generations: Newest generations that stay.
        staged_days: Staged runs that ended longer ago go; None keeps all.
        landed_days: The same for landed answers. A run that is old enough for both loses its landed answers only.

    Returns:
        What can be spared; and by name the runs in the warehouse that keep all because they are damaged.
    """
    found = list(_generations(folders, keep_generations))
    found += [_measured("rest", path) for path in _rests(folders)]
    if newest(folders) is None:
        return found, {}
    with open_warehouse(folders) as connection:
        loaded = set(loaded_runs(connection))
    runs, unreadable = read_runs(folders)
    damaged = {run_id: error for run_id, error in unreadable.items() if run_id in loaded}
    for run in runs:
        outcome = run.outcome()
        if run.run_id in loaded and outcome:
            age = now - outcome.finished_at
            try:
                found += _of_run(run, outcome.finished_at, _is_over(age, staged_days), _is_over(age, landed_days))
            except DamagedError as error:
                damaged[run.run_id] = error
    return found, damaged


def prune(folders: Folders, spared: Iterable[Spared]) -> None:
    """Remove what can be spared; a kill in between leaves each whole, gone, or to be removed by the next."""
    for each in spared:
        if each.kind == "landed":
            open_run(folders, each.path.name.removeprefix("run=")).mark_pruned()
        if each.path.is_dir():
            going = each.path if each.kind == "rest" else each.path.with_name(_GOING + each.path.name)
            if going != each.path:
                each.path.rename(going)
                sync_folder(going.parent)
            shutil.rmtree(going)
        else:
            each.path.unlink()


# ---------------------------------------------------------------------------------------------------------------------


def _generations(folders: Folders, keep: int) -> Iterator[Spared]:
    held = list_generations(folders)
    needed = {newest(folders), *held[-keep:]}
    exported = exported_generations(folders)
    for path in held:
        if path not in needed and generation_number(path) not in exported:
            yield _measured("generation", path)


def _of_run(run: Run, ended_at: datetime, is_staged_old: bool, is_landed_old: bool) -> Iterator[Spared]:
    landed, staged = run.folders.data / "landing" / f"run={run.run_id}", run.folders.staged(run.run_id)
    if run.is_pruned or not landed.exists():
        if run.is_pruned and landed.exists():  # a prune was killed after its mark
            yield _measured("landed", landed, ended_at)
        return
    manifest = read_manifest(run)
    if is_landed_old and manifest:
        check_staged(run, manifest)
        yield _measured("landed", landed, ended_at)
    elif is_staged_old and staged.exists():
        if manifest:
            check_landed(run, manifest)
        yield _measured("staged", staged, ended_at)


def _rests(folders: Folders) -> Iterator[Path]:
    """What a killed prune or verification left."""
    yield from folders.data.glob(f"*/{_GOING}*")
    yield from folders.data.glob(".verify-*")


def _is_over(age: timedelta, days: int | None) -> bool:
    return days is not None and age > timedelta(days=days)


def _measured(kind: str, path: Path, ended_at: datetime | None = None) -> Spared:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return Spared(kind, path, sum(each.stat().st_size for each in files), ended_at)
