"""Countries that a list only implies: the register that names a column gives the country of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from firmlake.core.company import ADJECTIVES, COUNTRIES
from firmlake.intake.columns import COLUMN_COUNTRY, FALLBACK_COUNTRY, read_name
from firmlake.intake.identifiers import identify
from firmlake.intake.repair import SPELLINGS

__all__ = ["count_assumed", "tell_assumed"]


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


# ---------------------------------------------------------------------------------------------------------------------


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
