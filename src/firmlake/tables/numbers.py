"""Company numbers inside records, in normal form."""

from __future__ import annotations

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, normal_form

__all__ = ["with_normal_numbers"]


def with_normal_numbers(frame: pl.DataFrame, country: str, number: str) -> pl.DataFrame:
    """Bring two columns, country and company number, into normal form; values that are not companies stay unchanged."""
    value, code = pl.col(number), pl.col(country)
    has_digits_only = value.str.contains(r"^[0-9]+$")
    is_odd = code.is_not_null() & value.is_not_null() & ~(has_digits_only & code.is_in(COUNTRIES))
    odd = frame.select(country, number).filter(is_odd).unique(maintain_order=True)
    if odd.height:
        meant = [normal_form(*pair) or pair for pair in odd.iter_rows()]
        named = pl.DataFrame(meant, schema={"meant_country": pl.String, "meant_number": pl.String}, orient="row")
        frame = (
            frame.join(odd.hstack(named), on=[country, number], how="left", maintain_order="left")
            .with_columns(
                pl.coalesce("meant_country", country).alias(country), pl.coalesce("meant_number", number).alias(number)
            )
            .drop("meant_country", "meant_number")
        )
    length = code.replace_strict(NUMBER_LENGTH, default=0, return_dtype=pl.Int64)
    is_short = has_digits_only & value.str.len_chars().is_between(length - 2, length)
    return frame.with_columns(pl.when(is_short).then(value.str.zfill(length)).otherwise(value).alias(number))
