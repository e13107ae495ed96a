"""The accounts of a company: 1 to 20 periods, 8 on average, newest first, consistent within themselves nearly always.

All amounts are drawn as whole cents from the size of the company, so that JSON shows at most two decimals, assets are
equity plus debt, and so on. Now and then, as in real accounts, something does not add up or is missing.

A year is counted back from the period that is newest in week 0: 0, 1, 2 ...; those filed since are -1, -2 ...
"""

import struct
from datetime import date
from hashlib import blake2b
from typing import Any, NamedTuple

from firmlake_sandbox.numbers import BASE_BITS
from firmlake_sandbox.world import JOINT_COMMITTEES, World, draw, list_beats

MAX_PERIODS = 20

Record = dict[str, Any]

_MONDAY_OF_WEEK_0 = date(2026, 1, 5).toordinal()
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


def list_financials(world: World, node: int, limit: int, offset: int) -> tuple[list[Record], int]:
    """Return one page of a company's accounts, newest first unless the world has it otherwise, and how many there are.

    The company must be one that is found. Beyond the end the page is empty.
    """
    books = _draw_books(world, node)
    places = range(len(books.years))
    order = slice(None, None, -1 if world.is_oldest_first else 1)
    return [_draw_record(world, books, place) for place in places[order][offset : offset + limit]], len(places)


class _Books(NamedTuple):
    """What holds for all periods of a company in one week."""

    node: int
    years: tuple[int, ...]  # of each period, newest first; a year that was filed twice is there twice
    restated: tuple[int, ...]  # years whose income statement was filed anew, once for each time
    revised: tuple[int, ...]  # years whose health indicator changed, being then the newest, once for each time
    filing_day: int  # ordinal, of year 0
    end_year: int  # calendar year in which year 0 ended
    year_end: _YearEnd
    earlier_year_end: _YearEnd  # of the years before `switch`
    switch: int
    assets: int  # in cents, in year 0
    trend: tuple[int, ...]
    capital: int
    committees: list[str]
    health: int
    men: int  # of 10,000 employees

    def is_second(self, place: int) -> bool:
        """Tell whether a period is the older of the two filings of its year."""
        return place > 0 and self.years[place - 1] == self.years[place]

    def end_of(self, year: int) -> _YearEnd:
        """Return where the fiscal year ends."""
        return self.year_end if year <= self.switch else self.earlier_year_end


def _draw_books(world: World, node: int) -> _Books:
    bits, size, week = draw(world.key, "events", node), draw(world.key, "size", node), world.week
    count = _PERIODS[size % 1330]  # in week 0; those filed later are added, up to 20 in all
    filing_week = bits % _WEEKS_A_YEAR
    filing_day = _MONDAY_OF_WEEK_0 + (filing_week + 1 - _WEEKS_A_YEAR) * 7
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
    assets = (1000 + (size >> 12) % 9000) * 10 ** _MAGNITUDES[(size >> 28) % 100]
    return _Books(
        node,
        tuple(years[:MAX_PERIODS]),
        tuple(beat * 7 % (first + 1) for beat in list_beats(bits >> 44, week, _REVISED_EVERY)),
        tuple(-_count_filed(filing_week, beat) for beat in list_beats(bits >> 50, week, _REVISED_EVERY)),
        filing_day,
        filing_date.year - (year_end[0] >= filing_date.month),
        year_end,
        (_JUNE if year_end is _DECEMBER else _DECEMBER) if is_odd else year_end,
        switch=(bits >> 40) % (first + 1),
        assets=assets,
        trend=_TRENDS[(size >> 36) & 7],
        capital=assets // (10 + (size >> 40) % 90) // 10_000 * 10_000,
        committees=JOINT_COMMITTEES[(size >> 48) & 15 if node >> BASE_BITS == 0 else 0],
        health=(size >> 52) % 110 - 25,
        men=(size >> 20) % 10_001,
    )


def _count_filed(filing_week: int, week: int) -> int:
    """Return how many new accounts a company has filed since week 0."""
    return len(list_beats(_WEEKS_A_YEAR - 1 - filing_week, week, _WEEKS_A_YEAR))


