"""Companies that the service finds similar."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from firmlake.tables.answered import Gathered
from firmlake.tables.numbers import with_normal_numbers

__all__ = ["flatten_lookalikes"]


def flatten_lookalikes(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per similar company; `rank` is its place in the answer, 1 first."""
    ranked = gathered["lookalike"].frame.with_columns((pl.col("position") + 1).alias("rank"))
    return {"lookalikes": with_normal_numbers(ranked, "lookalike_country", "lookalike_company_number")}
