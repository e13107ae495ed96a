"""Runs that have ended, in the order in which a replay loads them."""

from __future__ import annotations

from collections.abc import Sequence

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.run import OUTCOME_LOST, Outcome, Run, plan_lost
from firmlake.core.runs import read_runs

__all__ = ["finished_runs", "read_finished"]


def finished_runs(folders: Folders, loaded: Sequence[str] = ()) -> list[tuple[Run, Outcome]]:
    """List the runs that have ended: first the loaded runs in the order of loading, then the others by their end.

    Raises:
        DamagedError: A run that was loaded or has landed answers has lost its plan or outcome, so its answers would be
            missing unnoticed. The message says how to restore the file.
    """
    runs, damaged = read_finished(folders, loaded)
    for error in damaged.values():
        raise error
    return runs


def read_finished(
    folders: Folders, loaded: Sequence[str] = ()
) -> tuple[list[tuple[Run, Outcome]], dict[str, DamagedError]]:
    """List the runs as `finished_runs` does, but return errors of damaged runs by name instead of raising them."""
    runs, unreadable = read_runs(folders)
    landed = {path.name.removeprefix("run=") for path in folders.landed.glob("run=*")}
    damaged: dict[str, DamagedError] = {}
    for run_id in sorted(landed | set(loaded)):
        needed = {"plan.json": plan_lost(folders, run_id)}
        if run_id in loaded:
            needed["outcome.json"] = OUTCOME_LOST
        for name, next_step in needed.items():
            if not (path := folders.run(run_id) / name).exists():
                damaged.setdefault(run_id, DamagedError(f"{path} is missing", next_step))
    ended = [
        (run, outcome)
        for run in runs
        if run.run_id not in damaged and (outcome := run.outcome()) and not outcome.is_refused
    ]
    order = {run_id: position for position, run_id in enumerate(loaded)}
    ended.sort(key=lambda pair: (order.get(pair[0].run_id, len(order)), pair[1].finished_at, pair[0].run_id))
    return ended, damaged | unreadable
