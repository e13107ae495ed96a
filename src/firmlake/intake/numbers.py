"""The companies that the numbers of one column name, by what the column's name says of their country."""

from __future__ import annotations

from typing import Final

import polars as pl

from firmlake.intake.columns import COLUMN_COUNTRY, FALLBACK_COUNTRY, SEVERAL
from firmlake.intake.identifiers import identify

__all__ = ["identify_column"]

_AMBIGUOUS: Final = "a number of several countries by its form: add a country column or a prefix"


def identify_column(numbers: pl.Series, country: pl.Series, role: str, default_country: str | None) -> pl.DataFrame:
    """Give the company that each number of a column names, or why it names none.

    Args:
        numbers: The texts of the column, null where there is none.
        country: For each of them `BE`, `NL`, `FR` or null: what the line says.
        role: The role of the column, of `firmlake.intake.columns.NUMBER_ROLES`.
        default_country: The country of numbers that nothing else gives one.

    Returns:
        What `identify` gives.
    """
    if role in SEVERAL and default_country is None:
        return _of_several(numbers, country, SEVERAL[role])
    default = default_country or FALLBACK_COUNTRY.get(role)
    named = country if default is None else country.fill_null(default)
    return identify(numbers, named, COLUMN_COUNTRY.get(role))


def _of_several(numbers: pl.Series, country: pl.Series, countries: tuple[str, ...]) -> pl.DataFrame:
    """Take for each number that no country is named for the only one of these whose forms it has."""
    tried = {code: identify(numbers, country.fill_null(code)) for code in countries}
    holds = [found["problem"].is_null() for found in tried.values()]
    count = pl.select(pl.sum_horizontal(*(pl.lit(each).cast(pl.Int8) for each in holds))).to_series()
    found = tried[countries[0]]
    for each, taken in zip(list(tried.values())[1:], holds[1:], strict=True):
        found = pl.DataFrame([each[name].zip_with(taken, found[name]) for name in found.columns])
    first = tried[countries[0]]
    differ = (count > 1) & (country.is_null()) & (first["country"].is_null() | (found["country"] != first["country"]))
    problem = pl.when(differ).then(pl.lit(_AMBIGUOUS)).otherwise("problem")
    is_sure = problem.is_null()
    return found.with_columns(
        country=pl.when(is_sure).then("country"),
        company_number=pl.when(is_sure).then("company_number"),
        problem=problem,
    )
