"""Kinds of unit errors, and of honest changes that look like them, in a made-up world whose answer is known.

Companies grow by 15 % a year, give or take; each kind is planted in 25 of them. The numbers of employees stay right.
"""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal

import polars as pl
import pytest

from .figures import Figures

SHARES = {
    "equity": 0.4, "debt": 0.55, "revenue": 1.6, "gross_margin": 0.5, "cash": 0.1, "short_term_debt": 0.35,
    "long_term_debt": 0.2, "retained_earnings": 0.25, "net_profit": 0.05,
}  # fmt: skip
"""Amounts as shares of total assets, each with its own noise."""
COUNT, YEARS = 25, 8


def every(amounts, years, factor, *, but=()):
    for year in years:
        for name in amounts[year].keys() - {"employee_count", *but}:
            amounts[year][name] *= factor


def one_year(amounts, chance):
    year = chance.randrange(YEARS)
    every(amounts, [year], 0.001)
    return {year: 1000}


def a_thousand_times_too_large(amounts, chance):
    year = chance.randrange(YEARS)
    every(amounts, [year], 1000)
    return {year: 0.001}


def millions(amounts, chance):
    year = chance.randrange(YEARS)
    every(amounts, [year], 1e-6)
    return {year: 1_000_000}


def three_years(amounts, chance):
    every(amounts, range(3, 6), 0.001)
    return dict.fromkeys(range(3, 6), 1000)


def every_second_year(amounts, chance):
    every(amounts, range(0, YEARS, 2), 0.001)
    return dict.fromkeys(range(0, YEARS, 2), 1000)


def first_half(amounts, chance):
    every(amounts, range(4), 0.001)
    return dict.fromkeys(range(4), 1000)


def two_errors(amounts, chance):
    every(amounts, [2], 1_000_000)
    every(amounts, [7], 0.001)
    return {2: 0.000001, 7: 1000}


def two_periods(amounts, chance):
    del amounts[:6]
    every(amounts, [1], 0.001)
    return {1: 1000}


def factor_100(amounts, chance):
    every(amounts, [4], 0.01)
    return {4: None}


def francs(amounts, chance):
    every(amounts, range(3), 40.3399)
    return dict.fromkeys(range(3))


def signs(amounts, chance):
    every(amounts, [4], -1)
    return {4: "sign"}


def wound_down(amounts, chance):
    """The capital stays, as it does when a company stops trading."""
    every(amounts, range(5, YEARS), 1 / chance.uniform(60, 200), but={"capital"})
    return {}


def wound_down_with_capital(amounts, chance):
    """Nothing tells this from another currency; but it is no unit."""
    every(amounts, range(5, YEARS), 1 / chance.uniform(60, 200))
    return dict.fromkeys(range(5, YEARS))


def merged(amounts, chance):
    every(amounts, range(5, YEARS), chance.uniform(20, 90), but={"capital"})
    return {}


def started_up(amounts, chance):
    for year in range(YEARS):
        every(amounts, [year], 10 ** (min(year, 4) - 4), but={"capital"})
    return {}


def one_field(amounts, chance):
    amounts[5][chance.choice(["revenue", "debt", "total_assets"])] *= 0.001
    return {}


def nothing(amounts, chance):
    return {}


WRONG = (
    one_year, a_thousand_times_too_large, millions, three_years, every_second_year, first_half, two_errors, two_periods,
)  # fmt: skip
OTHERS = (factor_100, francs, signs, wound_down_with_capital)
HONEST = (wound_down, merged, started_up, one_field, nothing)


def make_world(seed):
    """Return accounts, and by kind the planted factors of (company, year)."""
    chance, rows, planted, number = random.Random(seed), [], defaultdict(dict), 0
    for kind in (*WRONG, *OTHERS, *HONEST):
        for _ in range(COUNT):
            number += 1
            assets, capital, made = chance.uniform(2e6, 5e7), chance.uniform(2e4, 2e6), []
            for _ in range(YEARS):
                assets *= chance.lognormvariate(0.03, 0.15)
                shares = {name: assets * share * chance.lognormvariate(0, 0.15) for name, share in SHARES.items()}
                staff = max(1, round(assets / 2e5))
                made.append({"total_assets": assets, "capital": capital, "employee_count": staff, **shares})
            found = kind(made, chance)
            planted[kind.__name__] |= {(f"{number:08}", year): factor for year, factor in found.items()}
            planted[kind.__name__] |= {} if found else {(f"{number:08}", year): "none" for year in range(len(made))}
            rows += [{"company_number": f"{number:08}", "year": year, **amounts} for year, amounts in enumerate(made)]
    return rows, planted


