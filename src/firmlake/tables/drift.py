"""Count the differences between answers and the known contract (drift), by place."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import polars as pl

from firmlake.api.contract import DATASETS, KNOWN_VALUES
from firmlake.tables.answered import Drift, Gathered
from firmlake.tables.cells import BEYOND_ONE
from firmlake.tables.reading import Observation
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["discarded_values", "drift_table", "new_values", "other_scales"]

_SCHEMA = pl.Schema({name: kind for name, kind in polars_schema(TABLES["drift"]).items() if name != "run_id"})


def new_values(dataset: str, frame: pl.DataFrame) -> list[Drift]:
    """Find values that are new in fields with an open set of values, in a frame from `gather`."""
    found = []
    for (of, name), known in KNOWN_VALUES.items():
        if of != dataset:
            continue
        unseen = frame.filter(pl.col(name).is_not_null() & ~pl.col(name).is_in(known))
        path = next(group.fields[name].path for group in DATASETS[dataset].groups.values())
        for value, count, first in (
            unseen.group_by(name, maintain_order=True)
            .agg(pl.len(), pl.col("fetched_at").min().alias("first"))
            .iter_rows()
        ):
            found.append(Drift(dataset, Observation("new_value", f"{path}={value}", value, 0, count), first))
    return found


def discarded_values(dataset: str, rejects: pl.DataFrame) -> list[Drift]:
    """Count the values that did not fit, by place; rejected records are counted elsewhere."""
    counts = (
        rejects.filter(pl.col("effect") != "record")
        .group_by("path", maintain_order=True)
        .agg(pl.col("value").first(), pl.len(), pl.col("fetched_at").min())
    )
    return [
        Drift(dataset, Observation("discarded_value", path, value, 0, count), first)
        for path, value, count, first in counts.iter_rows()
    ]


def other_scales(dataset: str, gathered: Gathered) -> list[Drift]:
    """Find fields with values above 1 where fractions of 1 were expected: the service may send percentages."""
    beyond = gathered.rejects.filter(pl.col("reason").str.contains(BEYOND_ONE, literal=True))
    parts = [beyond.select("path", "value", "fetched_at")]
    if "score" in gathered.frame:
        scores = gathered.frame.filter(pl.col("score") > 1)
        parts.append(
            scores.select(pl.lit("score").alias("path"), pl.col("score").cast(pl.String).alias("value"), "fetched_at")
        )
    counts = (
        pl.concat(parts)
        .group_by("path", maintain_order=True)
        .agg(pl.col("value").first(), pl.len(), pl.col("fetched_at").min())
    )
    return [
        Drift(dataset, Observation("other_scale", path, value, 0, count), first)
        for path, value, count, first in counts.iter_rows()
    ]


def drift_table(drift: Iterable[Drift]) -> pl.DataFrame:
    """Count observations by dataset, kind and path: the rows of the table `drift`, without run_id."""
    rows = [
        (d.dataset, d.observation.kind, d.observation.path, d.observation.example, d.observation.records, d.fetched_at)
        for d in drift
    ]
    return merge_drift(pl.DataFrame([_naive(row) for row in rows], schema=_SCHEMA, orient="row"))


def merge_drift(frame: pl.DataFrame) -> pl.DataFrame:
    """Merge counted observations: the earliest example, the sum of the counts."""
    return (
        frame.sort("first_seen_at", maintain_order=True)
        .group_by("dataset", "kind", "path")
        .agg(pl.col("example").first(), pl.col("record_count").sum(), pl.col("first_seen_at").first())
        .sort("dataset", "kind", "path")
    )


def _naive(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row)
