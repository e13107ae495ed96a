"""Parents and children of companies."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from firmlake.tables.answered import Gathered
from firmlake.tables.numbers import with_normal_numbers

__all__ = ["flatten_relationships"]


def flatten_relationships(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per parent and per child."""
    table = pl.concat([_of_kind(part).with_columns(pl.lit(way).alias("direction")) for way, part in gathered.items()])
    return {"relationships": with_normal_numbers(table, "related_country", "related_company_number")}


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
