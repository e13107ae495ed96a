"""Identify companies by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, Company
from firmlake.core.errors import UsageError
from firmlake.intake.checks import CHECKS, REFUSED
from firmlake.intake.forms import FORMS, Form
from firmlake.intake.repair import CLEANING_REPAIRS, clean_numbers

__all__ = ["CONTRADICTION", "REPAIRS", "SURPLUS", "identify", "read_company", "read_named_company"]

CONTRADICTION: Final = "the number names a different country than its line or column: correct one of them"

SURPLUS: Final = "fields beyond the last column left out"

REPAIRS: Final = (
    *CLEANING_REPAIRS,
    *dict.fromkeys(form.repair for forms in FORMS.values() for form in forms if form.repair),
    SURPLUS,
)
"""All repairs; bit n of `repairs` stands for entry n."""


def identify(text: pl.Series, country: pl.Series, column_country: str | None = None) -> pl.DataFrame:
    """Identify the company of each number, or state why there is none.

    The country comes from a prefix or label of the number (`BE 0403...`, `KvK 1708...`), then from `column_country`,
    then from `country`. A prefix that contradicts `column_country` is refused.

    Args:
        text: Company numbers as in the file, null if empty.
        country: `BE`, `NL`, `FR` or null for each number, used if nothing else names a country.
        column_country: The only country whose numbers the column may hold; None if it may hold others.

    Returns:
        One row per number, in the same order:

        - `country`, `company_number`: the company in normal form; null if there is a problem.
        - `repairs`: bits of `REPAIRS` for the repairs made.
        - `problem`: what is wrong and what to do about it, or null.
        - `own_country`: the country of the prefix or label, or null.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of company numbers".
    """
    contradicts = pl.col("own_country") != pl.lit(column_country, pl.String)
    named = pl.coalesce("own_country", pl.lit(column_country, pl.String), pl.lit(country))
    numbers = clean_numbers(text).with_columns(
        country=pl.when(named.is_in(COUNTRIES)).then(named),
        problem=pl.coalesce("problem", pl.when(contradicts).then(pl.lit(CONTRADICTION))),
        row=pl.int_range(pl.len()),
    )
    parts = [
        _identify(numbers.lazy().filter(pl.col("country").eq_missing(pl.lit(code, pl.String))), code, forms)
        for code, forms in FORMS.items()
    ]
    return pl.concat(parts).sort("row").drop("row").collect()


def read_company(country: str, text: str) -> Company:
    """Read a company number in any spelling.

    Raises:
        UsageError: The text is not a company number of this country. The message gives the reason.
    """
    row = identify(pl.Series([text]), pl.Series([country]), None).row(0, named=True)
    if row["problem"] is not None or row["country"] != country:
        raise UsageError(
            f"{country} {text}: {row['problem'] or 'this is a number of another country'}", "Correct the number"
        )
    return Company(row["country"], row["company_number"])


def read_named_company(text: str) -> Company:
    """Read a company as a person names it, such as "BE 0403.227.515": the country, then the number in any spelling.

    Raises:
        UsageError: The text does not begin with a country, or the rest is not a company number of it.
    """
    country, number = text.strip()[:2].upper(), text.strip()[2:].strip()
    if country not in COUNTRIES:
        raise UsageError(f"{text!r} does not begin with BE, NL or FR", "Write the country first: BE 0403227515")
    return read_company(country, number)


def _identify(numbers: pl.LazyFrame, country: str | None, forms: Sequence[Form]) -> pl.LazyFrame:
    """Identify the numbers of one country by its forms."""
    body = pl.col("body")
    form = pl.coalesce(
        *(pl.when(body.str.contains(form.pattern)).then(pl.lit(n, pl.UInt32)) for n, form in enumerate(forms))
    )

    def of_form(values: Sequence[object], dtype: pl.DataType) -> pl.Expr:
        return pl.lit(pl.Series(values, dtype=dtype)).gather(pl.col("form"))

    lost_zero = of_form([form.lost_zero for form in forms], pl.Boolean())
    start = of_form([form.start for form in forms], pl.UInt32())
    problem = of_form([form.problem for form in forms], pl.String())
    repair = of_form([1 << REPAIRS.index(form.repair) if form.repair else 0 for form in forms], pl.UInt32())
    holds = pl.lit(value=False)
    for check in dict.fromkeys(form.check for form in forms if form.check != REFUSED):
        checked = [n for n, form in enumerate(forms) if form.check == check]
        holds = pl.when(pl.col("form").is_in(checked)).then(CHECKS[check]).otherwise(holds)
    accepted = pl.col("problem").is_null()
    number = pl.col("digits").str.slice(start, NUMBER_LENGTH.get(country or "", 0))
    return (
        numbers.with_columns(form=form)
        .with_columns(digits=pl.when(lost_zero).then("0" + body).otherwise(body))
        .with_columns(value=pl.col("digits").cast(pl.Int64, strict=False))
        .with_columns(problem=pl.coalesce("problem", pl.when(~holds.fill_null(value=False)).then(problem)))
        .select(
            "row",
            country=pl.when(accepted).then(pl.lit(country, pl.String)),
            company_number=pl.when(accepted).then(number),
            repairs=pl.col("repairs") | repair,
            problem="problem",
            own_country="own_country",
        )
    )
