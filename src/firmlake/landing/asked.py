"""How many companies of each country a run asks for, and what earlier runs learnt about them."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from firmlake.core.run import Run

__all__ = ["AskedCountry", "count_asked"]


class AskedCountry(NamedTuple):
    """The companies of a country that a run asks for in a dataset, counted.

    The others of the list were answered not long ago.

    Attributes:
        dataset: The dataset.
        country: The country.
        asked_count: Companies.
        barred_count: Those whose dataset, or whose country in it, was given up when they were last requested.
        known_count: Those of which an earlier run found records.
        listed_count: Companies of the country on the list of the run.
    """

    dataset: str
    country: str
    asked_count: int
    barred_count: int
    known_count: int
    listed_count: int


def count_asked(run: Run) -> list[AskedCountry]:
    """Count the targets of a run by dataset and country, without those that a budget left out."""
    frame = pl.scan_parquet(run.checked("targets"), glob=False)
    is_barred = pl.col("is_barred") if "is_barred" in frame.collect_schema() else pl.lit(value=False)
    counts = [pl.len(), is_barred.sum().alias("barred_count"), pl.col("expected_count").count()]
    key = [pl.col(name).cast(pl.String) for name in ("dataset", "country")]
    listed = pl.scan_parquet(run.checked("companies"), glob=False).group_by(key[1]).agg(pl.len().alias("listed_count"))
    found = frame.filter(pl.col("shard") > 0).group_by(key).agg(counts).join(listed, on="country", how="left")
    return [AskedCountry(*row) for row in found.collect().iter_rows()]
