"""Accounts in another unit are told from growth and from single figures that leap, and left as they are."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from .figures import Figures

AMOUNTS = (
    "total_assets", "equity", "debt", "revenue", "gross_margin", "cash", "capital", "short_term_debt",
    "long_term_debt", "retained_earnings", "net_profit", "ebitda",
)  # fmt: skip
SMALL = ("total_assets", "equity", "debt", "capital", "retained_earnings", "net_profit")
"""What a small company publishes."""
PLANTED = 260


class Companies:
    """Companies that grow, shrink and leap honestly, and some of whose periods were filed in thousands."""

    def __init__(self, seed: int, count: int = 900) -> None:
        self.chance = random.Random(seed)
        self.rows: list[dict[str, Any]] = []
        self.planted: set[tuple[str, int]] = set()
        self.leapt: set[tuple[str, int]] = set()
        for company in range(1, count + 1):
            self._found(company)

    def _found(self, company: int) -> None:
        chance, number = self.chance, f"{company:08}"
        length = chance.choices(range(1, 21), [30, 40, *[12] * 6, *[5] * 12])[0]
        growth = chance.choices([1.03, 1.3, 2.0, 4.0, 0.7, 0.3], [50, 15, 8, 4, 10, 3])[0]
        published = SMALL if chance.random() < 0.3 else AMOUNTS
        periods = self._grow(length, growth)
        for year, amounts in enumerate(periods):
            for field in AMOUNTS:
                if field not in published or chance.random() < 0.05:
                    amounts[field] = None
            self._leap(number, year, amounts)
        if length >= 3 and chance.random() < 0.45:
            self._plant(number, periods)
        for year, amounts in enumerate(periods):
            self.rows.append(
                {
                    "company_number": number, "year": 2004 + year, "employee_count": chance.randint(1, 50),
                    **{name: None if value is None else f"{value:.2f}" for name, value in amounts.items()},
                }
            )  # fmt: skip

    def _grow(self, length: int, growth: float) -> list[dict[str, float | None]]:
        chance = self.chance
        assets, capital = 10 ** chance.uniform(3.5, 8.5), 10 ** chance.uniform(3, 5)
        margin, turnover = chance.uniform(0.1, 0.6), chance.uniform(0.3, 3)
        periods: list[dict[str, float | None]] = []
        for _ in range(length):
            assets = min(max(assets * growth, 2000), 1e10) * chance.lognormvariate(0, 0.2)
            equity = assets * chance.uniform(-0.1, 0.9)
            debt = (assets - equity) * chance.uniform(0.8, 1)
            short = debt * chance.uniform(0.1, 0.9)
            revenue = assets * turnover * chance.lognormvariate(0, 0.3)
            net = revenue * chance.uniform(-0.1, 0.15)
            values = (
                assets, equity, debt, revenue, revenue * margin, assets * chance.uniform(0.001, 0.3), capital, short,
                debt - short, equity - capital, net, net * chance.uniform(1, 3),
            )  # fmt: skip
            periods.append(dict(zip(AMOUNTS, values, strict=True)))
        return periods

    def _leap(self, number: str, year: int, amounts: dict[str, float | None]) -> None:
        """Let one figure alone be a thousand times too great or too small."""
        if self.chance.random() < 0.05:
            field = self.chance.choice([name for name in AMOUNTS if amounts[name] is not None] or ["cash"])
            if amounts[field]:
                amounts[field] *= self.chance.choice([1000, 0.001])
                self.leapt.add((number, year))

    def _plant(self, number: str, periods: list[dict[str, float | None]]) -> None:
        """File some periods in thousands, fewer than half of them; some with cents, some rounded to whole numbers."""
        most = (len(periods) - 1) // 2
        first, digits = self.chance.randrange(len(periods)), self.chance.choice([2, 2, 0])
        together = range(first, min(first + self.chance.choice([1, 1, 1, 2, 3]), first + most, len(periods)))
        for year in together:
            stated = [name for name, value in periods[year].items() if value]
            rounded = {name: round(periods[year][name] / 1000, digits) for name in stated}
            if sum(1 for value in rounded.values() if abs(value) >= 10) < 3:
                continue  # nothing of it would be left
            periods[year].update(rounded)
            self.planted.add((number, year))


def planted_figures(companies: Companies) -> Figures:
    figures = Figures()
    frame = pl.DataFrame(companies.rows, infer_schema_length=None)
    named = frame.with_columns(country=pl.lit("NL"), run_id=pl.lit("r"), valid_from=pl.lit(1)).to_arrow()
    figures.connection.register("made", named)
    figures.connection.execute(
        "INSERT INTO financials_versions BY NAME SELECT * EXCLUDE (year), make_date(year, 1, 1) AS start_date, "
        "make_date(year, 12, 31) AS end_date, 0 AS dup_no, 0 AS position, now() AT TIME ZONE 'UTC' AS fetched_at "
        "FROM made"
    )
    figures.connection.execute(
        "INSERT INTO companies_versions BY NAME SELECT DISTINCT country, company_number, run_id, valid_from, "
        "company_number AS name FROM made"
    )
    return figures.made()


@pytest.fixture(scope="module", params=[1, 2])
def planted(request):
    companies = Companies(request.param)
    return companies, planted_figures(companies)


def listed(figures):
    rows = figures.ask("SELECT company_number, year(end_date) - 2004, presumed_unit FROM unit_errors")
    return {(number, year): unit for number, year, unit in rows}


def test_accounts_in_thousands_are_found_and_their_neighbours_are_not_blamed(planted):
    """Recall 0.95 and precision 0.99, among companies that grow up to fourfold a year and figures that leap alone."""
    companies, figures = planted
    found = listed(figures)
    true = found.keys() & companies.planted
    assert len(companies.planted) >= PLANTED
    assert len(companies.leapt) >= PLANTED
    assert len(true) / len(companies.planted) >= 0.95, sorted(companies.planted - found.keys())[:20]
    assert len(true) / len(found) >= 0.99, sorted(found.keys() - companies.planted)
    assert {found[period] for period in true} == {Decimal(1000)}


def test_the_greatest_amounts_that_a_table_holds_are_told_in_the_unit_of_their_neighbours():
    """Loading makes the table: an amount too great for a type would keep a run from being published."""
    figures = Figures()
    greatest = dict.fromkeys(AMOUNTS, "9999999999999999.99")
    for company, power in ((1, 3), (2, 6)):
        least = {name: f"{Decimal(greatest[name]) / 10**power:.2f}" for name in AMOUNTS}
        for year in range(2018, 2025):
            lone = least if company == 1 else greatest
            rest = greatest if company == 1 else least
            figures.files(company, f"{year}-12-31", f"{year}-01-01", **(lone if year == 2021 else rest))
    columns = "company_number::INTEGER, presumed_unit::DOUBLE, total_assets_presumed"
    assert figures.made().ask(f"SELECT {columns} FROM unit_errors ORDER BY ALL") == [
        (1, 1000, Decimal("10000000000000000.00")),
        (2, 0.000001, Decimal("10000000000.00")),
    ]
