"""Charges that a run must not go on with: for a free refresh, or beyond its budget.

After a charge for a free refresh no run refreshes for free any more: the paid window is shorter than we assume.
"""

from __future__ import annotations

import msgspec

from firmlake.core.errors import Stopped
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.run import Run
from firmlake.core.settings import RunSettings
from firmlake.landing.pages import Page

__all__ = ["mark_charged", "overspent", "refresh_off", "with_refresh_off"]

_NAME = "charged_refresh.json"


class _Mark(msgspec.Struct, frozen=True):
    run_id: str
    credit_window_days: int
    credits: int
    companies: int


def mark_charged(run: Run, page: Page, credit_count: int) -> Stopped:
    """Record that the service charged for free refreshes, and return the error that stops the run.

    Args:
        run: The run.
        page: The request, which named only companies inside their paid window.
        credit_count: The credits that it was charged.
    """
    days = run.plan.credit_window_days
    mark = _Mark(run.run_id, days, credit_count, len(page.companies))
    write_json(run.folders.state / _NAME, mark)
    return Stopped(
        f"The service charged {credit_count:,} credits for a request of {len(page.companies):,} companies that should "
        f"be free: they were paid for less than {days} days ago",
        _next_step(run.folders, days),
    )


def overspent(credit_count: int, budget: int) -> Stopped:
    """Return the error that stops a run because the service charged more than the run may spend.

    Args:
        credit_count: The credits that the service reports it charged, or by which its balance fell.
        budget: The credits that the run could still spend. Its companies cost no more by our ledger.
    """
    return Stopped(
        f"The service charged {credit_count:,} credits, more than the {budget:,} that were left to this run",
        "Unless others use the same credits, ask it what it charges for and how long a company stays free "
        "(run.credit_window_days); `FROM requests` has every charge. To go on, raise run.max_credits",
    )


def with_refresh_off(run: RunSettings, folders: Folders) -> RunSettings:
    """Return the settings that hold: without free refreshes if they are off."""
    return msgspec.structs.replace(run, free_refresh_days=0) if refresh_off(run, folders) else run


def refresh_off(run: RunSettings, folders: Folders) -> str:
    """Explain why no company may be refreshed for free; empty if they may."""
    path = folders.state / _NAME
    if not run.free_refresh_days or not path.exists():
        return ""
    mark = read_json(path, _Mark, f"Remove {path}")
    days = run.credit_window_days
    if mark.credit_window_days != days:
        return ""
    return (
        f"No company is refreshed for free, because the service charged run {mark.run_id} {mark.credits:,} credits for "
        f"{mark.companies:,} such companies. {_next_step(folders, days)}"
    )


def _next_step(folders: Folders, days: int) -> str:
    return (
        f"Ask the service how long a company stays free and correct run.credit_window_days (now {days}); to try again "
        f"as it is, remove {folders.state / _NAME}"
    )
