"""Read back the landed answers of a run."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from firmlake.core.company import Company
from firmlake.core.run import Run
from firmlake.landing.progress import Progress
from firmlake.landing.segments import Landed, list_segments, read_segment

__all__ = ["load_progress", "read_landed"]


def read_landed(run: Run, shard: int) -> Iterator[Landed]:
    """Yield the landed records of a shard, in landing order."""
    for path in list_segments(run.folders.landing(run.run_id, shard)):
        yield from read_segment(path)


def load_progress(run: Run, shard: int, *, targets: pl.DataFrame | None = None, keep_records: bool = False) -> Progress:
    """Compute the progress of a shard from its landed answers.

    Args:
        run: The run.
        shard: Number of the shard.
        targets: Targets of the shard; None reads them from the frozen plan.
        keep_records: Whether records are kept for staging; otherwise they are only counted.
    """
    targets = run.targets(shard) if targets is None else targets
    free = frozenset(map(Company._make, targets.filter("is_paid").select(Company._fields).unique().iter_rows()))
    names, doubts = run.plan.names, run.plan.doubts_totals
    progress = Progress(_by_dataset(targets), names, free, keep_records=keep_records, doubts_totals=doubts)
    for landed in read_landed(run, shard):
        progress.absorb(landed.header, landed.body)
        progress.headers.append(landed.header)
    progress.settle()
    return progress


def _by_dataset(targets: pl.DataFrame) -> Iterator[tuple[str, list[Company], list[int | None]]]:
    """Yield each dataset with its companies and their expected counts. Datasets usually share one list of companies."""
    key, companies = pl.DataFrame(), list[Company]()
    for of_dataset in targets.partition_by("dataset", maintain_order=True):
        own = of_dataset.select(Company._fields)
        if not own.equals(key):
            key, companies = own, list(map(Company._make, own.rows()))
        yield of_dataset["dataset"][0], companies, of_dataset["expected_count"].to_list()
