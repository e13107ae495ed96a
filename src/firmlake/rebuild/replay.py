"""Replay: rebuild tables and warehouse from the landed answers, without sending requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.parts import fetch_dicts
from firmlake.core.run import Outcome, Run
from firmlake.core.runs import restore_outcome
from firmlake.core.settings import ContractSettings
from firmlake.rebuild.finished import finished_runs
from firmlake.rebuild.reload import Content, find_overviews, publish_content
from firmlake.rebuild.restage import restage
from firmlake.service_lists.load import newest_applied
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.loads import Load, loaded_runs, read_loads

__all__ = ["replay"]


def replay(
    folders: Folders,
    now: Callable[[], datetime],
    *,
    memory_limit: str,
    keep: int,
    on_run: Callable[[Run], object] = lambda run: None,
    processes: int = 1,
    storage_version: str = "latest",
    contract: ContractSettings | None = None,
) -> Path:
    """Rebuild the staged tables and the warehouse from the landed answers, as a new generation.

    Args:
        folders: The data folder.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one.
        on_run: Called with each run before it is staged.
        processes: The number of processes that stage shards in parallel.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one.
        contract: Read all answers with these settings; None reads each run with the settings in its frozen plan.

    Returns:
        The new generation. Except for `loads` it equals the previous one, unless `contract` changes the result.

    Raises:
        FirmlakeError: There is nothing to replay yet. Run a company list first.
        DamagedError: A landed answer was changed. Nothing was published. Restore the file that the message names.
    """
    _restore_outcomes(folders)
    loaded, loads = _loaded(folders)
    runs = [
        (run if contract is None or run.is_pruned else run.read_by(contract), outcome)
        for run, outcome in finished_runs(folders, loaded)
    ]
    staged = [(run, outcome, restage(run, on_run, processes)) for run, outcome in runs]
    content = Content(staged, find_overviews(folders, loads, only_loaded=False), loads)
    if not (staged or content.overviews or newest_applied(folders)):
        raise FirmlakeError(f"{folders.data} holds nothing to replay", "Fetch a list first with `firmlake run LIST`")
    return publish_content(folders, content, now, memory_limit, keep, storage_version=storage_version)


# ---------------------------------------------------------------------------------------------------------------------


def _loaded(folders: Folders) -> tuple[list[str], list[Load]]:
    """List the runs, and all loads, of the newest generation.

    Both lists are empty if the generation cannot be read, because a replay is the remedy for that.
    """
    try:
        with open_warehouse(folders, of_any_version=True) as connection:
            return loaded_runs(connection), read_loads(connection)
    except (FirmlakeError, duckdb.Error):
        return [], []


def _restore_outcomes(folders: Folders) -> None:
    """Restore lost outcomes of published runs from the warehouse."""
    with suppress(FirmlakeError, duckdb.Error), open_warehouse(folders, of_any_version=True) as connection:
        for row in fetch_dicts(connection.execute("FROM runs")):
            known = Outcome(
                run_id=row["run_id"],
                outcome=row["outcome"],
                reason=row.get("reason") or "",  # missing in schema version 2
                next_step=row.get("next_step") or "",
                finished_at=row["finished_at"].replace(tzinfo=UTC),
            )
            restore_outcome(folders, known)
