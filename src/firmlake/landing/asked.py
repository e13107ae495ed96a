"""Count the companies of a run by scope: the companies that a token may or may not ask about."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.core.run import Run

__all__ = ["Scope", "count_asked"]


class Scope(NamedTuple):
    """The companies of a country in a dataset: a token may usually ask about all of them or none.

    Attributes:
        dataset: The dataset.
        country: The country.
        was_barred: Whether the companies were given up when last requested. They form a scope of their own, apart from
            the other companies of their country, because one refusal shows that nothing has changed for them.
    """

    dataset: str
    country: str
    was_barred: bool


def count_asked(run: Run) -> dict[Scope, int]:
    """Count the targets of a run, without those that a budget left out."""
    frame = pl.scan_parquet(run.checked("targets"), glob=False).filter(pl.col("shard") > 0)
    was_barred = pl.col("is_barred") if "is_barred" in frame.collect_schema() else pl.lit(value=False)
    key = [pl.col("dataset").cast(pl.String), pl.col("country").cast(pl.String), was_barred.alias("was_barred")]
    rows = frame.group_by(key).len().collect().iter_rows()
    return {Scope(dataset, country, barred): count for dataset, country, barred, count in rows}
