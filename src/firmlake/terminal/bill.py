"""The output about the bill: this month, the credits saved, and the next four weeks by day."""

from __future__ import annotations

from collections.abc import Iterator

from firmlake.core.text import count_of
from firmlake.report.bill import Bill


def describe_bill(bill: Bill) -> Iterator[str]:
    """Describe the bill of a data folder, or of the companies of a list in it."""
    limit = "" if bill.budget is None else f" of at most {bill.budget:,}"
    yield f"Credits in {bill.month:%B %Y}: {bill.spent:,}{limit}"
    if bill.free_refreshes:
        yield (
            f"Refreshed for free: {count_of(bill.month_free_refreshes, 'company')} this month, "
            f"{bill.free_refreshes:,} in all, each saving a credit"
        )
    dues = [f"{each.day:%a %d %b} {each.credits:,}" for each in bill.days if each.credits]
    by_day = f", by the day they fall due: {', '.join(dues)}" if dues else ""
    yield f"Next four weeks: {count_of(bill.forecast, 'credit')}{by_day}"
