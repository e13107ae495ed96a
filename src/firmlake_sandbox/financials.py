"""The accounts of a company: 1 to 20 periods, 8 on average, newest first, consistent within themselves nearly always.

All amounts are drawn as whole cents from the size of the company, so that JSON shows at most two decimals, assets are
equity plus debt, and so on. Now and then, as in real accounts, something does not add up or is missing.
"""

import struct
from collections.abc import Sequence
from datetime import date, timedelta
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import Struct

from firmlake_sandbox.numbers import BASE_BITS
from firmlake_sandbox.records import FinancialRecord, Liquidity, People, Profitability, Solvency
from firmlake_sandbox.words import JOINT_COMMITTEES
from firmlake_sandbox.world import (
    COMMITTEES,
    EMPTIED,
    END_CORRECTED,
    EVENTS,
    IN_THOUSANDS,
    REFILED,
    SIZE,
    World,
    draw,
    list_beats,
    list_events,
)

MAX_PERIODS = 20

MONDAY_OF_WEEK_0 = date(2026, 1, 5).toordinal()
_WEEKS_A_YEAR = 52
_REVISED_EVERY = 100  # weeks: an old income statement, and a health indicator
_SOONEST_FILING = 45  # days after the end of the period

# A fiscal year end: its month and day, the next day, and how many calendar years that is later.
_YearEnd = tuple[int, int, str, int]
_DECEMBER: _YearEnd = (12, 31, "01-01", 1)
_MARCH: _YearEnd = (3, 31, "04-01", 0)
_JUNE: _YearEnd = (6, 30, "07-01", 0)
_SEPTEMBER: _YearEnd = (9, 30, "10-01", 0)
# By the month in which a company files: year ends at least two months before.
_YEAR_ENDS = (
    (_JUNE, _SEPTEMBER), (_JUNE, _SEPTEMBER), (_DECEMBER,), (_DECEMBER,), (_DECEMBER,), (_DECEMBER, _MARCH),
    (_DECEMBER, _DECEMBER, _MARCH), (_DECEMBER,), (_DECEMBER,), (_DECEMBER, _JUNE), (_DECEMBER, _JUNE),
    (_JUNE, _SEPTEMBER),
)  # fmt: skip


class Calendar(Struct, frozen=True):
    """The periods of a company in one week.

    A year is counted back from the period that is newest in week 0: 0, 1, 2 ...; those filed since are -1, -2 ...

    Attributes:
        years: Of each period, newest first; a year that was filed twice is there twice.
        restated: Years whose income statement was filed anew, once for each time.
        revised: Years whose health indicator changed, being then the newest, once for each time.
    """

    years: tuple[int, ...]
    restated: tuple[int, ...]
    revised: tuple[int, ...]
    _filing_day: int  # ordinal, of year 0
    _end_year: int  # calendar year in which year 0 ended
    _year_end: _YearEnd
    _earlier_year_end: _YearEnd  # of the years before `_switch`
    _switch: int

    def is_second(self, place: int) -> bool:
        """Tell whether a period is the older of the two filings of its year."""
        return place > 0 and self.years[place - 1] == self.years[place]

    def date_period(self, place: int, noise: int) -> tuple[str, str, str]:
        """Return when a period began and ended and its accounts came in, as ISO dates.

        Args:
            place: The period's, in `years`.
            noise: Any number; shifts the last date by some days.
        """
        year = self.years[place]
        month, day, _, _ = self._end_of(year)
        _, _, next_day, later = self._end_of(year + 1)
        end_year = self._end_year - year
        end = date(end_year, month, day)
        received = max(self._filing_day - year * 7 * _WEEKS_A_YEAR - noise % 7, end.toordinal() + _SOONEST_FILING)
        received -= 30 * self.is_second(place)
        return f"{end_year - 1 + later}-{next_day}", end.isoformat(), date.fromordinal(received).isoformat()

    def _end_of(self, year: int) -> _YearEnd:
        """Return where the fiscal year ends."""
        return self._year_end if year <= self._switch else self._earlier_year_end


