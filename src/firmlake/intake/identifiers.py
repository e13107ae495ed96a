"""The company that a number names, or why it names none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH
from firmlake.intake.checks import CHECKS, REFUSED
from firmlake.intake.forms import FORMS, Form
from firmlake.intake.repair import CLEANING_REPAIRS, clean_numbers

__all__ = ["CONTRADICTION", "REPAIRS", "identify"]

CONTRADICTION: Final = "the number names another country than its line or column does: correct one of them"

REPAIRS: Final = (
    *CLEANING_REPAIRS,
    *dict.fromkeys(form.repair for forms in FORMS.values() for form in forms if form.repair),
)
"""Every repair there is; bit n of `repairs` stands for entry n."""


def identify(text: pl.Series, country: pl.Series, column_country: str | None = None) -> pl.DataFrame:
    """Give the company that each number names, or why it names none.

    A prefix or label of the number (`BE 0403...`, `KvK 1708...`) goes before `column_country`, that before `country`.

    Args:
        text: Company numbers as they stand in the file, null where there is none.
        country: For each number `BE`, `NL`, `FR` or null: the country of numbers that nothing else gives one.
        column_country: The country whose register the column names (`SIREN`: `FR`), None where it names none.

    Returns:
        One row for each number, in its order:

        - `country`, `company_number`: the company in normal form, null where there is a problem.
        - `repairs`: bits of `REPAIRS`, what was done to the text.
        - `problem`: what is wrong and what to do about it, else null.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of BE numbers".
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


def _identify(numbers: pl.LazyFrame, country: str | None, forms: Sequence[Form]) -> pl.LazyFrame:
    """Identify numbers of one country by its forms."""
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
        )
    )
