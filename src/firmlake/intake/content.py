"""Which columns of a list without header hold the country and the company number, told by what is in them."""

from __future__ import annotations

from typing import Final

import polars as pl

from firmlake.core.company import COUNTRIES
from firmlake.intake.countries import country_codes
from firmlake.intake.identifiers import identify

__all__ = ["columns_by_content"]

_FEWEST_COUNTRIES: Final = 0.5
_LIKE_A_NUMBER: Final = r"^(?:[^0-9]*[0-9]){7,14}[^0-9]*$"


def columns_by_content(sample: pl.DataFrame, default_country: str | None) -> tuple[int | None, int | None]:
    """Give the positions of the country column and of the number column.

    The country column has countries in at least half of its rows. The number column is, of the others, the one with the
    most company numbers that hold, then the most texts of 7 to 14 digits, then the leftmost.

    Args:
        sample: `fields`: lists of text, all of one length.
        default_country: The country of numbers that nothing names.

    Returns:
        Two positions from 0, None where no column will do.
    """
    rows = sample.select(row=pl.int_range(pl.len()), position=pl.int_ranges(pl.col("fields").list.len()), text="fields")
    cells = rows.explode("position", "text")
    if not cells.height:
        return None, None
    cells = cells.with_columns(code=country_codes(cells["text"]))
    cells = cells.with_columns(known=pl.col("code").is_in(COUNTRIES).fill_null(value=False))
    country = _country_column(cells)
    in_country = pl.lit(value=False) if country is None else pl.col("position") == country
    named = cells.filter(in_country & pl.col("known")).select("row", country="code")
    others = cells.filter(~in_country).join(named, on="row", how="left", maintain_order="left")
    return country, _number_column(others.with_columns(pl.coalesce("country", pl.lit(default_country, pl.String))))


def _country_column(cells: pl.DataFrame) -> int | None:
    shares = cells.group_by("position", maintain_order=True).agg(pl.col("known").mean())
    position, share = shares.sort("known", descending=True, maintain_order=True).row(0)
    return position if share >= _FEWEST_COUNTRIES else None


def _number_column(cells: pl.DataFrame) -> int | None:
    holds = identify(cells["text"], cells["country"])["problem"].is_null()
    likely = cells.with_columns(holds=holds, looks=pl.col("text").str.contains(_LIKE_A_NUMBER))
    counts = likely.group_by("position", maintain_order=True).agg(pl.col("holds", "looks").sum())
    ranked = counts.filter(pl.col("looks") > 0).sort("holds", "looks", descending=True, maintain_order=True)
    return ranked.row(0)[0] if ranked.height else None
