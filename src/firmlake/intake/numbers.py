"""Identify companies by the numbers of one column, using the country that the column's name implies."""

from __future__ import annotations

from typing import Final

import polars as pl

from firmlake.intake.columns import COLUMN_COUNTRY, FALLBACK_COUNTRY, SEVERAL
from firmlake.intake.identifiers import identify

__all__ = ["header_country", "identify_column"]

_AMBIGUOUS: Final = "a number that is valid in several countries: add a country column or a prefix"


def header_country(role: str, default_country: str | None) -> str | None:
    """Return the country that a column's name implies for numbers without one; None if it implies none."""
    return COLUMN_COUNTRY.get(role) or (None if default_country else FALLBACK_COUNTRY.get(role))


def identify_column(
    numbers: pl.Series, country: pl.Series, role: str, default_country: str | None, *, is_register: bool = False
) -> pl.DataFrame:
    """Identify the company of each number in a column.

    The country of a line takes precedence over the one that the column's name implies.

    Args:
        numbers: Texts of the column, null if empty.
        country: Country of each line: `BE`, `NL`, `FR` or null.
        role: Role of the column, one of `firmlake.intake.columns.NUMBER_ROLES`.
        default_country: Country of numbers without another country; None if there is no default.
        is_register: Whether the column holds only numbers of the register in its name, whatever the country of a line.
            Numbers of other countries are then refused.

    Returns:
        The result of `identify`.
    """
    if role in SEVERAL and default_country is None:
        return _of_several(numbers, country, SEVERAL[role])
    default = header_country(role, default_country) or default_country
    named = country if default is None else country.fill_null(default)
    return identify(numbers, named, COLUMN_COUNTRY.get(role) if is_register else None)


def _of_several(numbers: pl.Series, country: pl.Series, countries: tuple[str, ...]) -> pl.DataFrame:
    """For numbers without a country, take the one among these countries in which the number is valid."""
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
