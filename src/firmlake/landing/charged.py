"""Charges that stop a run: a charge for a free refresh, or charges beyond the budget.

After a charge for a free refresh, no run refreshes for free: the paid window is shorter than we assumed.
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
        credit_count: The credits that the service charged for it.
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
        credit_count: The credits that the service charged according to its headers, or by which the balance fell.
        budget: The credits that the run could still spend. By our count, its companies cost no more than that.
    """
    return Stopped(
        f"The service charged {credit_count:,} credits, more than the {budget:,} that this run could still spend",
        "If nobody else uses these credits, ask the service what it charges for and how long a company stays free "
        "(run.credit_window_days); the table requests lists every charge. To continue, raise run.max_credits",
    )


def with_refresh_off(run: RunSettings, folders: Folders) -> RunSettings:
    """Return the settings, without free refreshes if a charge has turned them off."""
    return msgspec.structs.replace(run, free_refresh_days=0) if refresh_off(run, folders) else run


def refresh_off(run: RunSettings, folders: Folders) -> str:
    """Explain why no company is refreshed for free; empty if free refreshes are on."""
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
        f"Ask the service how long a company stays free, and correct run.credit_window_days (now {days}); to try again "
        f"unchanged, remove {folders.state / _NAME}"
    )
