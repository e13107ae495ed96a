"""The flow `replay`: build one warehouse from an archive, with shards flattened in parallel.

    python flows/replay.py s3://bucket/archive --workers 4                  # processes on this machine
    python flows/replay.py s3://bucket/archive --scheduler tcp://host:8786  # an existing Dask cluster
    firmlake.flows.replay.replay                                            # its entrypoint, for deployments

`firmlake archive` fills the archive from one or several data folders. Every machine of a cluster, including its
scheduler, needs firmlake with the extra `dask`, the archive's credentials and PREFECT_API_URL in its environment. The
warehouse is loaded in the flow's process, into a data folder of its own. If a worker dies, only the shards it was
working on are repeated. If a file of the archive is damaged, the flow names it and fails; restore it, and resume.
"""

from __future__ import annotations

if __name__ == "__main__":
    from by_hand import start

    start(__file__)  # before Prefect is imported, which reads its environment then; never returns

import sys
from pathlib import Path
from typing import Any

from prefect import flow

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.work import utc_now
from firmlake.delivery.destination import Destination, open_destination
from firmlake.forget.forget import clean_restored
from firmlake.landing.run import new_run_id
from firmlake.rebuild.archive import list_shards, replay_archive, stage_archived
from firmlake.tables.stage import Manifest
from job import end, in_one_line, job, read_settings, step, tell

stage_shard = step("stage shard {shard} of run {run_id}")(stage_archived)


@job(hours=24)
def replay(
    archive: str,
    *,
    name: str | None = None,
    workers: int = 2,
    scheduler: str | None = None,
    config: str | None = None,
    overrides: dict[str, str] | None = None,
) -> str:
    """Build one warehouse from an archive.

    Args:
        archive: The address of the archive.
        name: The name of an unfinished replay to resume, with the same code. None starts a new replay.
        workers: Number of processes on this machine, if no scheduler is given.
        scheduler (ADDRESS): Address of a Dask cluster, such as tcp://host:8786, to use instead.
        config: A settings file. None reads config/firmlake.toml.
        overrides: Settings by dotted key. `paths.data` is the data folder for the new warehouse.

    Returns:
        The new generation.
    """
    settings, destination = read_settings(config, overrides), open_destination(archive)
    name = name or new_run_id(utc_now())
    stage = stage_all.with_options(task_runner=_runner(workers, scheduler))

    def stage_on_workers(destination: Destination, name: str, folders: Folders) -> list[Manifest | Exception]:
        return stage(destination.url, name, str(folders.data), return_state=True).result()

    def clean(folders: Folders) -> None:
        clean_restored(folders, settings.privacy)

    tell(f"Replay {name} of {destination.url}; if it is interrupted, use the same name to resume")
    made = replay_archive(settings, destination, name, "the flow replay", stage_on_workers, clean=clean)
    tell(str(made))
    return end(str(made.warehouse), str(made))


@flow(persist_result=False, retries=0)
@in_one_line
def stage_all(address: str, name: str, data: str) -> list[Any]:
    """Stage every shard of every run in a data folder, in parallel."""
    futures = [stage_shard.submit(address, name, *shard) for shard in list_shards(Folders(Path(data)))]
    return [future.result(raise_on_failure=False) for future in futures]


def _runner(workers: int, scheduler: str | None) -> Any:
    try:
        import cloudpickle
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise UsageError("This flow needs the library prefect-dask", "`pip install 'firmlake[dask]'`") from None
    # A cluster has the library but not the modules of this folder, which Prefect may have renamed: send them by value.
    for module in {__name__, step.__module__} & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[module])
    if scheduler:
        return DaskTaskRunner(address=scheduler)
    cluster = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    return DaskTaskRunner(cluster_kwargs=cluster)
