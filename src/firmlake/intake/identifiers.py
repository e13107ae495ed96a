"""Identify companies by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, Company
from firmlake.core.errors import UsageError
from firmlake.intake.columns import COLUMNS, country_of


class _Step(msgspec.Struct, frozen=True):
    pattern: str
    to: str = ""
    repair: str = ""
    problem: str = ""


class _Form(msgspec.Struct, frozen=True):
    pattern: str
    check: str = ""
    problem: str = ""
    repair: str | None = None
    is_short: bool = False
    start: int = 0


class _Numbers(msgspec.Struct, frozen=True):
    """What `identifiers.toml` holds."""

    labels: dict[str, str]
    steps: tuple[_Step, ...]
    forms: dict[str, tuple[_Form, ...]]
    other: dict[str, str]


_NUMBERS: Final = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_text("utf-8"), type=_Numbers)
_FORMS: Final = {
    country: (*_NUMBERS.forms["first"], *_NUMBERS.forms[country], *_NUMBERS.forms["last"], _Form("", problem=problem))
    for country, problem in _NUMBERS.other.items()
}
"""Forms by country. The first whose pattern matches decides; that of numbers of no form matches all."""

_ANY_LABEL: Final = "|".join(_NUMBERS.labels)
EMPTY: Final = _NUMBERS.forms["first"][0].problem
OF_A_COUNTRY: Final = frozenset(form.problem for country in _NUMBERS.other for form in _NUMBERS.forms[country]) | {
    *_NUMBERS.other.values()
}
"""Problems of a number as one of a certain country; with another country there may be none."""
CONTRADICTION: Final = "the number names a different country than its line or column: correct one of them"
SURPLUS: Final = "fields beyond the last column left out"
_AMBIGUOUS: Final = "a number that is valid in several countries: add a country column or a prefix"

_DIGIT_SUM: Final = pl.Series([tens + ones for tens in range(10) for ones in range(10)])
_LUHN_SUM: Final = pl.Series([tens * 2 - (tens > 4) * 9 + ones for tens in range(10) for ones in range(10)])
"""ISO/IEC 7812-1: every second digit from the right is doubled, and 9 is subtracted from values above 9."""


def _sum_of_pairs(number: pl.Expr, pairs: int, table: pl.Series) -> pl.Expr:
    """Add up the values of a table of 100 for each pair of digits, from the right."""
    values = (pl.lit(table).gather(number // int(100**n) % 100) for n in range(pairs))
    return pl.sum_horizontal(*values, ignore_nulls=False)


def _enterprise_number(number: pl.Expr) -> pl.Expr:
    """Check that the last two digits are 97 minus the first eight modulo 97."""
    return 97 - number // 100 % 97 == number % 100


def _siren(number: pl.Expr) -> pl.Expr:
    return _sum_of_pairs(number, 5, _LUHN_SUM) % 10 == 0


def _siret(number: pl.Expr) -> pl.Expr:
    """Check a SIREN and five digits. For branches of La Poste (not its head office), the digit sum must divide by 5."""
    siren = number // 100_000
    is_multiple_of_5 = _sum_of_pairs(number, 7, _DIGIT_SUM) % 5 == 0
    holds = _sum_of_pairs(number, 7, _LUHN_SUM) % 10 == 0
    is_branch_of_la_poste = (siren == 356_000_000) & (number != 35_600_000_000_048)
    return _siren(siren) & pl.when(is_branch_of_la_poste).then(is_multiple_of_5).otherwise(holds)


def _vat(number: pl.Expr) -> pl.Expr:
    """Check a SIREN after a key of two digits: (12 + 3 x (SIREN mod 97)) mod 97."""
    siren = number % 1_000_000_000
    return _siren(siren) & ((12 + 3 * (siren % 97)) % 97 == number // 1_000_000_000)


_CHECKS: Final = {
    "any": pl.lit(value=True),
    "enterprise_number": _enterprise_number(pl.col("value")),
    "siren": _siren(pl.col("value")),
    "siret": _siret(pl.col("value")),
    "vat": _vat(pl.col("value")),
    "siren_after_key": _siren(pl.col("digits").str.slice(2).cast(pl.Int64, strict=False)),
}
"""Checks over `digits` (the number as text, with a lost leading zero) and `value` (the number as an integer)."""


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
        - `repair`: what was corrected, or null.
        - `problem`: what is wrong and what to do about it, or null.
        - `own_country`: the country of the prefix or label, or null.

    References:
        Specification, "Company identifier"; docs/service_gaps.md, "spelling of company numbers".
    """
    nothing, register = pl.lit(None, pl.String), pl.lit(column_country, pl.String)
    rows = pl.DataFrame({"row": pl.int_range(len(text), eager=True), "body": text, "country": country}).lazy()
    rows = rows.with_columns(own_country=nothing, repair=nothing, problem=nothing)
    is_plain = pl.col("body").str.contains(r"^[0-9]+$").fill_null(value=False)
    named = pl.coalesce("own_country", register, "country")
    contradicts = pl.col("own_country") != register
    numbers = (
        pl.concat([rows.filter(is_plain), _clean(rows.filter(~is_plain))])
        .with_columns(
            country=pl.when(named.is_in(COUNTRIES)).then(named),
            problem=pl.coalesce("problem", pl.when(contradicts).then(pl.lit(CONTRADICTION))),
        )
        .collect()
    )
    countries = numbers["country"].fill_null("any")
    present = set(countries.unique()) or {"any"}
    parts = [
        _identify(numbers.filter(countries == country).lazy(), country, forms)
        for country, forms in _FORMS.items()
        if country in present
    ]
    return pl.concat(parts).sort("row").drop("row").collect()


