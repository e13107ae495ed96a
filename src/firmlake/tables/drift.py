"""Count the differences between answers and the contract (drift), by place: the rows of the table `drift`."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from firmlake.api.contract import DATASETS, KNOWN_VALUES
from firmlake.tables.cells import BEYOND_ONE
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["DRIFT", "find_drift", "merge_drift"]

DRIFT = pl.Schema({name: kind for name, kind in polars_schema(TABLES["drift"]).items() if name != "run_id"})
"""The table `drift`, without the run."""


def find_drift(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Find values that did not fit, values of another scale, and new values in fields with an open set of values.

    Args:
        dataset: Of the records.
        records: The frame of `gather`.
        rejects: The rejects of `gather`. Rejected records are counted elsewhere.
    """
    counted = [
        values.group_by("path", maintain_order=True)
        .agg(
            pl.lit(dataset).alias("dataset"),
            pl.lit(kind).alias("kind"),
            pl.col("value").first().alias("example"),
            pl.len().cast(pl.Int64).alias("record_count"),
            pl.col("fetched_at").min().alias("first_seen_at"),
        )
        .select(DRIFT.names())
        for kind, values in _differing(dataset, records, rejects)
        if values.height
    ]
    return pl.concat([pl.DataFrame(schema=DRIFT), *counted])


def merge_drift(frame: pl.DataFrame) -> pl.DataFrame:
    """Merge counted differences: the earliest example, the sum of the counts."""
    return (
        frame.sort("first_seen_at", maintain_order=True)
        .group_by("dataset", "kind", "path")
        .agg(pl.col("example").first(), pl.col("record_count").sum(), pl.col("first_seen_at").first())
        .sort("dataset", "kind", "path")
    )


# ---------------------------------------------------------------------------------------------------------------------


def _differing(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the kind of a difference and the values that have it: path, value and fetched_at."""
    yield "discarded_value", rejects.filter(pl.col("effect") != "record")
    # Fractions and scores above 1: the service may send percentages.
    yield "other_scale", rejects.filter(pl.col("reason").str.contains(BEYOND_ONE, literal=True))
    if "score" in records:
        yield "other_scale", _values("score", pl.lit("score"), records.filter(pl.col("score") > 1))
    for (of, name), known in KNOWN_VALUES.items():
        if of == dataset:
            path = DATASETS[dataset].fields[name].path
            unseen = records.filter(pl.col(name).is_not_null() & ~pl.col(name).is_in(known))
            yield "new_value", _values(name, pl.lit(f"{path}=") + pl.col(name), unseen)


def _values(column: str, path: pl.Expr, records: pl.DataFrame) -> pl.DataFrame:
    return records.select(path.alias("path"), pl.col(column).cast(pl.String).alias("value"), "fetched_at")