def draw_calendar(world: World, node: int, count: int) -> Calendar:
    """Return the periods of a company in the world's week.

    Args:
        world: Seed and week.
        node: The company.
        count: How many periods it has in week 0; those it files later are added, up to 20 in all.
    """
    bits, week = draw(world.key, EVENTS, node), world.week
    filing_week = bits % _WEEKS_A_YEAR
    filing_day = MONDAY_OF_WEEK_0 + (filing_week + 1 - _WEEKS_A_YEAR) * 7
    filing_date = date.fromordinal(filing_day)
    choices = _YEAR_ENDS[filing_date.month - 1]
    year_end = choices[(bits >> 8) % len(choices)]
    is_twice, is_odd = count > 1 and (bits >> 16) % 20 == 0, (bits >> 24) % 12 == 0
    first = count - 1 - is_twice  # the oldest year
    filed = _count_filed(filing_week, week)
    years = [*range(-filed, first + 1)]
    if is_twice:
        twice = (bits >> 32) % (first + 1)
        years.insert(twice + filed, twice)
    return Calendar(
        tuple(years[:MAX_PERIODS]),
        tuple(beat * 7 % (first + 1) for beat in list_beats(bits >> 44, week, _REVISED_EVERY)),
        tuple(-_count_filed(filing_week, beat) for beat in list_beats(bits >> 50, week, _REVISED_EVERY)),
        filing_day,
        filing_date.year - (year_end[0] >= filing_date.month),
        year_end,
        (_JUNE if year_end is _DECEMBER else _DECEMBER) if is_odd else year_end,
        (bits >> 40) % (first + 1),
    )


def _count_filed(filing_week: int, week: int) -> int:
    """Return how many new accounts a company has filed since week 0."""
    return len(list_beats(_WEEKS_A_YEAR - 1 - filing_week, week, _WEEKS_A_YEAR))


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


# Weights 114, 109, ... 19 for 1 to 20 periods give a mean of exactly 8.
_PERIODS = bytes(count for count in range(1, MAX_PERIODS + 1) for _ in range(119 - 5 * count))
# Powers of ten of the total assets in cents: most companies own less than a million, one in thirty more than a billion.
_MAGNITUDES = bytes(
    power for power, weight in zip(range(3, 10), (20, 35, 24, 12, 6, 2, 1), strict=True) for _ in range(weight)
)
_GROWTH = (-40, -10, 0, 15, 25, 40, 60, 110)  # a year, in thousandths

_pack_subject = struct.Struct("<QQhH").pack
_unpack_draws = struct.Struct("<32H").unpack


