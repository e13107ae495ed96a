"""Company numbers inside records, in normal form."""

from __future__ import annotations

import polars as pl

from firmlake.core.company import NUMBER_LENGTH

__all__ = ["normal_number"]


def normal_number(country: str, number: str) -> pl.Expr:
    """Pad the digits of a number to the length of its country; any other text stays as received."""
    value = pl.col(number)
    length = pl.col(country).replace_strict(NUMBER_LENGTH, default=0, return_dtype=pl.Int64)
    is_short = value.str.contains(r"^[0-9]+$") & value.str.len_chars().is_between(length - 2, length)
    return pl.when(is_short).then(value.str.zfill(length)).otherwise(value).alias(number)