def read_company(country: str, text: str) -> Company:
    """Read a company number in any spelling; UsageError gives the reason if it is none of this country."""
    row = identify(pl.Series([text]), pl.Series([country]), None).row(0, named=True)
    if row["problem"] is not None or row["country"] != country:
        raise UsageError(
            f"{country} {text}: {row['problem'] or 'this is a number of another country'}", "Correct the number"
        )
    return Company(row["country"], row["company_number"])


def read_named_company(text: str) -> Company:
    """Read a company as a person names it, such as "BE 0403.227.515": the country, then the number in any spelling."""
    country, number = text.strip()[:2].upper(), text.strip()[2:].strip()
    if country not in COUNTRIES:
        raise UsageError(f"{text!r} does not begin with BE, NL or FR", "Write the country first: BE 0403227515")
    return read_company(country, number)


def identify_column(
    numbers: pl.Series, country: pl.Series, role: str, default_country: str | None, *, is_register: bool = False
) -> pl.DataFrame:
    """Identify the company of each number in a column, as `identify` does.

    The country of a line (`BE`, `NL`, `FR` or null) takes precedence over the one that the column's name implies, and
    that over `default_country`. A SIRET needs no country: no other register has 14 digits with these check digits.
    `is_register` says that the column holds only numbers of the register in its name, whatever the country of a line;
    numbers of other countries are then refused.
    """
    country = pl.select(pl.coalesce(country, _country_of_sirets(numbers))).to_series()
    countries = COLUMNS[role].countries
    if len(countries) > 1 and default_country is None:
        return _of_several(numbers, country, countries)
    default = country_of(role, is_sure=default_country is not None) or default_country
    named = country if default is None else country.fill_null(default)
    return identify(numbers, named, country_of(role, is_sure=True) if is_register else None)


def _country_of_sirets(numbers: pl.Series) -> pl.Series:
    """Return FR for each SIRET, in groups of digits or not, and null for other numbers."""
    digits = pl.Series("digits", numbers).str.replace_all(r"[ .\u00a0-]", "")
    value = pl.when(digits.str.contains(r"^[0-9]{14}$")).then(digits).cast(pl.Int64, strict=False)
    return pl.select(pl.when(_siret(value)).then(pl.lit("FR"))).to_series()


