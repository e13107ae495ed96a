"""Finish a staged run: decide its outcome, then publish it as the next generation of the warehouse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from firmlake.core.errors import EXIT_STOPPED, DriftError, Stopped
from firmlake.core.settings import Settings
from firmlake.core.sql import read_queries
from firmlake.landing.run import Outcome, Run
from firmlake.report.causes import Cause, find_causes, join_causes
from firmlake.tables.leaves import setting_of
from firmlake.tables.stage import Manifest, StagedFile
from firmlake.warehouse.doubtful_fields import Vanished, VanishedError
from firmlake.warehouse.gates import judge
from firmlake.warehouse.generations import newest_of_all, publish
from firmlake.warehouse.load import load_run, view_staged
from firmlake.warehouse.loads import Load
from firmlake.warehouse.views import create_views


def decide_outcome(
    settings: Settings,
    run: Run,
    manifest: Manifest,
    stopped: Stopped | None,
    now: datetime,
) -> Outcome:
    """Decide the outcome of a staged run by `run.fail_on`, and record it; `stopped` says why fetching stopped early.

    Raises:
        DriftError: The run holds a value or field that the settings under `contract` do not allow. Nothing was
            published.
    """
    with open_staged(settings, run, manifest.files) as staged:
        refuse_unwanted(run, staged, now)
        causes = find_causes(settings, run, staged)
    if stopped:
        others = (cause for cause in causes if cause.exit_code != EXIT_STOPPED)
        causes = [Cause("stopped", EXIT_STOPPED, stopped.message, (stopped.next_step,)), *others]
    outcome, reason, next_step = join_causes(causes)
    return run.finish(outcome, reason, now, next_step=next_step)


def publish_run(settings: Settings, run: Run, manifest: Manifest, outcome: Outcome, now: datetime) -> Path:
    """Load a staged run into the next generation of the warehouse; return that, published or held back by a gate.

    Raises:
        DriftError: More records than the settings allow would lose the value of a field. Nothing was published.
    """
    vanished_max = settings.run.vanished_share_max, settings.run.vanished_records_min

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> bool:
        mark = Load(number, run.run_id, now, now)
        load_run(connection, run, manifest, outcome, mark, vanished_max)
        if run.plan.alert_rules is None:  # otherwise the rules needed the views
            create_views(connection)
        return judge(connection, run.folders, run.plan.gates, number)

    try:
        return publish(
            run.folders,
            load,
            memory_limit=settings.run.duckdb_memory,
            keep=settings.run.keep_generations,
            start=newest_of_all(run.folders),
            storage_version=settings.run.storage_version,
        )
    except VanishedError as error:
        raise refuse_vanished(run, error.fields, now) from None


_SQL = read_queries(__file__)
Staged = duckdb.DuckDBPyConnection
"""The staged tables of a run, by their names in the warehouse."""


@contextmanager
def open_staged(settings: Settings, run: Run, files: Sequence[StagedFile]) -> Iterator[Staged]:
    """Open the staged tables of a run, which is not in the warehouse yet."""
    folder = str(run.folders.staged(run.run_id))
    limits: dict[str, Any] = {"memory_limit": settings.run.duckdb_memory, "threads": 1, "temp_directory": folder}
    with duckdb.connect(config=limits) as staged:
        view_staged(staged, run, files)
        yield staged


_ALWAYS = 2.0
"""A share above every allowed setting, so that this run is never published and the next run asks again."""


def refuse_unwanted(run: Run, staged: Staged, now: datetime) -> None:
    """Refuse to publish a run with a value or field that `contract.values` or `contract.new_fields` forbids.

    The outcome is then recorded as refused. The DriftError names the value or field, and the setting to change.
    """
    stopping = staged.execute(_SQL["stopping"]).fetchall()
    seen = staged.execute(_SQL["new_fields"]).fetchall()
    frozen = run.plan.contract.new_fields
    new = [(dataset, path) for dataset, path in seen if setting_of(frozen, dataset, path) == "freeze"]
    if stopping:
        dataset, path, what = stopping[0]
        setting, helps = "contract.values", "discard_value"
    elif new:
        (dataset, path), what, setting = new[0], "a field that the contract does not know", "contract.new_fields"
        helps = "keep"
    else:
        return
    reason = f"{dataset} {path}: {what}"
    # A pattern cannot spell the brackets of parents[].
    pattern = f"{dataset}.{path.replace('[]', '*')}"
    next_step = (
        f'Add "{pattern}" = "{helps}" at the end of {setting}, or remove the entry that covers it, and '
        f"{run.plan.again}; within the paid window no company is charged twice"
    )
    run.finish("refused", reason, now, vanished_share=_ALWAYS, next_step=next_step)
    raise DriftError(f"{reason}; {setting} stops the run, so nothing was published", next_step)


def refuse_vanished(run: Run, refused: Sequence[Vanished], now: datetime) -> DriftError:
    """Return the error for fields that too many records lost, after the outcome of the run is recorded as refused."""
    worst = refused[0]
    more = f" (and {len(refused) - 1} more fields)" if len(refused) > 1 else ""
    again = run.plan.again
    helps = "the service sends the field again"
    if worst.reason:
        helps = "a setting under contract makes the values fit, or the service sends them as before"
    step = (
        f"{again[0].upper()}{again[1:]} once {helps}; within the paid window no "
        f"company is charged twice; --set run.vanished_share_max={math.ceil(worst.share * 100) / 100:g} publishes "
        f"run {run.run_id} as it is"
    )
    run.finish("refused", f"{worst}{more}", now, vanished_share=worst.share, next_step=step)
    return DriftError(f"{worst}{more}: nothing was published, and the rows in the warehouse stay as they are", step)
