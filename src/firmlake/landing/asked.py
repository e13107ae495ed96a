"""Count the companies of a run by scope: the companies that a token may or may not ask about."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import polars as pl

from firmlake.core.run import REDRIVE, Run

__all__ = ["Asked", "Scope", "count_asked"]


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


class Asked(NamedTuple):
    """The targets of a run, counted.

    Attributes:
        counts: Companies by scope.
        whole: Datasets that the run requests for every company on its list. If all these companies are refused, the
            token may not use the dataset. For other datasets, some companies were answered earlier or are left for
            later, so the run cannot know.
    """

    counts: dict[Scope, int]
    whole: frozenset[str]


def count_asked(run: Run) -> Asked:
    """Count the targets of a run, without those that a budget left out. A redrive never covers a whole list."""
    frame = pl.scan_parquet(run.checked("targets"), glob=False).filter(pl.col("shard") > 0)
    was_barred = pl.col("is_barred") if "is_barred" in frame.collect_schema() else pl.lit(value=False)
    key = [pl.col("dataset").cast(pl.String), pl.col("country").cast(pl.String), was_barred.alias("was_barred")]
    rows = frame.group_by(key).len().collect().iter_rows()
    counts = {Scope(dataset, country, barred): count for dataset, country, barred, count in rows}
    totals: Counter[str] = Counter()
    for scope, count in counts.items():
        totals[scope.dataset] += count
    is_list = run.plan.list_name != REDRIVE
    return Asked(counts, frozenset(name for name in totals if is_list and totals[name] == run.plan.company_count))
