"""Parents and children of companies."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from firmlake.tables.answered import Answered, Gathered, gather
from firmlake.tables.numbers import normal_number

__all__ = ["flatten_relationships"]


def flatten_relationships(answers: Sequence[Answered]) -> tuple[dict[str, pl.DataFrame], list[Gathered]]:
    """Flatten answers to one row per parent and per child."""
    gathered = {direction: gather("relationships", direction, answers) for direction in ("parent", "child")}
    has_identifier = pl.col("related_country").is_not_null() & pl.col("related_company_number").is_not_null()
    table = pl.concat(
        [part.frame.with_columns(pl.lit(direction).alias("direction")) for direction, part in gathered.items()]
    ).with_columns(
        pl.when(has_identifier)
        .then(pl.lit("company"))
        .when(pl.col("related_name").is_not_null() | pl.col("related_identifier_name").is_not_null())
        .then(pl.lit("named_party"))
        .otherwise(pl.lit("anonymous"))
        .alias("related_kind"),
        normal_number("related_country", "related_company_number"),
    )
    return {"relationships": table}, list(gathered.values())
