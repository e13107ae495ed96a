"""The credits that a run may spend: its own budget, and the rest of the month's budget."""

from __future__ import annotations

from typing import NamedTuple

from firmlake.core.settings import RunSettings

__all__ = ["Budget", "budget_of", "tell_before"]

_WARN_SHARE = 0.8


class Budget(NamedTuple):
    """The credits that a run may spend.

    Attributes:
        credits: The most credits; -1 for any number.
        limit: The setting that limits the credits, with its value; empty if that is `run.max_credits`.
        spent: Credits spent in this calendar month.
        of_month: `run.max_credits_per_month`.
        before: Credits that earlier attempts of the run spent; they count towards `run.max_credits`.
    """

    credits: int
    limit: str
    spent: int
    of_month: int
    before: int = 0

    def tell(self, credit_count: int) -> str:
        """Describe the month's budget after a run of this cost, as a warning from 80 %; empty without such a budget."""
        if self.of_month < 0:
            return ""
        after = self.spent + credit_count
        share = after / self.of_month if self.of_month else 1.0
        warning = "Warning: " if share >= _WARN_SHARE else ""
        return (
            f"{warning}{self.spent:,} of {self.of_month:,} credits of this month are spent, "
            f"{after:,} ({share:.0%}) after this run"
        )


def budget_of(run: RunSettings, spent: int, before: int = 0) -> Budget:
    """Return the credits that a run may still spend.

    Args:
        run: The budgets.
        spent: Credits spent in this calendar month.
        before: Credits that earlier attempts of the run spent.
    """
    of_month = run.max_credits_per_month
    left = max(0, of_month - spent)
    own = max(0, run.max_credits - before) if run.max_credits >= 0 else -1
    if of_month < 0 or 0 <= own <= left:
        return Budget(own, "", spent, of_month, before)
    limit = f"run.max_credits_per_month = {of_month} ({spent:,} spent this month)"
    return Budget(left, limit, spent, of_month, before)


def tell_before(credit_count: int) -> str:
    """Describe what earlier attempts of a run spent, to follow the name of its budget; empty if they spent nothing."""
    return f" ({credit_count:,} spent by earlier attempts)" if credit_count else ""
