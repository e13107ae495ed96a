"""Finish a staged run: decide its outcome, then publish it as the next generation of the warehouse."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl

from firmlake.core.errors import Stopped
from firmlake.core.memory import give_back
from firmlake.core.run import Outcome, Run
from firmlake.core.settings import Settings
from firmlake.enrich.causes import Cause, find_causes, find_cut, join_causes, left_out
from firmlake.enrich.fields import find_unread
from firmlake.enrich.lost import find_lost
from firmlake.enrich.refuse_drift import refuse_unwanted, refuse_vanished
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.tables.stage import Manifest
from firmlake.warehouse.generations import newest
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load
from firmlake.warehouse.publish import publish
from firmlake.warehouse.views import create_views

__all__ = ["decide_outcome", "publish_run"]


def decide_outcome(
    settings: Settings,
    run: Run,
    manifest: Manifest,
    stopped: Stopped | None,
    now: datetime,
    credits_passed_on: int = 0,
) -> Outcome:
    """Decide the outcome of a staged run, and record it.

    Args:
        settings: `run.fail_on` sets how many companies may fail before the run is not done.
        run: The run.
        manifest: Its staged files.
        stopped: Why fetching stopped early; None if it did not.
        now: UTC.
        credits_passed_on: As in `Outcome`.

    Raises:
        DriftError: The run holds a value or field that the settings under `contract` do not allow. Nothing was
            published.
    """
    letters, rejects = _staged(run, manifest, "dead_letters"), _staged(run, manifest, "rejects")
    drift = _staged(run, manifest, "drift")
    refuse_unwanted(run, rejects, drift, now)
    states = _staged(run, manifest, "company_state")
    waiting = states.filter(pl.col("status") == "waiting").select("country", "company_number").unique()
    causes = [*find_causes(settings, run.plan, states, letters, rejects), *find_cut(drift)]
    causes += find_lost(settings, run)
    causes += find_unread(settings, run.plan, lambda table: _staged(run, manifest, table))
    kind = "some_failed" if causes else "done"
    if stopped:
        kind, causes = "stopped", [Cause(stopped.message, stopped.next_step), *causes]
    elif count := waiting.select(pl.len()).collect().item():
        kind, causes = "stopped", [left_out(settings, run.plan, count), *causes]
    reason, next_step = join_causes(causes)
    return run.finish(kind, reason, now, next_step=next_step, credits_passed_on=credits_passed_on)


def publish_run(settings: Settings, run: Run, manifest: Manifest, outcome: Outcome, now: datetime) -> Path:
    """Load a staged run into the next generation of the warehouse.

    Returns:
        The generation that is now the newest.

    Raises:
        DriftError: More records than the settings allow would lose the value of a field. Nothing was published.
    """
    give_back()

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        mark = Load(number, run.run_id, now, now)
        load_run(connection, run, manifest, outcome, mark, refuse_vanished(settings, run, now))
        if run.plan.alert_rules is None:  # otherwise the rules needed the views
            create_views(connection)

    return publish(
        run.folders,
        load,
        memory_limit=settings.run.duckdb_memory,
        keep=settings.run.keep_generations,
        start=newest(run.folders),
        storage_version=settings.run.storage_version,
    )


def _staged(run: Run, manifest: Manifest, table: str) -> pl.LazyFrame:
    """Scan a staged table lazily, so that a million companies need not fit into memory."""
    folder = run.folders.staged(run.run_id)
    files = [folder / file.path for file in manifest.files if file.table == table]
    if not files:
        return pl.LazyFrame(schema=polars_schema(TABLES[table]))
    return pl.scan_parquet(files, glob=False, hive_partitioning=False)
