"""The flow `replay`: one warehouse of all that was archived, flattened by as many processes as there are.

    python flows/replay.py s3://bucket/archive --workers 4                  # processes of this machine
    python flows/replay.py s3://bucket/archive --scheduler tcp://host:8786  # a Dask cluster that is there
    flows/replay.py:replay                                                  # its entrypoint, for deployments

`firmlake archive` fills the archive, from one data folder or several. A cluster, its scheduler too, needs firmlake with
the extra `dask`, the archive's credentials and PREFECT_API_URL in its environment. The warehouse is loaded here, into a
data folder of its own. A worker that dies costs the shards it was at; what is staged is not made again. A damaged run
is left out and named; the others are published, and the flow fails.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import replay_by_hand

    replay_by_hand()  # before Prefect is imported; it does not come back

import sys
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from firmlake import __version__
from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.lock import lock
from firmlake.core.run import Folders, list_runs, new_run_id
from firmlake.exports.targets import open_target
from firmlake.rebuild.archive import collect_staged, fetch_runs, stage_archived, stage_archived_whole
from firmlake.rebuild.replay import load_staged
from firmlake.tables.stage import Manifest
from job import end, in_one_line, name_damaged, read_settings, step, tell

stage_shard = step("stage shard {shard} of run {run_id}")(stage_archived)


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def replay(
    archive: str,
    name: str | None = None,
    workers: int = 2,
    scheduler: str | None = None,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
) -> str:
    """Make one warehouse of an archive.

    Args:
        archive: Its address.
        name: Of this replay, to go on with one that did not end; the code must be the same. None begins anew.
        workers: Processes on this machine, where no scheduler is named.
        scheduler: Address of a Dask cluster.
        config: A settings file. None takes config/firmlake.toml.
        overrides: Settings by dotted key; `paths.data` is where the warehouse comes.

    Returns:
        The new generation.
    """
    settings = read_settings(config, overrides)
    name = name or new_run_id(datetime.now(UTC))
    target, folders = open_target(archive), Folders(Path(settings.paths.data))
    runner = _runner(workers, scheduler)
    tell(f"Replay {name} of {target.url}; should it not end, go on with the same name")
    with lock(folders, "the flow replay"):
        runs, damaged = fetch_runs(target, folders)
        staged, unstaged = stage_all.with_options(task_runner=runner)(
            target.url, name, str(folders.data), return_state=True
        ).result()
        damaged |= unstaged
        for run in (run for run in runs if run.run_id not in damaged):
            try:
                collect_staged(target, name, run, staged[run.run_id])
            except DamagedError as error:
                damaged[run.run_id] = error
        count = sum(run.run_id not in damaged for run in runs)
        if not count:
            raise next(iter(damaged.values()))
        made = load_staged(
            folders,
            lambda: datetime.now(UTC),
            memory_limit=settings.run.duckdb_memory,
            keep=settings.run.keep_generations,
            stage_whole=partial(stage_archived_whole, target, name),
            without=damaged,
            storage_version=settings.run.storage_version,
        )
    said = f"{count} {'run' if count == 1 else 'runs'} replayed into {made}"
    tell(said)
    name_damaged(said, damaged)
    return end(str(made), said)


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def stage_all(address: str, name: str, data: str) -> tuple[dict[str, list[Manifest]], dict[str, DamagedError]]:
    """Stage every shard of every run in a data folder, wherever there is a process for it.

    Returns:
        For each run its shards, in order; and by name the runs that are damaged.
    """
    shards = [(run.run_id, shard) for run in list_runs(Folders(Path(data))) for shard in run.shards()]
    futures = [stage_shard.submit(address, name, *each) for each in shards]
    staged: dict[str, list[Manifest]] = defaultdict(list)
    damaged: dict[str, DamagedError] = {}
    for (run_id, shard), future in zip(shards, futures, strict=True):
        result: Any = future.result(raise_on_failure=False)
        if isinstance(result, DamagedError):
            damaged.setdefault(run_id, result)
            continue
        if isinstance(result, FirmlakeError):
            raise result
        if isinstance(result, Exception):
            raise FirmlakeError(
                f"Shard {shard} of run {run_id} was not staged: {type(result).__name__}: {result}",
                "See to the workers (their memory first), then run again with the same name",
            ) from result
        staged[run_id].append(result)
    return staged, damaged


def _runner(workers: int, scheduler: str | None) -> Any:
    try:
        import cloudpickle
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise UsageError("This flow needs the library prefect-dask", "`pip install 'firmlake[dask]'`") from None
    # A cluster has the library, but not the modules of this folder, which Prefect may know by names of its own.
    for module in {__name__, step.__module__} & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[module])
    if scheduler:
        return DaskTaskRunner(address=scheduler)
    cluster = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    return DaskTaskRunner(cluster_kwargs=cluster)
