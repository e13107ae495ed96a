"""The company that each line names, from all its columns with countries and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import polars as pl

from firmlake.intake.choice import Choice
from firmlake.intake.columns import COUNTRY, NUMBER_ROLES
from firmlake.intake.countries import OTHER_COUNTRY, country_codes
from firmlake.intake.forms import EMPTY
from firmlake.intake.identifiers import CONTRADICTION
from firmlake.intake.numbers import identify_column
from firmlake.intake.table import field

__all__ = ["resolve_lines"]

_ABROAD: Final = "another country, or no country: the service knows BE, NL and FR only"
_DISAGREEING: Final = "disagreeing columns: they name different companies or countries; correct one of them"
_LONGEST_GIVEN: Final = 200


def resolve_lines(
    batch: pl.DataFrame, choice: Choice, default_country: str | None, kept: Sequence[str] = ()
) -> pl.DataFrame:
    """Give the company that each line of a batch names, or why it names none.

    A prefix of the number names the country, else the register its column names, else the country column, else
    `default_country`, else what the word in the column's name suggests. Where the first two contradict the country
    column, the line is refused. Of several numbers the first that is filled is read, by the order of `NUMBER_ROLES`;
    another one that names another company refuses the line, one that names none does not.

    Args:
        batch: Lines as `firmlake.intake.table.Table` gives them.
        choice: The positions of the columns of each role.
        default_country: `BE`, `NL`, `FR` or None.
        kept: Columns of the batch to give as they are.

    Returns:
        One row for each line, in its order:

        - `line`: its number.
        - `given`: the number as it stands there, or country and number of a line from abroad, or the whole line where
          its fields cannot be told; cut at 200 characters.
        - `country`, `company_number`: the company in normal form, null where there is a problem.
        - `repairs`: bits of `firmlake.intake.identifiers.REPAIRS`.
        - `problem`: what is wrong and what to do about it, `BLANK` where the line holds nothing, else null.
        - for every other role of `choice` its text.
        - the columns `kept`.
    """
    countries = _first_country([batch[field(position)] for position in choice.get(COUNTRY, ())], len(batch))
    known = countries["code"].set(countries["code"] == OTHER_COUNTRY, None)
    numbers = (
        _named(batch[field(position)], known, role, default_country)
        for role in NUMBER_ROLES
        for position in choice.get(role, ())
    )
    lines = pl.concat([batch, countries, reduce(_first_number, numbers)], how="horizontal")
    is_abroad = pl.col("code") == OTHER_COUNTRY
    problem = pl.coalesce(
        "defect",
        pl.when(is_abroad).then(pl.lit(_ABROAD)),
        "problem",
        pl.when("is_ambiguous").then(pl.lit(_DISAGREEING)),
        pl.when(pl.col("country") != pl.col("code")).then(pl.lit(CONTRADICTION)),
    )
    with_country = pl.concat_str("cell", "given", separator=" ", ignore_nulls=True)
    given = pl.when(pl.col("defect").is_not_null()).then("text").when(is_abroad).then(with_country).otherwise("given")
    others = choice.keys() - {COUNTRY, *NUMBER_ROLES}
    return (
        lines.with_columns(problem=problem, given=given.fill_null("").str.head(_LONGEST_GIVEN))
        .select(
            "line",
            "given",
            pl.when(pl.col("problem").is_null()).then(pl.col("country", "company_number")),
            "repairs",
            "problem",
            **{role: pl.coalesce(*map(field, choice[role])) for role in sorted(others)},
        )
        .hstack([batch[name] for name in kept])
    )


def _first_country(columns: list[pl.Series], height: int) -> pl.DataFrame:
    """Give the first country of each line that is filled: its text, its code, and whether another column differs."""
    nothing = pl.repeat(None, height, dtype=pl.String)
    codes = [country_codes(cells) for cells in columns]
    code = pl.coalesce(nothing, *codes)
    return pl.select(
        cell=pl.coalesce(nothing, *columns),
        code=code,
        is_ambiguous=pl.any_horizontal(pl.repeat(value=False, n=height), *(code != other for other in codes)),
    )


def _named(numbers: pl.Series, country: pl.Series, role: str, default: str | None) -> pl.DataFrame:
    """Identify the numbers of one column; a text that is no number stays as it was given."""
    return identify_column(numbers, country, role, default).with_columns(given=numbers)


def _first_number(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Take the second number where the first is empty; refuse the line where they name different companies."""
    both = pl.concat([first, second.select(pl.all().name.suffix("_2"))], how="horizontal")
    differ = (pl.col("country") != pl.col("country_2")) | (pl.col("company_number") != pl.col("company_number_2"))
    is_empty = pl.col("problem").eq_missing(pl.lit(EMPTY))
    taken = {name: pl.when(is_empty).then(pl.col(f"{name}_2")).otherwise(pl.col(name)) for name in first.columns}
    both_given = pl.concat_str("given", "given_2", separator=" | ")
    taken["problem"] = pl.when(differ).then(pl.lit(_DISAGREEING)).otherwise(taken["problem"])
    taken["given"] = pl.when(differ).then(both_given).otherwise(taken["given"])
    return both.select(**taken)
