"""Companies that the service finds similar."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from firmlake.core.settings import ContractSettings
from firmlake.tables.answered import Answered, Gathered, gather
from firmlake.tables.leaves import AS_IT_IS
from firmlake.tables.numbers import with_normal_numbers

__all__ = ["flatten_lookalikes"]


def flatten_lookalikes(
    answers: Sequence[Answered], contract: ContractSettings = AS_IT_IS
) -> tuple[dict[str, pl.DataFrame], list[Gathered]]:
    """Flatten answers to one row per similar company; `rank` is its place in the answer, 1 first."""
    gathered = gather("lookalikes", "lookalike", answers, contract)
    ranked = gathered.frame.with_columns((pl.col("position") + 1).alias("rank"))
    return {"lookalikes": with_normal_numbers(ranked, "lookalike_country", "lookalike_company_number")}, [gathered]
