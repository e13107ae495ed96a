"""A shard while it is fetched: its requests, what has landed, which companies need care, and decisions about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import polars as pl

from firmlake.api.answers import Element, named_in, placed_in, tells_unknown
from firmlake.api.judge import NO_SUCH_PLACE, REFUSALS, read_lines
from firmlake.api.requests import fitting
from firmlake.core.company import Company
from firmlake.core.errors import (
    CountryRefusedError,
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    OutOfCreditsError,
    Reason,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    reason_of,
)
from firmlake.core.settings import ApiSettings
from firmlake.landing.charged import Credits
from firmlake.landing.pages import Page, request_id
from firmlake.landing.progress import MISSES_MAX, Track, load_progress
from firmlake.landing.run import Run
from firmlake.landing.segments import Header, SegmentWriter
from firmlake.landing.service_status import LOOK_AGAIN, ServiceStatus

TRIES_ALONE = 2
"""Tries for a single company before it is given up: one failure may be the fault of the service."""

Record = tuple[Header, bytes, list[Element] | None]
"""A landed answer, with its elements if they were read."""


class Ask(NamedTuple):
    """A page to send."""

    page: Page
    tries: int  # how often to try before the request counts as failed
    is_fitted: bool = False  # whether the page is sized by the credits that are left
    is_witnessed: bool = False  # whether its companies were asked for beside a witness, see `accompany`
    whole: tuple[Page, FirmlakeError] | None = None  # the page of which this is a half, and why it was refused


class Sent(NamedTuple):
    """The result of sending a page: the landed answers, and the final error."""

    ask: Ask
    landed: list[Record]
    error: FirmlakeError | None

    @property
    def is_refused(self) -> bool:
        """Whether the service refused the request and would refuse it again."""
        return isinstance(self.error, RequestRefusedError)

    @property
    def is_misfit(self) -> bool:
        """Whether the service refused the form or the size of the request, or what a company looks like."""
        return self.is_refused and self.landed[-1][0].status in REFUSALS

    @property
    def is_spoilt(self) -> bool:
        """Whether the request failed and one of its companies may be the reason."""
        return isinstance(self.error, RequestRefusedError | RequestFailedError)

    @property
    def is_no_such_place(self) -> bool:
        """Whether the request was refused because the endpoint does not exist; other datasets may still be offered."""
        return self.is_refused and self.landed[-1][0].status in NO_SUCH_PLACE

    @property
    def is_empty(self) -> bool:
        """Whether the last answer was an empty array."""
        return self.error is not None and reason_of(self.error).code == "empty_answer"

    def unknown(self, api: ApiSettings) -> list[Company]:
        """Return the companies because of which the request was refused, since the service does not know them.

        Of several, the words must name them. A wrong address gets a 404 too, so the status alone says nothing.
        """
        error, companies = self.error, self.ask.page.companies
        if not isinstance(error, RequestRefusedError):
            return []
        named = named_in(error.said, companies) if len(companies) > 1 else companies
        return [one for one in named if tells_unknown(api.names, one, self.landed[-1][0].status, error.said)]

    def about(self, *companies: Company) -> Sent:
        """Return the result as that of a request for some of the companies."""
        page = self.ask.page._replace(companies=companies)
        return self._replace(ask=self.ask._replace(page=page, is_fitted=False, whole=None))


def split(sent: Sent, status: ServiceStatus) -> list[Ask]:
    """Split a page of several companies that failed: into those that a refusal names, each alone, and the others.

    If it names none, into halves. While none like them was answered, each half takes every other one: neighbours may
    fail for a common reason, and the first ones that are asked for alone are then far apart in the list.
    """
    page, companies, whole = sent.ask.page, sent.ask.page.companies, None
    is_like, middle = status.knows_like(page), (len(companies) + 1) // 2
    text = " ".join(read_lines(sent.landed[-1][1])) if is_like and sent.is_refused else ""
    if named := named_in(text, companies) or placed_in(text, companies):
        others = tuple(company for company in companies if company not in named)
        parts = [*((company,) for company in named), others]
    else:
        whole = (page, sent.error) if sent.error and sent.is_misfit else None
        parts = [companies[:middle], companies[middle:]] if is_like else [companies[::2], companies[1::2]]
    ask = sent.ask._replace(is_fitted=False, whole=whole)
    return [
        ask._replace(page=page._replace(companies=part), tries=1 if len(part) > 1 else TRIES_ALONE) for part in parts
    ]


_FAILED_ALONE_MAX, _EMPTY_ALONE_MAX = 3, 10
"""Give up a dataset that was never answered after this many of its companies have failed alone. The second number holds
for companies that got an empty array, because the company itself may be the reason."""
_KINDS = {ForbiddenError: "forbidden", CountryRefusedError: "given_up"}
"""Kinds of headers by the error for which companies get no request; any other means that the dataset is unavailable."""
UNKNOWN_ASKED = 3
"""Of companies that one dataset does not know, ask another for so many. If it knows none, it is asked for no other."""
_FEW = 0.05
"""The share of known companies that answers may leave out because these companies ceased to exist."""


class Shard:
    """A shard while it is fetched.

    Attributes:
        apart: Companies by dataset that failed, or were forbidden or given up with their dataset, in an earlier run.
            They are requested separately, so that they make no other company fail.
        failed_before: Those of them that failed, or were forbidden alone.
        unpaid: Companies that count as paid for here, but that the service refuses without credits.
        unknown: Companies for which whole requests were refused, because a dataset does not know them.
    """

    def __init__(
        self,
        run: Run,
        number: int,
        writer: SegmentWriter,
        status: ServiceStatus,
        credits: Credits,
        now: Callable[[], datetime],
    ) -> None:
        targets = run.targets(number)
        self.now = now
        self.run = run
        self.number = number
        self.writer = writer
        self.status = status
        self.credits = credits
        self.progress = load_progress(run, number, targets=targets, keep_records=True)
        self.apart = _of_datasets(targets, "has_failed", "is_barred")
        self.failed_before = _of_datasets(targets, "has_failed")
        self.unpaid: set[Company] = set()
        self.unknown: set[Company] = set()
        self._failed_alone: defaultdict[str, dict[Company, Sent]] = defaultdict(dict)

    def recall(self) -> None:
        """Learn from the answers that landed before a crash: they too prove that the settings fit the service."""
        unproven = ("not_found",) if self.progress.foreign else ()  # see `Fetcher._recognise`
        for dataset, tracks in self.progress.datasets.items():
            said = [one for one, track in tracks.items() if track.answered_at and track.status not in unproven]
            if said:
                self.status.answered(dataset, said)

    def take(self, ask: Ask) -> Ask | None:
        """Return a request without companies that are refused by now; None if none is left."""
        page = ask.page
        companies = tuple(company for company in page.companies if not self.status.refusal(page.dataset, company))
        if len(companies) == len(page.companies):
            return ask
        # Its answer tells nothing of the whole, for which a company that is gone may have been refused.
        return ask._replace(page=page._replace(companies=companies), whole=None) if companies else None

    def absorb(self, sent: Sent) -> None:
        """Take in the landed answers to a request, and what its outcome tells about the service."""
        page, error = sent.ask.page, sent.error
        for header, body, elements in sent.landed:
            self.progress.absorb(header, body, elements)
        if error is None:
            self.status.answered(page.dataset, page.companies)
            self.status.compare(page, sent.ask.whole)
            self._give_up_failed(page.dataset)
        elif sent.is_misfit and self.status.looks_closer and not self.is_apart(page):
            raise error
        elif isinstance(error, EndpointPausedError | UnavailableError):
            self.status.end(page.dataset, error)
        elif isinstance(error, OutOfCreditsError) and sent.landed and not self.due(page, self.now()):
            self.unpaid.update(page.companies)

    def may_ask(self, dataset: str, company: Company) -> bool:
        """Return whether a company may be requested: not if it failed alone, is refused, or cannot be paid for."""
        if self.credits.end or company in self._failed_alone[dataset] or self.status.refusal(dataset, company):
            return False
        return not self.credits.out or (company not in self.unpaid and self.progress.is_paid(company, self.now()))

    def is_apart(self, page: Page) -> bool:
        """Return whether all companies of a page failed before; a refusal then says nothing about the settings."""
        return self.apart[page.dataset].issuperset(page.companies)

    def due(self, page: Page, at: datetime) -> int:
        """Count the companies of a page that cost a credit at some time."""
        tracks = self.progress.datasets[page.dataset]  # without the witness of another shard, which is paid for
        return sum(company in tracks and not self.progress.is_paid(company, at) for company in page.companies)

    def lapsed(self, page: Page, at: datetime) -> int:
        """Count those of them that were planned as free: their paid window has closed since."""
        return sum(
            company in self.progress.free and not self.progress.is_paid(company, at) for company in page.companies
        )

    def is_free_refresh(self, page: Page, at: datetime) -> bool:
        """Return whether a page refreshes companies that are all free at some time; any charge is then a mistake."""
        tracks, progress = self.progress.datasets[page.dataset], self.progress
        asked = (company for company in page.companies if company in tracks)
        return all(tracks[company].is_refresh and progress.is_free(company, at) for company in asked)

    def is_known(self, company: Company) -> bool:
        """Return whether the service has sent data about a company, in this run or an earlier one."""
        tracks = (tracks.get(company) for tracks in self.progress.datasets.values())
        return company in self.progress.free or any(track and (track.first_at or track.expected) for track in tracks)

    def is_left_out(self, company: Company, track: Track) -> bool:
        """Return whether the last answer left out a company that the service may not know."""
        return track.left_out > 0 and not self.is_known(company)

    def witness(self, dataset: str) -> Company | None:
        """Return a company that the service knows and that is free to ask for.

        One whose answer for the dataset is complete, or one of other datasets whose paid window is open, or one of an
        earlier shard.
        """
        tracks, now = self.progress.datasets[dataset], self.now()
        answered = (company for company, track in tracks.items() if track.status == "answered")
        free = (one for one in self.progress.free if one not in tracks and self.progress.is_free(one, now))
        others = self.status.witnesses.get(dataset)
        return next((one for one in chain(answered, free) if not self.status.refusal(dataset, one)), others)

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
            fetched_at=self.now(),
        )

    # --- decisions, which land like answers ---

    def give_up(self, dataset: str, companies: Collection[Company], reason: Reason, kind: str = "given_up") -> None:
        """Record that companies get no further request for a dataset in this run."""
        self._note(dataset, companies, kind=kind, error=reason.text, code=reason.code)

    def note_failed(self, sent: Sent) -> None:
        """Give up a company that failed alone. While its dataset has never been answered, it waits for others.

        After so many failed alone, one was refused, and no dataset was ever answered, RequestRefusedError: the settings
        do not fit.
        """
        dataset, status = sent.ask.page.dataset, self.status
        if sent.unknown(status.api):
            status.answered(dataset)  # the endpoint exists, because its message is about a company
        failed_alone = self._failed_alone[dataset]
        (company,) = sent.ask.page.companies
        failed_alone[company] = sent
        if status.works(dataset) or company in self.failed_before[dataset]:
            self._give_up_failed(dataset)
            return
        pending = len(self.progress.pending(dataset))
        if len(failed_alone) >= (_EMPTY_ALONE_MAX if sent.is_empty else min(_FAILED_ALONE_MAX, pending)) and (
            pending > 1 or sent.is_refused
        ):
            self._give_up_dataset(dataset, next((one for one in failed_alone.values() if one.is_refused), sent))

    def _give_up_dataset(self, dataset: str, sent: Sent) -> None:
        """Give up a dataset that was never answered, because of a company that failed like all others."""
        assert isinstance(sent.error, ServiceError)
        if sent.is_refused and not self.status.has_worked and not self.is_apart(sent.ask.page):
            self.status.misfit = self.status.misfit or _misfit(sent.error, sent)
            if not sent.is_no_such_place:  # other datasets may still be offered
                raise self.status.misfit
        self.status.end(dataset, sent.error)

    def _give_up_failed(self, dataset: str) -> None:
        """Give up the companies that failed alone, because others are answered or were asked for."""
        for sent in self._failed_alone.pop(dataset, {}).values():
            page, error = sent.ask.page, sent.error
            assert error
            kind = "unknown" if sent.unknown(self.status.api) else "given_up"
            self.give_up(dataset, page.companies, reason_of(error), kind)
            if kind == "unknown" and fitting(self.status.api, dataset).companies_per_request > 1:
                self.unknown.update(page.companies)
            if kind == "given_up" and sent.is_refused and not self.is_apart(page):
                self.status.refuse(dataset, page.companies[0], error)

    def give_up_unknown(self, dataset: str) -> None:
        """Give up the companies that another dataset does not know, once this one knows none of a few of them."""
        tracks, pending = self.progress.datasets[dataset], self.unknown & self.progress.pending(dataset).keys()
        told = [tracks[company] for company in self.unknown - pending if company in tracks]
        if pending and len(told) >= UNKNOWN_ASKED and all(track.status == "not_found" for track in told):
            self.give_up(dataset, sorted(pending), told[0].reason, "unknown")

    def give_up_pending(self) -> None:
        """Give up the companies that are still pending, because they are refused or another request is pointless."""
        for dataset in self.run.plan.datasets:
            if dataset not in self.status.ended:
                self._give_up_failed(dataset)
            found: defaultdict[tuple[str, Reason], list[Company]] = defaultdict(list)
            for company, track in self.progress.pending(dataset).items():
                if error := self.status.refusal(dataset, company):
                    kind = next((kind for type_, kind in _KINDS.items() if isinstance(error, type_)), "unavailable")
                    found[kind, reason_of(error)].append(company)
                elif track.is_given_up:
                    is_silent = track.left_out >= MISSES_MAX and self.is_left_out(company, track)
                    found["unknown" if is_silent else "given_up", track.reason].append(company)
            for (kind, reason), companies in found.items():
                is_doubtful = kind == "unknown" and self._doubts_silence(dataset)
                self.give_up(dataset, companies, reason, "given_up" if is_doubtful else kind)

    def _note(self, dataset: str, companies: Collection[Company], **values: Any) -> None:
        header = msgspec.structs.replace(self.header(Page(dataset, tuple(companies))), **values)
        self.progress.absorb(self.writer.append(header), b"")

    def _doubts_silence(self, dataset: str) -> bool:
        """Return whether the service may know a company although its answers leave the company out.

        That is so if answers name unknown companies explicitly, if no company was found at all, or if more than a few
        known companies are left out too.
        """
        tracks = [track for _, _, track in self.progress.tracks()]
        if any(track.status == "not_found" and track.ended_at is None for track in tracks):
            return True
        if not (self.witness(dataset) or any(track.first_at for track in tracks)):
            return True
        known = [track for company, track in self.progress.datasets[dataset].items() if self.is_known(company)]
        return sum(track.left_out > 0 for track in known) > _FEW * len(known)


def _misfit(error: ServiceError, refused: Sent) -> RequestRefusedError:
    """Return the error for a refusal that no company causes, with the settings to check."""
    keys = ["api.companies_per_request", "records_per_request", "page_limit_max", "api.requests"]
    keys += ["api.base_url"] * refused.is_no_such_place
    return RequestRefusedError(
        error.message,
        f"{LOOK_AGAIN}. Or correct "
        f"{', '.join(keys[:-1])} or {keys[-1]} by hand; if only some companies are the reason, a lower "
        "api.companies_per_request shows which",
    )


def _of_datasets(targets: pl.DataFrame, *marks: str) -> defaultdict[str, set[Company]]:
    """Return the companies of targets with one of these marks, by dataset."""
    found: defaultdict[str, set[Company]] = defaultdict(set)
    marked = targets.filter(pl.any_horizontal(marks))
    for country, number, dataset in marked.select("country", "company_number", "dataset").iter_rows():
        found[dataset].add(Company(country, number))
    return found
