"""Read the lines of a company list or contact list, each with its company or the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.core.settings import IntakeSettings
from firmlake.intake.choice import Choice, choose_columns
from firmlake.intake.columns import (
    COMPANY_COLUMNS,
    COUNTRY,
    NUMBER_ROLES,
    OTHER_COUNTRY,
    Synonyms,
    country_codes,
    country_of,
)
from firmlake.intake.identifiers import (
    CONTRADICTION,
    EMPTY,
    OF_A_COUNTRY,
    SURPLUS,
    identify_column,
    take_rows,
)
from firmlake.intake.readers import open_table
from firmlake.intake.table import BLANK, Reading, Table, cell

_ABROAD: Final = "another country, or not a country: the service knows only BE, NL and FR"
_DISAGREEING: Final = "two columns disagree: they name different companies or countries; correct one of them"
_UNSAID: Final = "; its country cell is empty, so it has the country of its column's name or of intake.default_country"
_VAT_PREFIX: Final = rf"^\W*({'|'.join(COUNTRIES)})[\W_]*[0-9]"
_LONGEST_GIVEN: Final = 200
_ADDED: Final = [f"{prefix}{name}" for prefix in ("", "firmlake_", "list_lines_") for name in ("status", "line")]
"""Names of the columns that `--out` adds and fills in for a blank line too, if it wrote this list."""


@dataclass(frozen=True)
class Entries:
    """A list while it is read.

    Attributes:
        choice: Positions of its columns by role.
        batches: Results of `resolve_lines`, batch by batch.
        guesses: One sentence for each guess about the list, with the way to override it.
    """

    table: Table
    choice: Choice
    batches: Iterator[pl.DataFrame]
    guesses: tuple[str, ...]


def read_entries(
    path: Path,
    options: IntakeSettings,
    synonyms: Synonyms = COMPANY_COLUMNS,
    mapping: Mapping[str, str] | None = None,
) -> Entries:
    """Read the lines of a list of any format, with the company of each line.

    The synonyms are header names by role, `COMPANY_COLUMNS` and those of other roles. The mapping has columns of these
    other roles: header name, or position from 1. Raises CompanyListError if the file cannot be used, now or while
    batches are read.
    """
    reading = Reading(path, options, synonyms)
    table = open_table(reading)
    choice, guesses = choose_columns(reading, table, mapping or {})
    resolve = partial(resolve_lines, width=table.width, choice=choice, default_country=options.default_country or None)
    rows = (batch.with_columns(defect=_defect(table)) for batch in table.rows(None))
    return Entries(table, choice, map(resolve, rows), (*table.guesses, *guesses))


def _defect(table: Table) -> pl.Expr:
    """Return the defect of a row: a blank line to which `--out` added its status and number is still blank."""
    added = [n for n, name in enumerate(table.names or ()) if name in _ADDED]
    others = [cell(n).fill_null("").str.strip_chars() == "" for n in range(table.width) if n not in added]
    if not (added and others):
        return pl.col("defect")
    is_empty = pl.all_horizontal(others)
    is_blank = is_empty & pl.any_horizontal(cell(n) == BLANK for n in added)
    return pl.when(is_blank).then(pl.lit(BLANK)).otherwise("defect")


def resolve_lines(rows: pl.DataFrame, width: int, choice: Choice, default_country: str | None) -> pl.DataFrame:
    """Resolve the company of each line, or state why there is none.

    The first of these gives the country: a prefix of the number; the country column; the prefix of a VAT number on the
    same line, if the number is valid in that country; the register in the name of its column; `default_country`; a word
    in the name of its column. A line is refused if a prefix contradicts the country column. If columns are named after
    registers of several countries, each holds only numbers of its own register; others are refused. The first filled
    number counts, in the order of `NUMBER_ROLES`. A further number refuses the line only if it identifies another
    company. A line with too many cells counts if its columns name a company, and no other one counted from the right: a
    delimiter within a cell would have moved them.

    Args:
        rows: Rows of the list, see `firmlake.intake.table.ROWS`.
        width: The number of its columns.
        choice: Positions of columns by role.

    Returns:
        One row per line, in the same order: the columns of `rows`, and

        - `status`: accepted, refused or blank.
        - `country`, `company_number`: the company in normal form; null unless it is accepted.
        - `reason`: of the refusal, with what to do about it, or of the repair; null if there is none.
        - `given`: the number as in the file; country and number if the country is unknown; the whole line if it cannot
          be split into cells. Cut at 200 characters.
    """
    lines = _resolve(rows, choice, default_country, cell)
    wide = rows.filter(pl.col("cells").list.len() > width, pl.col("defect") != BLANK)
    if not wide.height:
        return lines
    wide = wide.with_columns(defect=pl.lit(None, pl.String))
    read = _resolve(wide, choice, default_country, cell)
    moved = _resolve(wide, choice, default_country, lambda position: cell(position - width))
    is_other = (moved["country"] != read["country"]) | (moved["company_number"] != read["company_number"])
    sure = read.filter((pl.col("status") == "accepted") & ~is_other.fill_null(value=False)).with_columns(
        reason=pl.concat_str("reason", pl.lit(SURPLUS), separator="; ", ignore_nulls=True)
    )
    return pl.concat([lines.join(sure, on="line", how="anti"), sure]).sort("line")


def _resolve(
    rows: pl.DataFrame, choice: Choice, default_country: str | None, cell_at: Callable[[int], pl.Expr]
) -> pl.DataFrame:
    def cells(role: str) -> list[pl.Series]:
        return [rows.select(text=cell_at(position))["text"] for position in choice.get(role, ())]

    nothing, countries = pl.repeat(None, rows.height, dtype=pl.String), cells(COUNTRY)
    codes = [country_codes(column) for column in countries]
    code = pl.coalesce(nothing, *codes)
    is_ambiguous = pl.any_horizontal(pl.repeat(value=False, n=rows.height), *(code != other for other in codes))
    lines = rows.hstack(pl.select(cell=pl.coalesce(nothing, *countries), code=code, is_ambiguous=is_ambiguous))
    lines = lines.hstack(_first_number(choice, lines["code"], default_country, cells))
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
    is_sound, is_blank = pl.col("problem").is_null(), pl.col("problem") == BLANK
    status = pl.when(is_sound).then(pl.lit("accepted")).when(is_blank).then(pl.lit("blank"))
    return lines.with_columns(problem=problem, given=given.fill_null("").str.head(_LONGEST_GIVEN)).select(
        *rows.columns,
        pl.when(is_sound).then(pl.col("country", "company_number")),
        "given",
        status=status.otherwise(pl.lit("refused")),
        reason=pl.when(is_sound).then("repair").when(~is_blank).then("problem"),
    )


def _first_number(
    choice: Choice, codes: pl.Series, default_country: str | None, cells: Callable[[str], list[pl.Series]]
) -> pl.DataFrame:
    """Identify the first filled number of each line, given the countries that the lines name."""
    named = codes.set(codes == OTHER_COUNTRY, None)
    prefixes = [vat_numbers.str.to_uppercase().str.extract(_VAT_PREFIX) for vat_numbers in cells("vat_number")]
    country = pl.select(pl.coalesce(named, *prefixes)).to_series()
    roles = [role for role in NUMBER_ROLES if choice.get(role)]
    registers = {country_of(role) for role in roles} - {None}
    found = []
    for role in roles:
        read = partial(identify_column, role=role, default_country=default_country, is_register=len(registers) > 1)
        found += [_identify_cells(texts, named, country, read).with_columns(given=texts) for texts in cells(role)]
    is_unsaid = pl.lit(bool(choice.get(COUNTRY))) & pl.lit(country).is_null() & pl.col("own_country").is_null()
    problem = pl.when(is_unsaid & pl.col("problem").is_in(list(OF_A_COUNTRY))).then(pl.col("problem") + _UNSAID)
    return reduce(_merge_numbers, found).with_columns(problem=problem.otherwise("problem"))


def _identify_cells(
    texts: pl.Series, named: pl.Series, country: pl.Series, read: Callable[..., pl.DataFrame]
) -> pl.DataFrame:
    """Identify numbers by the country of their line, which a VAT number may give only if the number is valid in it."""
    found = read(texts, country)
    if named.equals(country):
        return found
    other = read(texts, named)
    is_other = found["problem"].is_not_null() & other["problem"].is_null()
    return take_rows(other, is_other, found)


def _merge_numbers(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Take the second number if the first is empty; refuse the line if they identify different companies."""
    both = pl.concat([first, second.select(pl.all().name.suffix("_2"))], how="horizontal")
    differ = (pl.col("country") != pl.col("country_2")) | (pl.col("company_number") != pl.col("company_number_2"))
    is_empty = pl.col("problem").eq_missing(pl.lit(EMPTY))
    taken = {name: pl.when(is_empty).then(pl.col(f"{name}_2")).otherwise(pl.col(name)) for name in first.columns}
    both_given = pl.concat_str("given", "given_2", separator=" | ")
    taken["problem"] = pl.when(differ).then(pl.lit(_DISAGREEING)).otherwise(taken["problem"])
    taken["given"] = pl.when(differ).then(both_given).otherwise(taken["given"])
    return both.select(**taken)
