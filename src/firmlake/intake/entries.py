"""Read the lines of a company list or contact list, each with its company."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import polars as pl

from firmlake.core.company import ADJECTIVES, COUNTRIES
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import Choice, choose_columns
from firmlake.intake.columns import (
    COLUMN_COUNTRY,
    COMPANY_COLUMNS,
    COUNTRY,
    FALLBACK_COUNTRY,
    NUMBER_ROLES,
    Synonyms,
    read_name,
)
from firmlake.intake.identifiers import (
    CONTRADICTION,
    EMPTY,
    REPAIRS,
    SPELLINGS,
    SURPLUS,
    header_country,
    identify,
    identify_column,
)
from firmlake.intake.readers import open_table
from firmlake.intake.table import KINDS, TAIL, TextTable, field
from firmlake.intake.words import OTHER_COUNTRY, country_codes

_ABROAD: Final = "another country, or not a country: the service knows only BE, NL and FR"
_DISAGREEING: Final = "two columns disagree: they name different companies or countries; correct one of them"
_VAT_PREFIX: Final = rf"^\W*({'|'.join(COUNTRIES)})[\W_]*[0-9]"
_LONGEST_GIVEN: Final = 200
_REAL: Final = pl.lit(0xFFFF_FFFF ^ SPELLINGS, pl.UInt32)
"""Bits of the repairs that are reported."""


@dataclass(frozen=True)
class Entries:
    """A list while it is read.

    Attributes:
        table: The list as a table of texts.
        batches: Results of `firmlake.intake.entries.resolve_lines`, batch by batch.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    table: TextTable
    batches: Iterator[pl.DataFrame]
    guesses: tuple[str, ...]


def resolve_lines(
    batch: pl.DataFrame, choice: Choice, default_country: str | None, kept: Sequence[str] = ()
) -> pl.DataFrame:
    """Resolve the company of each line of a batch, or state why there is none.

    The first of these gives the country: a prefix of the number; the country column; the prefix of a VAT number on the
    same line, if the number is valid in that country; the register in the name of its column; `default_country`; a word
    in the name of its column. A line is refused if a prefix contradicts the country column. If columns are named after
    registers of several countries, each holds only numbers of its own register; others are refused. The first filled
    number counts, in the order of `NUMBER_ROLES`. A further number refuses the line only if it identifies another
    company. A line with too many fields counts if its columns name a company, and no other one counted from the right:
    a delimiter within a field would have moved them.

    Args:
        batch: Lines from a `firmlake.intake.table.TextTable`.
        choice: Positions of columns by role.
        default_country: `BE`, `NL`, `FR` or None.
        kept: Columns of the batch to return unchanged.

    Returns:
        One row per line, in the same order:

        - `line`: the line number.
        - `given`: the number as in the file; country and number if the country is unknown; the whole line if it cannot
          be split into fields. Cut at 200 characters.
        - `country`, `company_number`: the company in normal form; null if there is a problem.
        - `repairs`: bits of `firmlake.intake.identifiers.REPAIRS`, without those of `SPELLINGS`.
        - `problem`: what is wrong and what to do about it; `BLANK` for a blank line; null if there is no problem.
        - `header`: the position of the column if its name alone gave the country; null if the line names a country.
        - the text of every other role of `choice`.
        - the columns `kept`.
    """
    lines = _resolve(batch, choice, default_country, kept)
    if TAIL not in batch.columns or not batch[TAIL].count():
        return lines
    wide = batch.filter(pl.col(TAIL).is_not_null()).with_columns(defect=pl.lit(None, pl.String))
    positions = {position for chosen in choice.values() for position in chosen}
    moved = wide.with_columns(pl.col(TAIL).list.get(position).alias(field(position)) for position in positions)
    company = ["country", "company_number"]
    other = _resolve(moved, choice, default_country).select(pl.col(company).name.suffix("_moved"))
    differs = pl.any_horizontal(pl.col(f"{name}_moved") != pl.col(name) for name in company).fill_null(value=False)
    read = _resolve(wide, choice, default_country, kept).hstack(other)
    sure = read.filter(pl.col("problem").is_null() & ~differs).select(lines.columns)
    sure = sure.with_columns(repairs=pl.col("repairs") | (1 << REPAIRS.index(SURPLUS)))
    return pl.concat([lines.join(sure, on="line", how="anti"), sure.cast(lines.schema)]).sort("line")


