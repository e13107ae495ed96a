"""When a company's paid window counts as over, and when its free refresh begins."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["MARGIN", "closing_lead"]

MARGIN = timedelta(hours=12)
"""A paid window that ends during the run would charge for its last answers, so the budget counts the company."""


def closing_lead(free_refresh_days: int) -> timedelta:
    """Return how long before the end of its paid window a company is refreshed for free; zero for never.

    In the margin at the end it is too late, so the margin comes on top. So does another, for a run that starts later
    than usual: the hour of daylight saving time, a busy worker.
    """
    return timedelta(days=free_refresh_days) + 2 * MARGIN if free_refresh_days else timedelta()
