"""Drift that is not published: what a run would do to the rows held, against what the settings allow."""

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
"""A share that no setting allows: the run is not published later on, and the next one asks anew."""


def refuse_unwanted(run: Run, rejects: pl.LazyFrame, drift: pl.LazyFrame, now: datetime) -> None:
    """Refuse to publish a run with what `contract.values` or `contract.new_fields` do not allow.

    Args:
        run: The run, which is recorded as refused.
        rejects: Its staged values that do not fit.
        drift: Its staged differences from the contract.
        now: UTC.

    Raises:
        DriftError: There is such a value or field; it is named. Nothing was published.
    """
    stopping = rejects.filter(pl.col("effect") == "stop").select("dataset", "path", "reason").first().collect()
    seen = drift.filter(pl.col("kind") == "new_field").select("dataset", "path").unique().sort(pl.all()).collect()
    frozen = run.plan.contract.new_fields
    new = [(dataset, path) for dataset, path in seen.iter_rows() if setting_of(frozen, dataset, path) == "freeze"]
    if stopping.height:
        dataset, path, what = stopping.row(0)
        setting = "contract.values"
    elif new:
        (dataset, path), what, setting = new[0], "a field that the contract does not know", "contract.new_fields"
    else:
        return
    reason = f"{dataset} {path}: {what}"
    run.finish("refused", reason, now, _ALWAYS)
    raise DriftError(
        f"{reason}; {setting} says that nothing is published then",
        f"Change {setting} and run the list again; what was paid for costs nothing again within the credit window",
    )


def refuse_vanished(settings: Settings, run: Run, now: datetime) -> Callable[[Sequence[Vanished]], None]:
    """Make the check that loading a run asks before it replaces rows by others which lack a field.

    Args:
        settings: What share and what number of records may lose a field.
        run: The run, which is recorded as refused, so that the next one asks anew.
        now: UTC.

    Returns:
        A function that raises `DriftError` where more got lost: nothing is published then, and old rows stay.
    """

    def check(found: Sequence[Vanished]) -> None:
        most, least = settings.run.vanished_share_max, settings.run.vanished_records_min
        refused = [each for each in found if each.share > most and each.lost >= least]
        if not refused:
            return
        worst = refused[0]
        more = f" (and {len(refused) - 1} more fields)" if len(refused) > 1 else ""
        run.finish("refused", f"{worst}{more}", now, worst.share)
        raise DriftError(
            f"{worst}{more}: nothing was published, and the rows held stay as they are",
            "Run again when the service has the field again, what was paid for costs nothing again; "
            f"--set run.vanished_share_max={math.ceil(worst.share * 100) / 100:g} publishes run {run.run_id} as it is",
        )

    return check
