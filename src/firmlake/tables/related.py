"""Companies that the service relates to a company: lookalikes, parents and children."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, normal_form
from firmlake.tables.answered import Gathered

__all__ = ["flatten_lookalikes", "flatten_relationships", "with_normal_numbers"]


def flatten_lookalikes(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per similar company; `rank` is its place in the answer, 1 first."""
    ranked = gathered["lookalike"].frame.with_columns((pl.col("position") + 1).alias("rank"))
    return {"lookalikes": with_normal_numbers(ranked, "lookalike_country", "lookalike_company_number")}


def flatten_relationships(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per parent and per child."""
    table = pl.concat([_of_kind(part).with_columns(pl.lit(way).alias("direction")) for way, part in gathered.items()])
    return {"relationships": with_normal_numbers(table, "related_country", "related_company_number")}


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


# ---------------------------------------------------------------------------------------------------------------------


def _of_kind(part: Gathered) -> pl.DataFrame:
    """Return the kind of each related party."""
    misread = part.rejects.filter(pl.col("path").str.contains(_WHO))["record"]
    of_other_shape = part.rejects.filter(pl.col("path").str.ends_with("[]"))["record"]
    return part.frame.with_columns(
        pl.when((pl.col("related_country") != "") & (pl.col("related_company_number") != ""))
        .then(pl.lit("company"))
        .when(pl.col("record").is_in(of_other_shape.implode()))
        .then(pl.lit("unknown"))
        .when(pl.col("related_name").is_not_null() | pl.col("related_identifier_name").is_not_null())
        .then(pl.lit("named_party"))
        .when(pl.col("record").is_in(misread.implode()))
        .then(pl.lit("unknown"))
        .otherwise(pl.lit("anonymous"))
        .alias("related_kind")
    )


_WHO = r"\[\](\.identifier.*|\.name)?$"
"""Paths of values that say who a party is, and of the record as a whole."""
