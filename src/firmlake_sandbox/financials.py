"""The accounts of a company: 1 to 20 periods, 8 on average, newest first, consistent within themselves nearly always.

All amounts are drawn as whole cents from the size of the company, so that JSON shows at most two decimals, assets are
equity plus debt, and so on. Now and then, as in real accounts, something does not add up or is missing.
"""

from hashlib import blake2b
from struct import Struct

import msgspec

from firmlake_sandbox.draws import SIZE, draw
from firmlake_sandbox.history import tell_history
from firmlake_sandbox.numbers import BASE_BITS
from firmlake_sandbox.periods import MAX_PERIODS, Calendar, draw_calendar
from firmlake_sandbox.records import FinancialRecord, Liquidity, People, Profitability, Solvency
from firmlake_sandbox.words import JOINT_COMMITTEES
from firmlake_sandbox.world import World

# Weights 114, 109, ... 19 for 1 to 20 periods give a mean of exactly 8.
_PERIODS = bytes(count for count in range(1, MAX_PERIODS + 1) for _ in range(119 - 5 * count))
# Powers of ten of the total assets in cents: most companies own less than a million, one in thirty more than a billion.
_MAGNITUDES = bytes(
    power for power, weight in zip(range(3, 10), (20, 35, 24, 12, 6, 2, 1), strict=True) for _ in range(weight)
)
_GROWTH = (-40, -10, 0, 15, 25, 40, 60, 110)  # a year, in thousandths

_pack_subject = Struct("<QQhH").pack
_unpack_draws = Struct("<32H").unpack


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
