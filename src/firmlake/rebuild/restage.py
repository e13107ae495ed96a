"""Restaging: stage a run again from its landed answers.

Staged files leave out records that the warehouse held when the run was frozen. If the warehouse lacks such a record by
now, `complete` stages the run again with all its records. Only this module compares staged files with the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb

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
from firmlake.warehouse.load import create_tables

__all__ = ["all_there_is", "complete", "restage", "stage_whole"]


def restage(
    run: Run,
    on_run: Callable[[Run], object] = lambda run: None,
    processes: int = 1,
    *,
    is_whole: bool = False,
) -> Manifest:
    """Stage a run again from its landed answers, even if it is already staged.

    Args:
        run: The run. If its landed answers were pruned, its staged tables are returned instead.
        on_run: Called with the run before it is staged.
        processes: The number of processes that stage shards in parallel.
        is_whole: True stages all records; False leaves out records that were held when the run was frozen.

    Raises:
        DamagedError: Landed answers that were staged before are missing or changed. Nothing was removed; the message
            says what to restore.
    """
    on_run(run)
    if run.is_pruned:
        return all_there_is(run, is_whole=is_whole)
    if held := read_manifest(run):
        check_landed(run, held)
    for name in run.plan.sha256:  # checked first: staged tables are only removed if they can be made again
        run.table(name)
    for marker in run.folders.staged(run.run_id).glob("*.json"):
        marker.unlink()
    try:
        return finish_stage(run, stage_shards(run, processes, is_whole=is_whole))
    except DamagedError as error:  # only a landed answer can be damaged here: all else was checked above
        raise DamagedError(error.message, answers_lost(run)) from None


def stage_whole(run: Run, processes: int = 1) -> Manifest:
    """Stage a run again with all its records.

    Args:
        run: The run.
        processes: The number of processes that stage shards in parallel.

    Raises:
        DamagedError: Landed answers are missing or changed; the message says what to restore.
    """
    return restage(run, processes=processes, is_whole=True)


def complete(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    manifest: Manifest,
    stage: Callable[[Run], Manifest] = stage_whole,
) -> Manifest:
    """Return the staged files that a generation needs to load a run.

    Args:
        connection: The generation in the making.
        run: The run.
        manifest: The staged files of the run, which may leave out records.
        stage: Stages the run again with all its records; called if the generation lacks a record that was left out.

    Raises:
        DamagedError: Landed answers are missing or changed; the message says what to restore.
    """
    if manifest.is_whole:
        return manifest
    create_tables(connection)
    folder = run.folders.staged(run.run_id)
    states = [str(folder / file.path) for file in manifest.files if file.table == "company_state"]
    if not states:
        return manifest
    ((count,),) = connection.execute(_LACKING, [states, str(run.checked("targets"))]).fetchall()
    return stage(run) if count else manifest


def all_there_is(run: Run, *, is_whole: bool = False) -> Manifest:
    """Read the staged tables of a run whose landed answers were pruned.

    Raises:
        DamagedError: A file is missing or changed, or `is_whole` is set and the tables leave out records. The message
            says what to restore.
    """
    held = read_manifest(run)
    if held is None or held.schema_version != SCHEMA_VERSION:
        raise DamagedError(
            f"Run {run.run_id} cannot be staged again: its landed answers were pruned",
            f"Restore {run.folders.data / 'landing'} from a copy and remove {run.folder / 'pruned.json'}",
        )
    if is_whole and not held.is_whole:
        raise DamagedError(
            f"Run {run.run_id} cannot be loaded: its staged tables leave out records of an earlier run, which is lost "
            "or has changed, and its landed answers were pruned",
            f"Restore {run.folders.landing(run.run_id, 1).parent} from a copy and remove {run.folder / 'pruned.json'}. "
            f"Without a copy remove {run.folder}, {run.folders.staged(run.run_id)} and {run.folders.warehouse}, then "
            "`firmlake replay`, and run its list again",
        )
    check_staged(run, held)
    return held


# ---------------------------------------------------------------------------------------------------------------------

# A run frozen by an earlier version has no hashes and leaves out no records.
_LACKING = """
    SELECT count(*) FROM read_parquet($1, hive_partitioning = false) s
    ANTI JOIN (FROM company_state WHERE reject_count = 0) c
        USING (country, company_number, dataset, payload_hash)
    SEMI JOIN (FROM (FROM read_parquet($2) UNION ALL BY NAME SELECT NULL::UBIGINT AS held_hash WHERE false)
               WHERE held_hash IS NOT NULL) t
        ON s.country = t.country AND s.company_number = t.company_number AND s.dataset = t.dataset
        AND try_cast('0x' || left(s.payload_hash, 16) AS UBIGINT) = t.held_hash
"""