def figures_of(rows):
    """A warehouse with these accounts."""
    figures = Figures()
    figures.connection.register("made", pl.DataFrame(rows).to_arrow())
    figures.connection.execute(
        "INSERT INTO financials_versions BY NAME "
        "SELECT * EXCLUDE (year), 'NL' AS country, 'r' AS run_id, 1 AS valid_from, "
        "make_date(2016 + year::INTEGER, 1, 1) AS start_date, make_date(2016 + year::INTEGER, 12, 31) AS end_date, "
        "0 AS dup_no, 0 AS position, TIMESTAMP '2026-01-05' AS fetched_at FROM made"
    )
    figures.connection.execute(
        "INSERT INTO companies_versions BY NAME SELECT DISTINCT 'NL' AS country, company_number, 'r' AS run_id, "
        "1 AS valid_from, company_number AS name FROM made"
    )
    return figures.made()


@pytest.fixture(scope="module", params=[1, 2])
def world(request):
    rows, planted = make_world(request.param)
    figures = figures_of(rows)
    units = {(n, y): f for n, y, f in figures.ask(
        "SELECT company_number, year(end_date) - 2016, presumed_unit::DOUBLE FROM unit_errors")}  # fmt: skip
    doubts = {(n, y): b for n, y, b in figures.ask(
        "SELECT company_number, year(end_date) - 2016, incomparable_because FROM doubtful_periods")}  # fmt: skip
    return planted, units, doubts


@pytest.mark.parametrize("kind", [kind.__name__ for kind in WRONG])
def test_a_unit_error_is_found_with_its_unit(world, kind):
    planted, units, _ = world
    found = [period for period, factor in planted[kind].items() if units.get(period) == factor]
    assert len(found) >= 0.97 * len(planted[kind])


@pytest.mark.parametrize("kind", [kind.__name__ for kind in HONEST])
def test_an_honest_change_is_no_unit_error(world, kind):
    planted, units, _ = world
    assert [period for period in planted[kind] if period in units] == []


def test_only_planted_periods_are_listed(world):
    planted, units, _ = world
    wrong = {period for kind in (*WRONG, *OTHERS) for period in planted[kind.__name__]}
    assert len(units.keys() - wrong) <= 0.01 * len(units)


@pytest.mark.parametrize("kind", [kind.__name__ for kind in OTHERS])
def test_another_factor_or_sign_keeps_a_period_out_of_growth(world, kind):
    planted, units, doubts = world
    assert len(planted[kind].keys() & doubts.keys()) >= 0.95 * len(planted[kind])
    assert {units[period] for period in planted[kind] if period in units} <= {None}


def test_the_greatest_amounts_that_a_table_holds_are_told_in_the_unit_of_their_neighbours():
    """Loading makes the table: an amount too great for a type would keep a run from being published."""
    figures = Figures()
    greatest = dict.fromkeys(("total_assets", *SHARES), "9999999999999999.99")
    for company, power in ((1, 3), (2, 6)):
        least = {name: f"{Decimal(greatest[name]) / 10**power:.2f}" for name in greatest}
        for year in range(2018, 2025):
            lone = least if company == 1 else greatest
            rest = greatest if company == 1 else least
            figures.files(company, f"{year}-12-31", f"{year}-01-01", **(lone if year == 2021 else rest))
    columns = "company_number::INTEGER, presumed_unit::DOUBLE, total_assets_presumed"
    assert figures.made().ask(f"SELECT {columns} FROM unit_errors ORDER BY ALL") == [
        (1, 1000, Decimal("10000000000000000.00")),
        (2, 0.000001, Decimal("10000000000.00")),
    ]
