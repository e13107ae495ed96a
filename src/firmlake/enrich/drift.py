"""Drift that is not published: what a run would do to the rows held, against what the settings allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime

from firmlake.core.errors import DriftError
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.warehouse.vanished import Vanished

__all__ = ["refuse_vanished"]


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
