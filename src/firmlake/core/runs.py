"""The runs of a data folder: all of them, the damaged and the unfinished ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from firmlake.core.errors import DamagedError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.run import Outcome, Run, open_run

__all__ = ["list_runs", "read_runs", "restore_outcome", "unfinished_runs"]


def list_runs(folders: Folders, published: Collection[str] = ()) -> list[Run]:
    """List the runs with a frozen plan, oldest first.

    Args:
        folders: The data folder.
        published: Names of published runs; these are left out if they cannot be read.

    Raises:
        DamagedError: The plan or outcome of an unpublished run cannot be read.
    """
    runs, damaged = read_runs(folders)
    for run_id, error in damaged.items():
        if run_id not in published:
            raise error
    return runs


def read_runs(folders: Folders) -> tuple[list[Run], dict[str, DamagedError]]:
    """Return the runs with a frozen plan, oldest first, and the errors of those that cannot be read, by name."""
    runs, damaged = [], {}
    for path in sorted(folders.runs.glob("*/plan.json")):
        try:
            run = open_run(folders, path.parent.name)
            run.outcome()
            runs.append(run)
        except DamagedError as error:
            damaged[path.parent.name] = error
    return sorted(runs, key=lambda run: run.plan.started_at), damaged  # names hold whole seconds only


def restore_outcome(folders: Folders, known: Outcome) -> None:
    """Write a known outcome again if the run's folder exists and its outcome cannot be read."""
    path = folders.run(known.run_id) / "outcome.json"
    try:
        read_json(path, Outcome)
    except DamagedError:
        if path.parent.exists():
            write_json(path, known)


def unfinished_runs(runs: Sequence[Run], loaded: Collection[str]) -> list[Run]:
    """List the unpublished runs that no later run of the same subject has replaced, oldest first.

    Args:
        runs: The result of `list_runs`.
        loaded: Names of the runs in the warehouse.
    """
    replaced: set[tuple[object, ...]] = set()
    found = []
    for run in reversed(runs):
        if run.run_id in loaded:
            replaced.add(run.plan.subject)
        elif run.plan.subject not in replaced:
            found.append(run)
    return found[::-1]
