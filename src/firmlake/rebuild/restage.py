"""Staging a run again from what has landed, whatever is staged already.

The staged files of a run leave out records that the warehouse held when the run was frozen: `complete` stages the run
again where the warehouse lacks them by now. This is the one place that looks at both.
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
    """Stage a run again from what has landed, whatever is staged already.

    Args:
        run: The run.
        on_run: Called with it before.
        processes: As for `stage_shards`.
        is_whole: As for `stage_shard`.

    Raises:
        DamagedError: Not everything is there that was once staged: without it, answers would be lost unseen.
    """
    on_run(run)
    if run.is_pruned:
        return all_there_is(run, is_whole=is_whole)
    if held := read_manifest(run):
        check_landed(run, held)
    for name in run.plan.sha256:  # what is staged stays while it cannot be made again
        run.table(name)
    for marker in run.folders.staged(run.run_id).glob("*.json"):
        marker.unlink()
    try:
        return finish_stage(run, stage_shards(run, processes, is_whole=is_whole))
    except DamagedError as error:  # a landed answer: all else was checked
        raise DamagedError(error.message, answers_lost(run)) from None


def stage_whole(run: Run, processes: int = 1) -> Manifest:
    """Stage a run again with all its records.

    Args:
        run: The run.
        processes: As for `stage_shards`.

    Raises:
        DamagedError: As for `restage`.
    """
    return restage(run, processes=processes, is_whole=True)


def complete(
    connection: duckdb.DuckDBPyConnection,
    run: Run,
    manifest: Manifest,
    stage: Callable[[Run], Manifest] = stage_whole,
) -> Manifest:
    """Give the staged files that a generation needs to load a run.

    Args:
        connection: The generation in the making.
        run: The run.
        manifest: Its staged files, which may leave out records.
        stage: Stages it again with all its records, where the generation lacks one that was left out.

    Raises:
        DamagedError: As for `restage`.
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
        DamagedError: A file is missing or changed; or all records are needed and some were left out.
    """
    held = read_manifest(run)
    if held is None or held.schema_version != SCHEMA_VERSION:
        raise DamagedError(
            f"Run {run.run_id} cannot be staged again: its landed answers were pruned",
            f"Restore {run.folders.data / 'landing'} from a copy and remove {run.folder / 'pruned.json'}",
        )
    if is_whole and not held.is_whole:
        raise DamagedError(
            f"Run {run.run_id} cannot be loaded: its staged tables leave out records that an earlier run had brought, "
            "which is lost or has changed, and its landed answers were pruned",
            f"Restore {run.folders.landing(run.run_id, 1).parent} from a copy and remove {run.folder / 'pruned.json'}. "
            f"Without a copy remove {run.folder}, {run.folders.staged(run.run_id)} and {run.folders.warehouse}, then "
            "`firmlake replay`, and run its list again",
        )
    check_staged(run, held)
    return held


# ---------------------------------------------------------------------------------------------------------------------

# A run frozen by an earlier version has no hashes: nothing was left out of it.
_LACKING = """
    SELECT count(*) FROM read_parquet($1, hive_partitioning = false) s
    ANTI JOIN (FROM company_state WHERE reject_count = 0) c
        USING (country, company_number, dataset, payload_hash)
    SEMI JOIN (FROM (FROM read_parquet($2) UNION ALL BY NAME SELECT NULL::UBIGINT AS held_hash WHERE false)
               WHERE held_hash IS NOT NULL) t
        ON s.country = t.country AND s.company_number = t.company_number AND s.dataset = t.dataset
        AND try_cast('0x' || left(s.payload_hash, 16) AS UBIGINT) = t.held_hash
"""
