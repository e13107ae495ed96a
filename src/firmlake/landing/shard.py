"""A shard while it is fetched: what has landed, which of its companies need care, and the decisions about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import msgspec
import polars as pl

from firmlake.core.company import Company
from firmlake.core.errors import (
    CountryRefusedError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    OutOfCreditsError,
    UnavailableError,
)
from firmlake.core.run import Run
from firmlake.landing.charged import Account
from firmlake.landing.landed import load_progress
from firmlake.landing.pages import Page, request_id
from firmlake.landing.segments import LIMITS, PROVEN, Header, SegmentWriter
from firmlake.landing.sent import Sent
from firmlake.landing.standing import Scope, Standing
from firmlake.landing.track import MISSES_MAX, Track

__all__ = ["Shard"]

_KINDS = {ForbiddenError: "forbidden", CountryRefusedError: "given_up"}
"""Kinds of headers by the error for which companies get no request; any other means that the dataset is unavailable."""
_FEW = 0.05
"""The share of known companies that answers may leave out because these companies ceased to exist."""


class Shard:
    """A shard while it is fetched.

    Attributes:
        writer: Writes the shard's answers and decisions.
        standing: What the run has learnt about the service.
        account: What the service charged.
        progress: What has landed so far.
        refreshed: Companies by dataset in the last days of their paid window. They are requested separately, so that a
            charge for them is noticed.
        apart: Companies by dataset that failed in an earlier run. They are requested separately, so that they make no
            other company fail.
        barred: Companies by dataset that were given up in an earlier run, because they or their dataset were forbidden,
            or the dataset was not available.
        unpaid: Companies that count as paid for here, but that the service refuses without credits.
    """

    def __init__(
        self,
        run: Run,
        number: int,
        writer: SegmentWriter,
        standing: Standing,
        account: Account,
        now: Callable[[], datetime],
    ) -> None:
        targets = run.targets(number)
        self._now = now
        self.run = run
        self.number = number
        self.writer = writer
        self.standing = standing
        self.account = account
        self.progress = load_progress(run, number, targets=targets, keep_records=True)
        self.refreshed = _of_datasets(targets, "is_refresh")
        self.apart = _of_datasets(targets, "has_failed")
        self.barred = _of_datasets(targets, "is_barred")
        self.unpaid: set[Company] = set()

    def absorb(self, sent: Sent) -> None:
        """Take in the landed answers to a request, and what its outcome tells about the service."""
        page, error = sent.ask.page, sent.error
        for header, body, elements in sent.landed:
            self.progress.absorb(header, body, elements)
        if error is None:
            self.standing.answered(page.dataset, self.scopes(page))
        elif isinstance(error, EndpointPausedError | UnavailableError):
            self.standing.end(page.dataset, error)
        elif isinstance(error, OutOfCreditsError):
            self.account.out = error
            if sent.landed and all(map(self.progress.is_paid, page.companies)):
                self.unpaid.update(page.companies)

    def scope(self, dataset: str, company: Company) -> Scope:
        """Return the scope to which a company belongs in a dataset."""
        return Scope(dataset, company.country, company in self.barred[dataset])

    def scopes(self, page: Page) -> set[Scope]:
        """Return the scopes to which the companies of a page belong."""
        return {self.scope(page.dataset, company) for company in page.companies}

    def refusal(self, dataset: str, company: Company) -> FirmlakeError | None:
        """Return why a company gets no request for a dataset; None if it may be requested."""
        return self.standing.refusal(self.scope(dataset, company), company)

    def may_ask(self, dataset: str, company: Company) -> bool:
        """Return whether a company may be requested for a dataset: it is not refused, and paid if credits ran out."""
        if self.account.end or self.refusal(dataset, company):
            return False
        return not self.account.out or (company not in self.unpaid and self.progress.is_paid(company))

    def is_apart(self, page: Page) -> bool:
        """Return whether all companies of a page failed before; a refusal then says nothing about the settings."""
        return self.apart[page.dataset].issuperset(page.companies)

    def is_refresh(self, page: Page) -> bool:
        """Return whether all companies of a page are refreshed for free; any charge for the page is then a mistake."""
        return self.refreshed[page.dataset].issuperset(page.companies)

    def is_known(self, company: Company) -> bool:
        """Return whether the service has sent data about a company, in this run or an earlier one."""
        tracks = (tracks.get(company) for tracks in self.progress.datasets.values())
        return company in self.progress.free or any(track and (track.first_at or track.expected) for track in tracks)

    def is_left_out(self, company: Company, track: Track) -> bool:
        """Return whether the last answer left out a company that the service may not know."""
        return track.left_out > 0 and not self.is_known(company)

    def witness(self, dataset: str) -> Company | None:
        """Return a company whose answer for a dataset is complete, so that asking for it again is free."""
        tracks = self.progress.datasets[dataset].items()
        answered = (company for company, track in tracks if track.status == "answered")
        return next((company for company in answered if not self.refusal(dataset, company)), None)

    def awaits_witness(self, dataset: str) -> bool:
        """Return whether a company has records of a dataset, but not all of them yet, and can become the witness."""
        pending = self.progress.pending(dataset).items()
        return any(track.next_offset and not track.is_given_up and self.may_ask(dataset, one) for one, track in pending)

    def unanswered(self, page: Page) -> tuple[Company, ...]:
        """Return the companies of a page that are not answered yet; a witness is."""
        tracks = self.progress.datasets[page.dataset]
        return tuple(company for company in page.companies if tracks[company].status != "answered")

    def header(self, page: Page) -> Header:
        """Return the header of a request for a page, without its outcome."""
        return Header(
            request_id=request_id(self.run.run_id, page, self.run.plan.language),
            run_id=self.run.run_id,
            shard=self.number,
            dataset=page.dataset,
            companies=page.companies,
            limit=page.limit,
            offset=page.offset,
            language=self.run.plan.language,
            fetched_at=self._now(),
        )

    # --- decisions, which land like answers ---

    def give_up(self, dataset: str, companies: Collection[Company], reason: str, kind: str = "given_up") -> None:
        """Record that companies get no further request for a dataset in this run."""
        self._note(dataset, companies, kind=kind, error=reason)

    def give_up_new(self, page: Page) -> bool:
        """Give up a page of new companies that holds the whole dataset of the shard; return whether it was given up."""
        tracks = self.progress.datasets[page.dataset]
        is_new = self.progress.free.isdisjoint(tracks) and not any(track.expected for track in tracks.values())
        if not is_new or not tracks.keys() <= set(page.companies):
            return False
        for track in tracks.values():
            track.misses = MISSES_MAX
        return True

    def give_up_pending(self) -> None:
        """Give up the companies that are still pending, because they are refused or another request is pointless."""
        for dataset in self.run.plan.datasets:
            found: defaultdict[tuple[str, str], list[Company]] = defaultdict(list)
            for company, track in self.progress.pending(dataset).items():
                if error := self.refusal(dataset, company):
                    kind = next((kind for type_, kind in _KINDS.items() if isinstance(error, type_)), "unavailable")
                    found[kind, error.message].append(company)
                elif track.is_given_up:
                    is_silent = track.left_out >= MISSES_MAX and self.is_left_out(company, track)
                    found["unknown" if is_silent else "given_up", track.reason].append(company)
            for (kind, reason), companies in found.items():
                is_doubtful = kind == "unknown" and self._doubts_silence(dataset)
                self.give_up(dataset, companies, reason, "given_up" if is_doubtful else kind)

    def note_proofs(self) -> None:
        """Record the datasets whose totals are proven to count all records; see `Progress.settle`."""
        for dataset in self.progress.unnoted():
            self._note(dataset, (), kind=PROVEN)

    def note_limits(self, refused: Page, limits: dict[str, int]) -> Header:
        """Record how large requests may be after a page was refused for its size; the latest record wins."""
        return self._note(refused.dataset, (), kind=LIMITS, error=f"The service refused {refused}", limits=limits)

    def _note(self, dataset: str, companies: Collection[Company], **values: Any) -> Header:
        header = msgspec.structs.replace(self.header(Page(dataset, tuple(companies))), **values)
        header = self.writer.append(header)
        self.progress.absorb(header, b"")
        return header

    def _doubts_silence(self, dataset: str) -> bool:
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


def _of_datasets(targets: pl.DataFrame, mark: str) -> defaultdict[str, set[Company]]:
    """Return the companies of marked targets, by dataset."""
    found: defaultdict[str, set[Company]] = defaultdict(set)
    for country, number, dataset in targets.filter(mark).select("country", "company_number", "dataset").iter_rows():
        found[dataset].add(Company(country, number))
    return found