def _draw_record(world: World, books: _Books, place: int) -> Record:
    year = books.years[place]
    u = _unpack_draws(blake2b(_pack_subject(world.key, books.node, year, books.is_second(place))).digest())

    assets = books.assets * books.trend[year] * (58_000 + u[0] % 15_000) // (65_000 * 1_000_000)
    capital = books.capital
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

    profitability, cash_flow = _draw_profit(u, assets, debt, books.restated.count(year))
    health = books.health + u[22] % 15 - 7
    health += books.revised.count(year) * (1 + u[23] % 6) * (1 if u[23] & 64 else -1)
    return {
        **_date_period(books, place, u[19]),
        "healthIndicator": health,
        "jointCommitteeCodes": books.committees,
        "profitability": profitability,
        "liquidity": _amounts(
            cash=cash,
            cashFlow=cash_flow,
            netWorkingCapital=current - short,
            netWorkingCapitalRequirement=current - short - cash + short_financial,
        )
        | {
            "currentRatio": (current * 10_000 // short) / 10_000,
            "quickRatio": ((current - stock) * 10_000 // short) / 10_000,
        },
        "solvency": _amounts(
            totalAssets=assets,
            equity=equity,
            capital=None if u[7] < 4000 else capital,
            retainedEarnings=equity - capital,
            debt=debt + assets // 97 if u[30] < 900 else debt,
            longTermDebt=long,
            longTermDebtFinancial=long_financial,
            longTermDebtAccountsPayable=(long - long_financial) * u[4] >> 16,
            shortTermDebt=short,
            shortTermDebtFinancial=short_financial,
            shortTermDebtAccountsPayable=(short - short_financial) * u[6] >> 16,
        ),
        "people": _draw_people(u, assets, books.men),
    }


def _draw_profit(u: tuple[int, ...], assets: int, debt: int, restated_count: int) -> tuple[Record, int]:
    """Draw the results of a period, and its cash flow in cents."""
    revenue = assets * (10_000 + u[12] * 3) >> 16
    gross = revenue * (6000 + (u[13] * 3 >> 2)) >> 16
    gross += gross * restated_count >> 5
    ebitda = gross * (u[14] - 12_000) >> 16
    depreciation = assets * u[15] >> 20
    ebit = ebitda - depreciation
    taxable = ebit - (debt * u[16] >> 21)
    net = taxable - (taxable >> 2) if taxable > 0 else taxable
    shown = None if u[11] < 12_000 else revenue
    return _amounts(revenue=shown, grossMargin=gross, ebitda=ebitda, ebit=ebit, netProfit=net), net + depreciation


def _amounts(**cents: int | None) -> dict[str, float | None]:
    return {name: None if amount is None else amount / 100 for name, amount in cents.items()}


def _date_period(books: _Books, place: int, noise: int) -> dict[str, str]:
    """Return when a period began and ended and its accounts came in; the noise shifts the last date by some days."""
    year = books.years[place]
    month, day, _, _ = books.end_of(year)
    _, _, next_day, later = books.end_of(year + 1)
    end_year = books.end_year - year
    end = date(end_year, month, day)
    received = max(books.filing_day - year * 7 * _WEEKS_A_YEAR - noise % 7, end.toordinal() + _SOONEST_FILING)
    received -= 30 * books.is_second(place)
    return {
        "startDate": f"{end_year - 1 + later}-{next_day}",
        "endDate": end.isoformat(),
        "dateReceived": date.fromordinal(received).isoformat(),
    }


def _draw_people(u: tuple[int, ...], assets: int, men: int) -> dict[str, float]:
    employees = assets // (20_000_000 * (1 + u[17] % 8)) + 1
    men = min(10_000, max(0, men + u[20] % 401 - 200))
    women = 10_000 - men - (137 if u[21] < 300 and men < 9800 else 0)
    return {
        "employees": employees,
        "newHires": (employees * u[18] >> 19) + (u[18] & 1),
        "employeeMaleRatio": men / 10_000,
        "employeeFemaleRatio": women / 10_000,
    }
