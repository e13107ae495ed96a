"""The credits that a run may spend: the budget of the run, and what the calendar month has left."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import duckdb
import polars as pl

from firmlake.core.settings import RunSettings
from firmlake.enrich.underway import Underway
from firmlake.report.bill import month_start, spent_since

__all__ = ["Budget", "budget_of", "spent_this_month"]

_WARN_SHARE = 0.8


class Budget(NamedTuple):
    """The credits that a run may spend.

    Attributes:
        credits: The most credits; -1 for any number.
        limit: The setting that limits them, with what it allows; empty if `run.max_credits` does.
        spent: Credits spent in this calendar month.
        of_month: `run.max_credits_per_month`.
    """

    credits: int
    limit: str
    spent: int
    of_month: int

    def tell(self, credit_count: int) -> str:
        """Describe the month with a run that costs so much; a warning from 80 % on. Empty without a budget."""
        if self.of_month < 0:
            return ""
        after = self.spent + credit_count
        share = after / self.of_month if self.of_month else 1.0
        warning = "Warning: " if share >= _WARN_SHARE else ""
        return (
            f"{warning}{self.spent:,} of {self.of_month:,} credits of this month are spent, "
            f"{after:,} ({share:.0%}) after this run"
        )


def budget_of(run: RunSettings, spent: int) -> Budget:
    """Return the credits that a run may spend, given what was spent in this calendar month."""
    of_month = run.max_credits_per_month
    left = max(0, of_month - spent)
    if of_month < 0 or 0 <= run.max_credits <= left:
        return Budget(run.max_credits, "", spent, of_month)
    return Budget(left, f"run.max_credits_per_month = {of_month} ({spent:,} spent this month)", spent, of_month)


def spent_this_month(
    connection: duckdb.DuckDBPyConnection | None, underway: Iterable[Underway], run: RunSettings, now: datetime
) -> int:
    """Count the credits spent in this calendar month, by runs in the warehouse and by others that have landed answers.

    Args:
        connection: The newest generation, or None before the first.
        underway: What has landed of runs that are not in the warehouse.
        run: `run.time_zone` says when the month began.
        now: UTC.
    """
    since = month_start(now, ZoneInfo(run.time_zone))
    moment = since.astimezone(UTC).replace(tzinfo=None)
    landed = sum(each.bought.filter(pl.col("paid_at") >= moment).height for each in underway)
    return landed + (spent_since(connection, since) if connection else 0)
