"""Stage a run again from its landed answers."""

from __future__ import annotations

from collections.abc import Callable

from firmlake.core.errors import DamagedError
from firmlake.core.run import Run
from firmlake.tables.stage import (
    SCHEMA_VERSION,
    Manifest,
    answers_lost,
    check_landed,
    check_staged,
    finish_stage,
    read_manifest,
    stage_shards,
)

__all__ = ["read_pruned", "restage"]


def restage(run: Run, on_run: Callable[[Run], object] = lambda run: None, processes: int = 1) -> Manifest:
    """Stage a run again from its landed answers, even if it is already staged.

    Args:
        run: The run. If its landed answers were pruned, its staged tables are returned instead.
        on_run: Called with the run before it is staged.
        processes: The number of processes that stage shards in parallel.

    Raises:
        DamagedError: Landed answers that were staged before are missing or changed. Nothing was removed. The message
            says what to restore.
    """
    on_run(run)
    if run.is_pruned:
        return read_pruned(run)
    if recorded := read_manifest(run):
        check_landed(run, recorded)
    for name in run.plan.sha256:  # checked first, because staged tables are removed only if they can be made again
        run.table(name)
    for marker in run.folders.staged(run.run_id).glob("*.json"):
        marker.unlink()
    try:
        return finish_stage(run, stage_shards(run, processes))
    except DamagedError as error:  # it must be a landed answer, because everything else was checked above
        raise DamagedError(error.message, answers_lost(run)) from None


def read_pruned(run: Run) -> Manifest:
    """Read the staged tables of a run whose landed answers were pruned.

    Raises:
        DamagedError: A file is missing or changed, or an earlier version staged the tables. The message says what to
            restore.
    """
    recorded = read_manifest(run)
    if recorded is None or recorded.schema_version != SCHEMA_VERSION:
        raise DamagedError(
            f"Run {run.run_id} cannot be staged again, because its landed answers were pruned",
            f"Restore {run.folders.landed} from a copy and remove {run.folder / 'pruned.json'}",
        )
    check_staged(run, recorded)
    return recorded