def _clean(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Leave the upper-case letters and digits of a number, without separators, label and country.

    Fill own_country from the label or prefix, repair with what was corrected, and problem if no number can be recovered
    (a date, lost digits).
    """
    body = pl.col("body")
    rows = reduce(_take, _NUMBERS.steps, rows.with_columns(body.fill_null("").str.to_uppercase()))
    countries = {label: country or None for label, country in _NUMBERS.labels.items()}
    label = body.str.extract(rf"^({_ANY_LABEL})").replace_strict(countries, default=None, return_dtype=pl.String)
    rows = rows.with_columns(body.str.replace(rf"^(?:{_ANY_LABEL})+", ""), own_country=label)
    prefix = body.str.extract(r"^(BE|NL|FR)")
    return rows.with_columns(
        body.str.replace(r"^(?:(?:BE)+|(?:NL)+|(?:FR)+)", ""), own_country=pl.coalesce(prefix, "own_country")
    )


def _take(rows: pl.LazyFrame, step: _Step) -> pl.LazyFrame:
    body = pl.col("body")
    if step.problem:
        found = pl.when(body.str.contains(step.pattern)).then(pl.lit(step.problem))
        return rows.with_columns(problem=pl.coalesce("problem", found))
    new = body.str.replace_all(step.pattern, step.to)
    if not step.repair:
        return rows.with_columns(new)
    repairs = pl.concat_str("repair", pl.lit(step.repair), separator="; ", ignore_nulls=True)
    return rows.with_columns(new, repair=pl.when(new != body).then(repairs).otherwise("repair"))


def _identify(numbers: pl.LazyFrame, country: str, forms: Sequence[_Form]) -> pl.LazyFrame:
    """Identify the numbers of one country by its forms."""
    body = pl.col("body")
    form = pl.coalesce(
        *(pl.when(body.str.contains(form.pattern)).then(pl.lit(n, pl.UInt32)) for n, form in enumerate(forms))
    )

    def of_form(values: Sequence[object], dtype: pl.DataType) -> pl.Expr:
        return pl.lit(pl.Series(values, dtype=dtype)).gather(pl.col("form"))

    repair = of_form([form.repair for form in forms], pl.String())
    is_short = of_form([form.is_short for form in forms], pl.Boolean())
    start = of_form([form.start for form in forms], pl.UInt32())
    problem = of_form([form.problem for form in forms], pl.String())
    checks = [pl.when(form=n).then(_CHECKS[each.check]) for n, each in enumerate(forms) if each.check]
    holds = pl.coalesce(*checks, pl.lit(value=False))
    accepted = pl.col("problem").is_null()
    number = pl.col("digits").str.slice(start, NUMBER_LENGTH.get(country, 0))
    return (
        numbers.with_columns(form=form)
        .with_columns(digits=pl.when(is_short).then("0" + body).otherwise(body))
        .with_columns(value=pl.col("digits").cast(pl.Int64, strict=False))
        .with_columns(problem=pl.coalesce("problem", pl.when(~holds).then(problem)))
        .select(
            "row",
            country=pl.when(accepted).then(pl.lit(country, pl.String)),
            company_number=pl.when(accepted).then(number),
            repair=pl.coalesce(pl.concat_str("repair", repair, separator="; "), "repair", repair),
            problem="problem",
            own_country="own_country",
        )
    )


def _of_several(numbers: pl.Series, country: pl.Series, countries: tuple[str, ...]) -> pl.DataFrame:
    """For numbers without a country, take the one among these countries in which the number is valid."""
    found, *others = (identify(numbers, country.fill_null(code)) for code in countries)
    is_ambiguous = pl.repeat(value=False, n=len(numbers), dtype=pl.Boolean, eager=True)
    for other in others:
        is_ambiguous |= country.is_null() & (other["country"] != found["country"]).fill_null(value=False)
        found = take_rows(other, other["problem"].is_null(), found)
    problem = pl.when(is_ambiguous).then(pl.lit(_AMBIGUOUS)).otherwise("problem")
    return found.with_columns(pl.when(~is_ambiguous).then(pl.col("country", "company_number")), problem=problem)


def take_rows(taken: pl.DataFrame, where: pl.Series, otherwise: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one frame where a condition holds, and those of another elsewhere."""
    return pl.DataFrame([taken[name].zip_with(where, otherwise[name]) for name in otherwise.columns])
