"""The state of a shard while it is fetched, and its result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import polars as pl

from firmlake.api.element import Element
from firmlake.core.company import Company
from firmlake.core.run import Run
from firmlake.landing.asked import Scope
from firmlake.landing.landed import load_progress
from firmlake.landing.pages import Page
from firmlake.landing.progress import Progress
from firmlake.landing.segments import Header, SegmentWriter
from firmlake.landing.track import MISSES_MAX

__all__ = ["Shard", "ShardResult", "open_shard"]


Targets = defaultdict[str, set[Company]]
"""Companies by dataset."""


_FEW = 0.05
"""The share of known companies that answers may leave out because these companies ceased to exist."""


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
    """The state of a shard while it is fetched.

    Attributes:
        number: Number of the shard.
        progress: What has landed so far.
        writer: Writes the shard's answers.
        refreshed: Companies by dataset in the last days of their paid window. They are requested separately, so that a
            charge for them is noticed.
        apart: Companies by dataset that failed in an earlier run. They are requested separately, so that they make no
            other company fail.
        barred: Companies by dataset that were given up in an earlier run, because they or their dataset were forbidden,
            or the dataset was not available.
        unpaid: Companies that count as paid for here, but that the service refuses without credits.
    """

    number: int
    progress: Progress
    writer: SegmentWriter
    refreshed: Targets
    apart: Targets
    barred: Targets
    unpaid: set[Company]

    def absorb(self, landed: Iterable[tuple[Header, bytes, list[Element] | None]]) -> None:
        """Take in the landed answers to a request."""
        for header, body, elements in landed:
            self.progress.absorb(header, body, elements)

    def scope(self, dataset: str, company: Company) -> Scope:
        """Return the scope to which a company belongs in a dataset."""
        return Scope(dataset, company.country, company in self.barred[dataset])

    def scopes(self, page: Page) -> set[Scope]:
        """Return the scopes to which the companies of a page belong."""
        return {self.scope(page.dataset, company) for company in page.companies}

    def is_apart(self, page: Page) -> bool:
        """Return whether all companies of a page failed before; a refusal then says nothing about the settings."""
        return self.apart[page.dataset].issuperset(page.companies)

    def is_refresh(self, page: Page) -> bool:
        """Return whether all companies of a page are refreshed for free; any charge for the page is then a mistake."""
        return self.refreshed[page.dataset].issuperset(page.companies)

    def give_up_new(self, page: Page) -> bool:
        """Give up a page of new companies that holds the whole dataset of the shard; return whether it was given up."""
        tracks = self.progress.datasets[page.dataset]
        is_new = self.progress.free.isdisjoint(tracks) and not any(track.expected for track in tracks.values())
        if not is_new or not tracks.keys() <= set(page.companies):
            return False
        for track in tracks.values():
            track.misses = MISSES_MAX
        return True

    def is_known(self, company: Company) -> bool:
        """Return whether the service has sent data about a company, in this run or an earlier one."""
        tracks = (tracks.get(company) for tracks in self.progress.datasets.values())
        return company in self.progress.free or any(track and (track.first_at or track.expected) for track in tracks)

    def doubts_silence(self, dataset: str) -> bool:
        """Return whether the service may know a company although its answers leave the company out.

        That is so if answers name unknown companies explicitly, if no company was found at all, or if more than a few
        known companies are left out too.
        """
        tracks = [track for _, _, track in self.progress.tracks()]
        if any(track.status == "not_found" and track.ended_at is None for track in tracks):
            return True
        if not any(track.first_at for track in tracks):
            return True
        known = [track for company, track in self.progress.datasets[dataset].items() if self.is_known(company)]
        return sum(track.left_out > 0 for track in known) > _FEW * len(known)

    def witness(self, dataset: str, refusal: Callable[[Scope, Company], object]) -> Company | None:
        """Return a company whose answer for a dataset is complete, so that asking for it again is free.

        Args:
            dataset: The dataset.
            refusal: Returns a reason if the token may no longer ask about a company.
        """
        tracks = self.progress.datasets[dataset].items()
        answered = (company for company, track in tracks if track.status == "answered")
        return next((one for one in answered if not refusal(self.scope(dataset, one), one)), None)

    def unanswered(self, page: Page) -> tuple[Company, ...]:
        """Return the companies of a page that are not answered yet; a witness is."""
        tracks = self.progress.datasets[page.dataset]
        return tuple(company for company in page.companies if tracks[company].status != "answered")


def open_shard(run: Run, number: int, writer: SegmentWriter) -> Shard:
    """Restore the state of a shard from its targets and landed answers."""
    targets = run.targets(number)
    return Shard(
        number,
        load_progress(run, number, targets=targets, keep_records=True),
        writer,
        refreshed=_of_datasets(targets, "is_refresh"),
        apart=_of_datasets(targets, "has_failed"),
        barred=_of_datasets(targets, "is_barred"),
        unpaid=set(),
    )


def _of_datasets(targets: pl.DataFrame, mark: str) -> Targets:
    """Return the companies of marked targets, by dataset."""
    found: Targets = defaultdict(set)
    for country, number, dataset in targets.filter(mark).select("country", "company_number", "dataset").iter_rows():
        found[dataset].add(Company(country, number))
    return found