def read_entries(
    path: Path,
    options: IntakeSettings,
    synonyms: Synonyms = COMPANY_COLUMNS,
    mapping: Mapping[str, str] | None = None,
    *,
    with_cells: bool = False,
) -> Entries:
    """Read the lines of a list of any format, with the company of each line.

    Args:
        path: The file.
        options: How to read the file.
        synonyms: Header names by role: `COMPANY_COLUMNS`, and those of other roles.
        mapping: Columns of these other roles, if they cannot be detected: header name, or position from 1.
        with_cells: Whether batches also hold the text of every column (`field(n)` for `table.columns[n]`), the whole
            line in `text` if it cannot be split into fields, and `KINDS` if the table has them.

    Raises:
        CompanyListError: The file cannot be used, now or while its batches are read. Follow the next step.
    """
    table = open_table(path, options, synonyms)
    choice, guesses = choose_columns(path, table, options, synonyms, mapping or {})
    positions = sorted({position for positions in choice.values() for position in positions})
    kept = ("text", *map(field, range(table.width)), *([KINDS] * table.has_kinds)) if with_cells else ()
    resolve = partial(resolve_lines, choice=choice, default_country=options.default_country or None, kept=kept)
    batches = table.batches(range(table.width) if with_cells else positions)
    return Entries(table, map(resolve, batches), (*table.guesses, *guesses))


def count_assumed(lines: pl.DataFrame) -> pl.DataFrame:
    """Count the numbers whose country follows only from the name of their column.

    Args:
        lines: Lines that name a company, from `firmlake.intake.entries.resolve_lines`.

    Returns:
        One row per column and country: header (position of the column), country, count, example, and other_count and
        other_example for numbers that had to be repaired, but are valid numbers of another country unchanged.
    """
    assumed = lines.filter(pl.col("header").is_not_null()).select("line", "header", "country", "given", "repairs")
    was_repaired = pl.col("repairs") > 0
    parts = [assumed.filter(~was_repaired).with_columns(other=False), _compare(assumed.filter(was_repaired))]
    return (
        pl.concat(parts)
        .sort("line")
        .group_by("header", "country", maintain_order=True)
        .agg(
            count=pl.len(),
            example=pl.col("given").first().str.strip_chars(),
            other_count=pl.col("other").sum(),
            other_example=pl.col("given").filter("other").first(),
        )
    )


def tell_assumed(parts: Iterable[pl.DataFrame], columns: Sequence[str]) -> tuple[str, ...]:
    """Describe the assumed countries in one sentence, with the way to override them; empty if there are none.

    A column that was recognised by its check digits is left out: the sentence about that guess says so.

    Args:
        parts: Results of `count_assumed` for the batches of a list, in order.
        columns: The names of its columns.
    """
    counted = [*parts]
    if not counted:
        return ()
    found = pl.concat(counted).group_by("header", "country", maintain_order=True)
    total = found.agg(pl.col("count", "other_count").sum(), pl.col("example", "other_example").drop_nulls().first())
    named = [(columns[row["header"]], row) for row in total.iter_rows(named=True)]
    said = " and ".join(_describe(column, row) for column, row in named if _names_register(column))
    if not said:
        return ()
    return (
        f"Numbers without a country are read {said}, because of the column name; "
        "to give a country: --map country=COLUMN",
    )


def _resolve(
    batch: pl.DataFrame, choice: Choice, default_country: str | None, kept: Sequence[str] = ()
) -> pl.DataFrame:
    countries = _first_country([batch[field(position)] for position in choice.get(COUNTRY, ())], len(batch))
    known = countries["code"].set(countries["code"] == OTHER_COUNTRY, None)
    lines = pl.concat([batch, countries, _read_numbers(batch, choice, known, default_country)], how="horizontal")
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
            pl.col("repairs") & _REAL,
            "problem",
            "header",
            **{role: pl.coalesce(*map(field, choice[role])) for role in sorted(others)},
        )
        .hstack([batch[name] for name in kept])
    )


