"""A shard while it is fetched, and its result."""

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
    """The result of a shard: the number of targets in each status.

    Attributes:
        progress: The shard's progress with all its records, so that staging need not read them back.
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
        number: Number of the shard.
        progress: What has landed so far.
        writer: Writes the shard's answers.
        free: Companies that were inside their paid window before this run.
        refreshed: Targets in the last days of their paid window; they are requested separately, so that a charge for
            them is noticed.
        apart: Targets that failed in an earlier run; they are requested separately, so that they fail no others.
        barred: Targets whose dataset was given up in an earlier run.
        unpaid: Companies that we believed paid for, but that the service refuses without credits.
    """

    number: int
    progress: Progress
    writer: SegmentWriter
    free: frozenset[Company]
    refreshed: frozenset[tuple[Company, str]]
    apart: frozenset[tuple[Company, str]]
    barred: frozenset[tuple[Company, str]]
    unpaid: set[Company]

    def is_apart(self, page: Page) -> bool:
        """Tell whether all targets of a page failed before, so that another refusal says nothing about the settings."""
        return all((company, page.dataset) in self.apart for company in page.companies)

    def is_refresh(self, page: Page) -> bool:
        """Tell whether all targets of a page are refreshed for free, so that any charge for it is a mistake."""
        return all((company, page.dataset) in self.refreshed for company in page.companies)

    def is_paid(self, company: Company, datasets: Iterable[str]) -> bool:
        """Tell whether a company is free: paid for before this run, or by an answer of this run."""
        tracks = self.progress.tracks
        return company in self.free or any(
            (company, dataset) in tracks and tracks[company, dataset].first_at for dataset in datasets
        )


def open_shard(run: Run, number: int, writer: SegmentWriter) -> Shard:
    """Open a shard at the state given by its targets and landed answers."""
    targets = run.targets(number)
    return Shard(
        number,
        load_progress(run, number, targets=targets, keep_records=True),
        writer,
        free=frozenset(company for company, _ in _pairs(targets.filter("is_paid"))),
        refreshed=frozenset(_pairs(targets.filter("is_refresh"))),
        apart=frozenset(_pairs(targets.filter("has_failed"))),
        barred=frozenset(_pairs(targets.filter("is_barred"))),
        unpaid=set(),
    )


def _pairs(targets: pl.DataFrame) -> Iterator[tuple[Company, str]]:
    rows = targets.select("country", "company_number", "dataset").iter_rows()
    return ((Company(country, number), dataset) for country, number, dataset in rows)
