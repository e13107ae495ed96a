"""Build one warehouse from an archive, to which several data folders may have added runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from firmlake.core.clock import utc_now
from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.runs import list_runs
from firmlake.core.settings import Settings
from firmlake.exports.destination import Destination
from firmlake.rebuild.archived import collect_staged, fetch_runs, stage_archived
from firmlake.rebuild.reload import load_staged
from firmlake.tables.stage import Manifest

__all__ = ["StagedShard", "list_shards", "replay_archive"]


class StagedShard(NamedTuple):
    """A shard of an archived run, with its staged files or the error that ended its staging."""

    run_id: str
    shard: int
    result: Manifest | Exception


class Replayed(NamedTuple):
    """The warehouse built from an archive.

    Attributes:
        damaged: The runs that were skipped, by name.
    """

    warehouse: Path
    run_count: int
    damaged: dict[str, DamagedError]

    def __str__(self) -> str:
        return f"{self.run_count} {'run' if self.run_count == 1 else 'runs'} replayed into {self.warehouse}"


def list_shards(folders: Folders) -> list[tuple[str, int]]:
    """List the shards to stage, as (run, shard), after `fetch_runs` has fetched the runs into a data folder."""
    return [(run.run_id, shard) for run in list_runs(folders) for shard in run.shards()]


def stage_here(destination: Destination, name: str, folders: Folders) -> list[StagedShard]:
    """Stage all shards of an archive in this process, one by one."""
    staged: list[StagedShard] = []
    for run_id, shard in list_shards(folders):
        try:
            staged.append(StagedShard(run_id, shard, stage_archived(destination.url, name, run_id, shard)))
        except DamagedError as error:
            staged.append(StagedShard(run_id, shard, error))
    return staged


def replay_archive(
    settings: Settings,
    destination: Destination,
    name: str,
    holder: str,
    stage_all: Callable[[Destination, str, Folders], Iterable[StagedShard]] = stage_here,
    now: Callable[[], datetime] = utc_now,
    clean: Callable[[Folders], object] = lambda folders: None,
) -> Replayed:
    """Build one warehouse in `paths.data` from all runs in an archive; damaged runs are skipped.

    Args:
        settings: The data folder, which has no runs of its own, and the limits of the warehouse.
        destination: The archive.
        name: The name of this replay. The same name, with the same code, resumes an interrupted replay.
        holder: The text that others see if they find the data folder locked.
        stage_all: Stages all shards, on any number of machines. Called with the archive, the name and the data folder.
        now: The clock, UTC.
        clean: Removes forgotten subjects from the fetched and staged files before they are loaded; see
            `firmlake.forget.forget.clean_merged`.

    Raises:
        UsageError: The data folder has runs of its own, or the archive holds no run or runs of several services. The
            message says which, and what to do.
        DamagedError: Every run is damaged. Restore the archive.
        FirmlakeError: A shard could not be staged. Nothing was published. Run again with the same name to resume.
    """
    folders = Folders.of(settings)
    with lock(folders, holder):
        runs, damaged = fetch_runs(destination, folders)
        staged, unstaged = _sort(stage_all(destination, name, folders))
        damaged |= unstaged
        for run in (run for run in runs if run.run_id not in damaged):
            try:
                collect_staged(destination, name, run, staged[run.run_id])
            except DamagedError as error:
                damaged[run.run_id] = error
        clean(folders)
        count = sum(run.run_id not in damaged for run in runs)
        if not count:
            raise next(iter(damaged.values()))
        made = load_staged(
            folders,
            now,
            memory_limit=settings.run.duckdb_memory,
            keep=settings.run.keep_generations,
            without=damaged,
            storage_version=settings.run.storage_version,
        )
    return Replayed(made, count, damaged)


# ---------------------------------------------------------------------------------------------------------------------


def _sort(shards: Iterable[StagedShard]) -> tuple[dict[str, list[Manifest]], dict[str, DamagedError]]:
    """Group the staged shards by run, in order, and the errors of damaged runs by name."""
    staged: defaultdict[str, list[Manifest]] = defaultdict(list)
    damaged: dict[str, DamagedError] = {}
    for run_id, shard, result in shards:
        if isinstance(result, Manifest):
            staged[run_id].append(result)
        elif isinstance(result, DamagedError):
            damaged.setdefault(run_id, result)
        elif isinstance(result, FirmlakeError):
            raise result
        else:
            raise FirmlakeError(
                f"Shard {shard} of run {run_id} was not staged: {type(result).__name__}: {result}",
                "Check the workers, first of all their memory; then run again with the same name",
            ) from result
    return staged, damaged
