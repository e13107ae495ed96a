"""When a company's paid window counts as over, and when its free refresh begins."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["MARGIN", "UNSURE", "closing_lead"]

MARGIN = timedelta(hours=12)
"""A paid window that ends during the run would charge for its last answers, so the budget counts the company."""

UNSURE = """
    SELECT paid_at FROM (SELECT paid_at, count(*) AS paid_count FROM companies GROUP BY ALL)
    JOIN requests q ON q.fetched_at = paid_at
    WHERE credits_charged < paid_count
          AND q.run_id IN (SELECT run_id FROM runs WHERE credit_count < expected_credit_count)
"""
"""The times of payments for which the service charged too little: the windows of these companies began earlier.

Somebody else bought them, such as a run of another data folder; or we did, and a kill lost the answer. Where they end
is unknown, so none of these companies is refreshed for free.
"""


def closing_lead(free_refresh_days: int) -> timedelta:
    """Return how long before the end of its paid window a company is refreshed for free; zero for never.

    In the margin at the end it is too late, so the margin comes on top. So does another, for a run that starts later
    than usual: the hour of daylight saving time, a busy worker.
    """
    return timedelta(days=free_refresh_days) + 2 * MARGIN if free_refresh_days else timedelta()
