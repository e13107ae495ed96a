"""What registers do to accounts later on, where the world has a history: rare, and the same for a seed every time.

End dates are corrected, periods filed again, figures filed in thousands, committees exchanged, and whole answers are
empty for some weeks. What happens to a company itself is in `world`, to whom it belongs in `relationships`.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeVar

import msgspec

from firmlake_sandbox.periods import MAX_PERIODS, MONDAY_OF_WEEK_0
from firmlake_sandbox.records import FinancialRecord, Liquidity, Profitability, Solvency
from firmlake_sandbox.words import JOINT_COMMITTEES
from firmlake_sandbox.world import COMMITTEES, EMPTIED, END_CORRECTED, IN_THOUSANDS, REFILED, World, list_events

_EMPTY_WEEKS = 2
_YEARS = 6  # from the newest of week 0 back: in these something happens
_RATIOS = ("current_ratio", "quick_ratio")
_Part = TypeVar("_Part", Profitability, Liquidity, Solvency)


def tell_history(
    world: World, node: int, years: Sequence[int], records: Sequence[FinancialRecord]
) -> list[FinancialRecord]:
    """Return a company's accounts as they are after all that happened to them.

    Args:
        world: Seed and week.
        node: The company.
        years: Of each record, as in `Calendar`.
        records: All its accounts as they were first filed, newest first.
    """
    if any(world.week - week < _EMPTY_WEEKS for week in list_events(world, node, EMPTIED)):
        return []
    filed = list(zip(years, records, strict=True))
    for event, change in ((END_CORRECTED, _correct_end), (IN_THOUSANDS, _divide), (COMMITTEES, _exchange_committees)):
        for week in list_events(world, node, event):
            filed = [(year, change(one, week) if year == _pick(week) else one) for year, one in filed]
    for week in list_events(world, node, REFILED):
        place = next((place for place, (year, _) in enumerate(filed) if year == _pick(week)), None)
        if place is not None:
            year, old = filed[place]
            filed.insert(place, (year, _file_again(old, week)))
    return [record for _, record in filed][:MAX_PERIODS]


def _pick(week: int) -> int:
    """Return the year that an event of the week is about; many a company has no accounts of it."""
    return week * 7 % _YEARS


def _correct_end(record: FinancialRecord, _week: int) -> FinancialRecord:
    """End the period a day earlier."""
    end = date.fromisoformat(record.end_date) - timedelta(days=1)
    return msgspec.structs.replace(record, end_date=end.isoformat())


def _exchange_committees(record: FinancialRecord, week: int) -> FinancialRecord:
    """Name other joint committees."""
    others = [codes for codes in JOINT_COMMITTEES if codes != record.joint_committee_codes]
    return msgspec.structs.replace(record, joint_committee_codes=others[week % len(others)])


def _divide(record: FinancialRecord, _week: int) -> FinancialRecord:
    """State all amounts in thousands; heads and ratios stay."""
    return msgspec.structs.replace(
        record,
        profitability=_in_thousands(record.profitability),
        liquidity=_in_thousands(record.liquidity),
        solvency=_in_thousands(record.solvency),
    )


def _in_thousands(part: _Part) -> _Part:
    amounts = {
        name: round(value / 1000, 2)
        for name, value in msgspec.structs.asdict(part).items()
        if value is not None and name not in _RATIOS
    }
    return msgspec.structs.replace(part, **amounts)


def _file_again(record: FinancialRecord, week: int) -> FinancialRecord:
    """File the period a second time, with a little less debt."""
    solvency = record.solvency
    shift = round(abs(solvency.debt) / 50, 2)
    received = max(record.date_received, date.fromordinal(MONDAY_OF_WEEK_0 + 7 * week).isoformat())
    return msgspec.structs.replace(
        record,
        date_received=received,
        solvency=msgspec.structs.replace(
            solvency,
            equity=round(solvency.equity + shift, 2),
            retained_earnings=round(solvency.retained_earnings + shift, 2),
            debt=round(solvency.debt - shift, 2),
        ),
    )
