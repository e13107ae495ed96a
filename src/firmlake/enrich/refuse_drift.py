"""Refuse to publish a run whose values, new fields or vanished fields the settings do not allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime

import polars as pl

from firmlake.core.errors import DriftError
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.tables.leaves import setting_of
from firmlake.warehouse.vanished import Vanished

__all__ = ["refuse_unwanted", "refuse_vanished"]

_ALWAYS = 2.0
"""A share above every allowed setting, so that this run is never published and the next run asks again."""


def refuse_unwanted(run: Run, rejects: pl.LazyFrame, drift: pl.LazyFrame, now: datetime) -> None:
    """Refuse to publish a run with a value or field that `contract.values` or `contract.new_fields` forbids.

    Args:
        run: The run. If it is refused, its outcome is recorded as refused.
        rejects: Its staged rejects.
        drift: Its staged differences from the contract.
        now: UTC.

    Raises:
        DriftError: The run holds such a value or field. The message names it and the setting to change. Nothing was
            published.
    """
    stopping = rejects.filter(pl.col("effect") == "stop").select("dataset", "path", "reason").first().collect()
    seen = drift.filter(pl.col("kind") == "new_field").select("dataset", "path").unique().sort(pl.all()).collect()
    frozen = run.plan.contract.new_fields
    new = [(dataset, path) for dataset, path in seen.iter_rows() if setting_of(frozen, dataset, path) == "freeze"]
    if stopping.height:
        dataset, path, what = stopping.row(0)
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


def refuse_vanished(settings: Settings, run: Run, now: datetime) -> Callable[[Sequence[Vanished]], None]:
    """Make the check that a load calls before it replaces rows by rows that lack a field.

    Args:
        settings: The share and the number of records that may lose a field.
        run: The run. If it is refused, its outcome is recorded as refused, so that the next run asks again.
        now: UTC.

    Returns:
        A function that raises `DriftError` if more records lost a field. Then nothing is published and old rows stay.
    """

    def check(found: Sequence[Vanished]) -> None:
        most, least = settings.run.vanished_share_max, settings.run.vanished_records_min
        refused = [each for each in found if each.share > most and each.lost >= least]
        if not refused:
            return
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
        raise DriftError(f"{worst}{more}: nothing was published, and the rows in the warehouse stay as they are", step)

    return check
