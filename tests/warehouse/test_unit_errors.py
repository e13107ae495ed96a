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


def all_of(years, factor):
    return lambda chance: dict.fromkeys(years, factor)


def one_year(factor):
    return lambda chance: {chance.randrange(YEARS): factor}


def drawn(years, least, most, power=1):
    return lambda chance: dict.fromkeys(years, chance.uniform(least, most) ** power)


WRONG = {
    "one year": one_year(0.001),
    "a thousand times too large": one_year(1000),
    "millions": one_year(1e-6),
    "three years": all_of(range(3, 6), 0.001),
    "every second year": all_of(range(0, YEARS, 2), 0.001),
    "first half": all_of(range(4), 0.001),
    "two errors": lambda chance: {2: 1_000_000, 7: 0.001},
    "two periods": lambda chance: {1: 0.001},
}
"""The factors of the years that are in another unit, of all amounts but the employees."""
UNITS = {0.001: 1000, 1000: 0.001, 1e-6: 1_000_000, 1_000_000: 0.000001}
OTHERS = {
    "factor 100": all_of([4], 0.01),
    "francs": all_of(range(3), 40.3399),
    "signs": all_of([4], -1),
    # Nothing tells this from another currency; but it is no unit.
    "wound down with its capital": drawn(range(5, YEARS), 60, 200, -1),
}
HONEST = {
    "wound down": drawn(range(5, YEARS), 60, 200, -1),
    "merged": drawn(range(5, YEARS), 20, 90),
    "started up": lambda chance: {year: 10 ** (min(year, 4) - 4) for year in range(YEARS)},
    "one field": lambda chance: {5: 0.001},
    "nothing": lambda chance: {},
}
"""Changes after which the capital stays, as it does when a company stops trading."""


def make_world(seed):
    """Return accounts, and by kind the planted units of (company, year)."""
    chance, rows, planted, number = random.Random(seed), [], defaultdict(dict), 0
    for kind, draw in {**WRONG, **OTHERS, **HONEST}.items():
        for _ in range(COUNT):
            number += 1
            accounts = draw_accounts(chance)[-2 if kind == "two periods" else 0 :]
            factors = draw(chance)
            kept = {"employee_count", *(("capital",) if kind in HONEST else ())}
            changed = [chance.choice(["revenue", "debt", "total_assets"])] if kind == "one field" else None
            for year, factor in factors.items():
                for name in changed or accounts[year].keys() - kept:
                    accounts[year][name] *= factor
            units = dict.fromkeys(range(len(accounts))) if kind in HONEST else factors
            planted[kind] |= {(f"{number:08}", year): UNITS.get(factor) for year, factor in units.items()}
            rows += [{"company_number": f"{number:08}", "year": year, **made} for year, made in enumerate(accounts)]
    return rows, planted


def draw_accounts(chance):
    assets, capital, made = chance.uniform(2e6, 5e7), chance.uniform(2e4, 2e6), []
    for _ in range(YEARS):
        assets *= chance.lognormvariate(0.03, 0.15)
        shares = {name: assets * share * chance.lognormvariate(0, 0.15) for name, share in SHARES.items()}
        made.append(
            {"total_assets": assets, "capital": capital, "employee_count": max(1, round(assets / 2e5)), **shares}
        )
    return made


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


@pytest.mark.parametrize("kind", WRONG)
def test_a_unit_error_is_found_with_its_unit(world, kind):
    planted, units, _ = world
    found = [period for period, factor in planted[kind].items() if units.get(period) == factor]
    assert len(found) >= 0.97 * len(planted[kind])


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_change_is_no_unit_error(world, kind):
    planted, units, _ = world
    assert [period for period in planted[kind] if period in units] == []


def test_only_planted_periods_are_listed(world):
    planted, units, _ = world
    wrong = {period for kind in (*WRONG, *OTHERS) for period in planted[kind]}
    assert len(units.keys() - wrong) <= 0.01 * len(units)


@pytest.mark.parametrize("kind", OTHERS)
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
