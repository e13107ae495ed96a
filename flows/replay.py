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
from pathlib import Path
from typing import Any

from prefect import flow

from firmlake import __version__
from firmlake.core.errors import UsageError
from firmlake.core.run import Folders, new_run_id
from firmlake.core.steps import utc_now
from firmlake.exports.targets import Target, open_target
from firmlake.rebuild.archive import stage_archived
from firmlake.rebuild.union import StagedShard, list_shards, replay_archive
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
    settings, target = read_settings(config, overrides), open_target(archive)
    name = name or new_run_id(utc_now())
    stage = stage_all.with_options(task_runner=_runner(workers, scheduler))

    def stage_on_workers(target: Target, name: str, folders: Folders) -> list[StagedShard]:
        return stage(target.url, name, str(folders.data), return_state=True).result()

    tell(f"Replay {name} of {target.url}; should it not end, go on with the same name")
    made = replay_archive(settings, target, name, "the flow replay", stage_on_workers)
    tell(str(made))
    name_damaged(str(made), made.damaged)
    return end(str(made.warehouse), str(made))


@flow(version=__version__, persist_result=False, retries=0)
@in_one_line
def stage_all(address: str, name: str, data: str) -> list[StagedShard]:
    """Stage every shard of every run in a data folder, wherever there is a process for it."""
    shards = list_shards(Folders(Path(data)))
    futures = [stage_shard.submit(address, name, *each) for each in shards]
    results: list[Any] = [future.result(raise_on_failure=False) for future in futures]
    return [StagedShard(*each, result) for each, result in zip(shards, results, strict=True)]


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