def _trend(growth: int) -> tuple[int, ...]:
    """Return a company's relative size in millionths by year, from year 0 back; negative places are the years ahead."""
    ahead, back = [1_000_000], [1_000_000]
    for _ in range(20):
        ahead.append(ahead[-1] * (1000 + growth) // 1000)
        back.append(back[-1] * 1000 // (1000 + growth))
    return (*back, *ahead[:0:-1])


_TRENDS = tuple(_trend(growth) for growth in _GROWTH)


class _Filer(msgspec.Struct, frozen=True):
    """What holds for all periods of a company."""

    node: int
    assets: int  # cents, in year 0
    trend: tuple[int, ...]
    capital: int
    committees: tuple[str, ...]
    health: int
    men: int  # of 10,000 employees


def count_periods(world: World, node: int) -> int:
    """Return how many periods the company has in this week."""
    return (
        list_financials(world, node, MAX_PERIODS, 0)[1] if world.has_history else len(_draw_calendar(world, node).years)
    )


def list_financials(world: World, node: int, limit: int, offset: int) -> tuple[list[FinancialRecord], int]:
    """Return one page of a company's accounts, newest first, and how many periods there are in all.

    Args:
        world: Seed and week.
        node: A company that is found.
        limit: Page size.
        offset: Periods to skip; beyond the end the page is empty.
    """
    filer, calendar = _draw_filer(world, node), _draw_calendar(world, node)
    if world.has_history:
        filed = [_record_period(world, filer, calendar, place) for place in range(len(calendar.years))]
        told = tell_history(world, node, calendar.years, filed)
        return told[offset : offset + limit], len(told)
    total = len(calendar.years)
    page = range(offset, min(offset + limit, total))
    return [_record_period(world, filer, calendar, place) for place in page], total


def _draw_calendar(world: World, node: int) -> Calendar:
    """Return the periods of a company."""
    return draw_calendar(world, node, _PERIODS[draw(world.key, SIZE, node) % 1330])


def _draw_filer(world: World, node: int) -> _Filer:
    """Draw what holds for all periods."""
    bits = draw(world.key, SIZE, node)
    assets = (1000 + (bits >> 12) % 9000) * 10 ** _MAGNITUDES[(bits >> 28) % 100]
    return _Filer(
        node,
        assets,
        trend=_TRENDS[(bits >> 36) & 7],
        capital=assets // (10 + (bits >> 40) % 90) // 10_000 * 10_000,
        committees=JOINT_COMMITTEES[(bits >> 48) & 15 if node >> BASE_BITS == 0 else 0],
        health=(bits >> 52) % 110 - 25,
        men=(bits >> 20) % 10_001,
    )


def _record_period(world: World, filer: _Filer, calendar: Calendar, place: int) -> FinancialRecord:
    """Draw one period."""
    year = calendar.years[place]
    u = _unpack_draws(blake2b(_pack_subject(world.key, filer.node, year, calendar.is_second(place))).digest())
    start, end, received = calendar.date_period(place, u[19])

    assets = filer.assets * filer.trend[year] * (58_000 + u[0] % 15_000) // (65_000 * 1_000_000)
    capital = filer.capital
    if u[31] < 160:
        assets, capital = assets // 1000, capital // 1000  # filed in thousands
    equity = assets * (u[1] - 6000) >> 16
    debt = assets - equity
    short = debt * (8000 + (u[2] * 3 >> 2)) >> 16
    long = debt - short
    long_financial = long * u[3] >> 16
    short_financial = short * u[5] >> 17
    current = assets * (13_000 + (u[8] * 3 >> 2)) >> 16
    cash = current * u[9] >> 17
    stock = current * u[10] >> 17

    profitability, cash_flow = _draw_profit(u, assets, debt, calendar.restated.count(year))
    health = filer.health + u[22] % 15 - 7
    health += calendar.revised.count(year) * (1 + u[23] % 6) * (1 if u[23] & 64 else -1)
    return FinancialRecord(
        start,
        end,
        received,
        health,
        filer.committees,
        profitability,
        Liquidity(
            cash / 100,
            cash_flow / 100,
            (current - short) / 100,
            (current - short - cash + short_financial) / 100,
            (current * 10_000 // short) / 10_000,
            ((current - stock) * 10_000 // short) / 10_000,
        ),
        Solvency(
            assets / 100,
            equity / 100,
            None if u[7] < 4000 else capital / 100,
            (equity - capital) / 100,
            (debt + assets // 97 if u[30] < 900 else debt) / 100,
            long / 100,
            long_financial / 100,
            ((long - long_financial) * u[4] >> 16) / 100,
            short / 100,
            short_financial / 100,
            ((short - short_financial) * u[6] >> 16) / 100,
        ),
        _draw_people(u, assets, filer.men),
    )


def _draw_profit(u: tuple[int, ...], assets: int, debt: int, restated_count: int) -> tuple[Profitability, int]:
    """Draw the results of a period, and its cash flow in cents."""
    revenue = assets * (10_000 + u[12] * 3) >> 16
    gross = revenue * (6000 + (u[13] * 3 >> 2)) >> 16
    gross += gross * restated_count >> 5
    ebitda = gross * (u[14] - 12_000) >> 16
    depreciation = assets * u[15] >> 20
    ebit = ebitda - depreciation
    taxable = ebit - (debt * u[16] >> 21)
    net = taxable - (taxable >> 2) if taxable > 0 else taxable
    shown = None if u[11] < 12_000 else revenue / 100
    return Profitability(shown, gross / 100, ebitda / 100, ebit / 100, net / 100), net + depreciation


def _draw_people(u: tuple[int, ...], assets: int, men: int) -> People:
    """Draw the staff of a period; `men` is their usual number among 10,000 employees."""
    employees = assets // (20_000_000 * (1 + u[17] % 8)) + 1
    men = min(10_000, max(0, men + u[20] % 401 - 200))
    women = 10_000 - men - (137 if u[21] < 300 and men < 9800 else 0)
    return People(employees, (employees * u[18] >> 19) + (u[18] & 1), men / 10_000, women / 10_000)
