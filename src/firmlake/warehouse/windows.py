"""The times at which a company's paid window counts as over, and at which its free refresh begins."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["MARGIN", "UNSURE", "closing_lead"]

MARGIN = timedelta(hours=12)
"""Count a paid window as over this long before its end, because the last answers of a run that outlasts the window
would be charged for."""

UNSURE = """
    SELECT paid_at FROM (SELECT paid_at, count(*) AS paid_count FROM companies GROUP BY ALL)
    JOIN requests q ON q.fetched_at = paid_at
    WHERE credits_charged < paid_count
          AND q.run_id IN (SELECT run_id FROM runs WHERE credit_count < expected_credit_count)
"""
"""The times of payments for which the service charged too little, so that the windows of some companies began earlier.

Somebody else paid for them, such as a run of another data folder, or this data folder did and a kill lost the answer.
The end of their windows is unknown, so none of these companies is refreshed for free.
"""


def closing_lead(free_refresh_days: int) -> timedelta:
    """Return how long before the end of its paid window a company is refreshed for free; zero for never.

    The days exclude the margin at the end, when a refresh would come too late. They also exclude a second margin, for
    runs that start later than usual, for example because of daylight saving time or a busy worker.
    """
    return timedelta(days=free_refresh_days) + 2 * MARGIN if free_refresh_days else timedelta()
