"""A shard while it is fetched, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from firmlake.core.company import Company
from firmlake.core.run import Run
from firmlake.landing.landed import load_progress
from firmlake.landing.pages import Page
from firmlake.landing.progress import Progress
from firmlake.landing.segments import SegmentWriter

__all__ = ["Shard", "ShardResult", "open_shard"]


class ShardResult(NamedTuple):
    """How a shard ended: how many pairs of company and dataset came to each status.

    Attributes:
        progress: All that has landed of it, records too, so that it can be staged without being read back.
    """

    progress: Progress
    answered: int
    not_found: int
    failed: int
    forbidden: int
    unavailable: int
    pending: int

    def __str__(self) -> str:
        parts = [f"{self.answered} answered, {self.not_found} not found, {self.failed} failed"]
        parts += [
            f"{count} {name}"
            for name, count in (("forbidden", self.forbidden), ("unavailable", self.unavailable))
            if count
        ]
        return ", ".join([*parts, f"{self.pending} open"])


class Shard(NamedTuple):
    """A shard while it is fetched.

    Attributes:
        free: Companies inside their paid window before this run.
        apart: Pairs of company and dataset that failed in an earlier run: asked for apart, so that they trip no others.
        barred: Pairs whose dataset was given up in an earlier run.
        unpaid: Companies that the service will not give without credits, whatever we believed.
    """

    number: int
    progress: Progress
    writer: SegmentWriter
    free: frozenset[Company]
    apart: frozenset[tuple[Company, str]]
    barred: frozenset[tuple[Company, str]]
    unpaid: set[Company]

    def is_apart(self, page: Page) -> bool:
        """Tell whether a page asks again for what failed: that it is refused once more says nothing of the settings."""
        return all((company, page.dataset) in self.apart for company in page.companies)

    def is_paid(self, company: Company, datasets: Iterable[str]) -> bool:
        """Tell whether a company costs nothing: paid for before, or by an answer of this run."""
        tracks = self.progress.tracks
        return company in self.free or any(
            (company, dataset) in tracks and tracks[company, dataset].first_at for dataset in datasets
        )


def open_shard(run: Run, number: int, writer: SegmentWriter) -> Shard:
    """Work out from the targets of a shard and from what has landed how far it is."""
    targets = run.targets(number)
    return Shard(
        number,
        load_progress(run, number, targets=targets, keep_records=True),
        writer,
        free=frozenset(company for company, _ in _pairs(targets.filter("is_paid"))),
        apart=frozenset(_pairs(targets.filter("has_failed"))),
        barred=frozenset(_pairs(targets.filter("is_barred"))),
        unpaid=set(),
    )


def _pairs(targets: pl.DataFrame) -> Iterator[tuple[Company, str]]:
    rows = targets.select("country", "company_number", "dataset").iter_rows()
    return ((Company(country, number), dataset) for country, number, dataset in rows)