def _first_country(columns: list[pl.Series], height: int) -> pl.DataFrame:
    """Return the first filled country cell of each line: its text, its code, and whether another column disagrees."""
    nothing = pl.repeat(None, height, dtype=pl.String)
    codes = [country_codes(cells) for cells in columns]
    code = pl.coalesce(nothing, *codes)
    return pl.select(
        cell=pl.coalesce(nothing, *columns),
        code=code,
        is_ambiguous=pl.any_horizontal(pl.repeat(value=False, n=height), *(code != other for other in codes)),
    )


def _read_numbers(batch: pl.DataFrame, choice: Choice, known: pl.Series, default_country: str | None) -> pl.DataFrame:
    """Identify the number of each line, given the countries that the lines name."""
    prefixed = _vat_country(known, [batch[field(position)] for position in choice.get("vat_number", ())])
    roles = [role for role in NUMBER_ROLES if choice.get(role)]
    registers = {(COLUMN_COUNTRY | FALLBACK_COUNTRY).get(role) for role in roles} - {None}
    identify = partial(identify_column, default_country=default_country, is_register=len(registers) > 1)
    numbers = (
        _named(batch[field(position)], known, prefixed, partial(identify, role=role)).with_columns(
            header=pl.when("is_assumed").then(pl.lit(position if header_country(role, default_country) else None))
        )
        for role in roles
        for position in choice[role]
    )
    return reduce(_first_number, numbers)


def _vat_country(known: pl.Series, vat_numbers: list[pl.Series]) -> pl.Series:
    """Return the country of each line; where none is known, the prefix of its VAT number."""
    prefixes = [cells.str.to_uppercase().str.extract(_VAT_PREFIX) for cells in vat_numbers]
    return pl.select(pl.coalesce(known, *prefixes)).to_series()


def _named(
    numbers: pl.Series, country: pl.Series, prefixed: pl.Series, identify: Callable[..., pl.DataFrame]
) -> pl.DataFrame:
    """Identify the numbers of one column; add the given texts, and whether no cell of the line names a country."""
    found = identify(numbers, prefixed)
    if not country.equals(prefixed):
        other = identify(numbers, country)
        is_other = found["problem"].is_not_null() & other["problem"].is_null()
        found = pl.DataFrame([other[name].zip_with(is_other, found[name]) for name in found.columns])
    is_assumed = pl.col("own_country").is_null() & pl.col("country").ne_missing(pl.lit(prefixed))
    return found.with_columns(given=numbers, is_assumed=is_assumed & pl.col("country").is_not_null())


def _first_number(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Take the second number if the first is empty; refuse the line if they identify different companies."""
    both = pl.concat([first, second.select(pl.all().name.suffix("_2"))], how="horizontal")
    differ = (pl.col("country") != pl.col("country_2")) | (pl.col("company_number") != pl.col("company_number_2"))
    is_empty = pl.col("problem").eq_missing(pl.lit(EMPTY))
    taken = {name: pl.when(is_empty).then(pl.col(f"{name}_2")).otherwise(pl.col(name)) for name in first.columns}
    both_given = pl.concat_str("given", "given_2", separator=" | ")
    taken["problem"] = pl.when(differ).then(pl.lit(_DISAGREEING)).otherwise(taken["problem"])
    taken["given"] = pl.when(differ).then(both_given).otherwise(taken["given"])
    return both.select(**taken)


def _names_register(column: str) -> bool:
    return read_name(column).role in COLUMN_COUNTRY | FALLBACK_COUNTRY


def _describe(column: str, row: Mapping[str, Any]) -> str:
    also = ""
    if row["other_count"]:
        also = f"; {row['other_count']:,} of them may be of another country, such as {row['other_example']}"
    return f"as {ADJECTIVES[row['country']]} in column {column!r} ({row['count']:,}, such as {row['example']}{also})"


def _compare(repaired: pl.DataFrame) -> pl.DataFrame:
    """Add to each number whether it is valid in another country without a repair."""
    is_other = pl.repeat(value=False, n=repaired.height, dtype=pl.Boolean, eager=True)
    for country in COUNTRIES:
        found = identify(repaired["given"], pl.repeat(country, repaired.height, dtype=pl.String, eager=True))
        is_sound = found["problem"].is_null() & (found["repairs"] & ~pl.Series([SPELLINGS], dtype=pl.UInt32) == 0)
        is_other |= is_sound & (found["country"] != repaired["country"]).fill_null(value=False)
    return repaired.with_columns(other=is_other)
