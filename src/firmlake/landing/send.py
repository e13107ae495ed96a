"""Send the pages of a shard; every answer lands before anything acts on it."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import msgspec

from firmlake.api import requests
from firmlake.api.answers import read_answer
from firmlake.api.client import Answer, Client
from firmlake.api.element import Element
from firmlake.api.unknown import says_unknown
from firmlake.core.company import Company
from firmlake.core.errors import (
    EndpointPausedError,
    FirmlakeError,
    ForbiddenError,
    OutOfCreditsError,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
    Stopped,
    UnavailableError,
    UnusableAnswerError,
)
from firmlake.core.log import log
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.landing.charged import mark_charged, overspent
from firmlake.landing.narrow import Ask, Sent
from firmlake.landing.pages import Page
from firmlake.landing.progress import LIMITS, PROVEN, check_answer
from firmlake.landing.segments import Header, answered, credits_in
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Standing

__all__ = ["Sender", "request_id"]


class Sender:
    """Sends the pages of a run, from any thread.

    Args:
        client: Client of the service.
        settings: Limits of the service.
        run: The run.
        standing: Records which datasets are answered and which are given up.
        on_answer: Called after each answer has landed.
        clean: Removes from an answer what must not land; see `privacy.persons.answer_filter`.
        now: Returns the current time in UTC.

    Attributes:
        out_of_credits: The error raised when the credits ran out; None as long as they last.
        credits_left: Credits left according to the last answer; None if the service does not say.
        charged: The error raised when the service charged for a free refresh, or more credits than `run.max_credits`.
            Nothing more is sent then.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        run: Run,
        standing: Standing,
        on_answer: Callable[[Answer], object],
        clean: Callable[[bytes], bytes],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._settings = settings
        self._run = run
        self._standing = standing
        self._on_answer = on_answer
        self._clean = clean
        self._now = now
        self.out_of_credits: OutOfCreditsError | None = None
        self.credits_left: int | None = None
        self.charged: Stopped | None = None
        # Credits according to response headers: charged, the first balance, and how far it fell since. `_due` is what
        # the pages sent so far should cost.
        self._spent: int | None = None
        self._first_left: int | None = None
        self._fallen = self._due = 0
        self._lock = threading.Lock()
        # Once the service has charged more than was due, a run with a budget sends one page at a time, so that at most
        # one page can exceed the budget.
        self._is_overcharged = False
        self._in_turn = threading.Lock()
        self._has_met_others = False

    def send(self, ask: Ask, shard: Shard, *, is_patient: bool | None = None) -> Sent:
        """Send one page; every answer lands before anything acts on it."""
        with self._in_turn if self._is_overcharged and self._settings.run.max_credits >= 0 else nullcontext():
            return self._send(ask, shard, is_patient)

    def _send(self, ask: Ask, shard: Shard, is_patient: bool | None) -> Sent:
        page = ask.page
        scopes = shard.scopes(page)
        if ended := next(filter(None, map(self._standing.refusal, scopes)), self.charged):
            return Sent(ask, [], ended)
        request = requests.bulk(self._settings.api, page.dataset, page.companies, page.limit, page.offset)
        base = self._header(page, shard.number)
        due = sum(not shard.progress.is_paid(company) for company in page.companies)
        with self._lock:
            self._due += due
        landed: list[tuple[Header, bytes, list[Element] | None]] = []

        def land(answer: Answer) -> None:
            header = answered(base, answer)
            if answer.request is not request:
                header = msgspec.structs.replace(header, kind="probe", companies=())
            content = self._clean(answer.body)
            header = shard.writer.append(header, content)
            landed.append((header, content, None))
            self._note_credits(header, page, due, shard)
            _log_answer(header)
            self._on_answer(answer)

        def check(body: bytes) -> None:
            if not (self._standing.is_understood or shard.is_apart(page)):
                self._recognise(page, read_answer(page.dataset, body))
            elements = check_answer(page.dataset, body)
            if landed[-1][1] is body:  # false if the body was cleaned, or if the last answer was to a probe
                landed[-1] = (landed[-1][0], body, elements)

        is_patient = not shard.is_apart(page) if is_patient is None else is_patient
        try:
            self._client.send(request, check, tries=ask.tries, is_patient=is_patient, on_answer=land)
        except (RequestFailedError, RequestRefusedError, ForbiddenError) as error:
            return Sent(ask, landed, error)
        except (EndpointPausedError, UnavailableError) as error:
            return self.end(page.dataset, Sent(ask, landed, None), error)
        except OutOfCreditsError as error:
            if all(shard.progress.is_paid(company) for company in page.companies):
                shard.unpaid.update(page.companies)
            self.out_of_credits = error
            return Sent(ask, landed, error)
        self._standing.answered(page.dataset, scopes)
        return Sent(ask, landed, None)

    def _recognise(self, page: Page, elements: list[Element]) -> None:
        """Check that the first answers are about companies that were requested.

        Raises:
            UnusableAnswerError: The answer is about several other companies instead. Ask again.
            ServiceError: A second answer is, too. Stop: further requests would cost credits for nothing.
        """
        others = [element for element in elements if element.company not in page.companies]
        known = [element for element in elements if element.company in page.companies and not self._is_unknown(element)]
        if known:
            self._standing.is_understood = True
        if known or len(others) < 2:
            return
        what = others[0].problem or f"{others[0].company} was not asked for"
        message = f"The answer for {page.dataset} covers none of the {len(page.companies)} companies requested: {what}"
        if not self._has_met_others:
            self._has_met_others = True
            raise UnusableAnswerError(message)
        raise ServiceError(
            message, "Run `firmlake check LIST` to see how the service writes the identifiers of companies"
        )

    def _is_unknown(self, element: Element) -> bool:
        assert element.company
        return says_unknown(self._run.plan.names, element.company, element.message or "")

    def _note_credits(self, header: Header, page: Page, due: int, shard: Shard) -> None:
        """Count the credits charged. The balance is used only without a header for charges: others may spend too."""
        names, budget = self._settings.api.names, self._settings.run.max_credits
        charged = credits_in(header, names.credits_charged_header)
        left = credits_in(header, names.credits_remaining_header)
        with self._lock:
            if left is not None:
                self.credits_left = left
                self._first_left = left if self._first_left is None else self._first_left
                self._fallen = max(self._fallen, self._first_left - left)  # without what the first answer cost
            if charged is not None:
                self._spent = (self._spent or 0) + charged
            spent = self._fallen if self._spent is None else self._spent
            # The balance also tells what requests in flight cost, so it is compared with what is due for all so far.
            self._is_overcharged |= self._fallen > self._due if self._spent is None else (charged or 0) > due
        if charged and header.companies and shard.is_refresh(page):
            self.charged = self.charged or mark_charged(self._run, page, charged)
        elif 0 <= budget < spent:
            self.charged = self.charged or overspent(spent, budget)

    def afford(self, sent: Sent, shard: Shard) -> list[Ask]:
        """Plan a smaller page that the remaining credits pay for; half the page if the service does not report them.

        Otherwise one missing credit would cost a page of 100 companies the other 99 answers.
        """
        page = sent.ask.page
        unpaid = [company for company in page.companies if not shard.progress.is_paid(company)]
        left = self.credits_left
        count = min(len(unpaid) // 2 if left is None else left, len(unpaid) - 1)
        return [sent.ask._replace(page=page._replace(companies=tuple(unpaid[:count])))] if count > 0 else []

    def end(self, dataset: str, sent: Sent, error: FirmlakeError) -> Sent:
        """Give up a dataset for this run because of a failed request."""
        if not isinstance(error, EndpointPausedError | UnavailableError):
            error = UnavailableError(error.message, error.next_step)
        self._standing.end(dataset, error)
        return sent._replace(error=error)

    def give_up(
        self, dataset: str, companies: Collection[Company], reason: str, shard: Shard, kind: str = "given_up"
    ) -> None:
        """Record that companies get no further request for a dataset in this run."""
        self._note(dataset, companies, shard, kind=kind, error=reason)

    def give_up_refused(self, shard: Shard) -> None:
        """Give up the companies whose dataset was given up or that the token may not ask about."""
        for dataset in self._run.plan.datasets:
            refused: defaultdict[tuple[str, str], list[Company]] = defaultdict(list)
            for company in shard.progress.pending(dataset):
                if error := self._standing.refusal(shard.scope(dataset, company), company):
                    kind = "forbidden" if isinstance(error, ForbiddenError) else "unavailable"
                    refused[kind, error.message].append(company)
            for (kind, reason), companies in refused.items():
                self.give_up(dataset, companies, reason, shard, kind)

    def note_proofs(self, shard: Shard) -> None:
        """Record the datasets whose totals are proven to count all records; see `Progress.settle`."""
        for dataset in shard.progress.unnoted():
            self._note(dataset, (), shard, kind=PROVEN)

    def note_limits(self, refused: Page, limits: dict[str, int], shard: Shard) -> Header:
        """Record how large requests may be after a page was refused for its size; the latest record wins."""
        error = f"The service refused {refused}"
        return self._note(refused.dataset, (), shard, kind=LIMITS, error=error, limits=limits)

    def _note(self, dataset: str, companies: Collection[Company], shard: Shard, **values: Any) -> Header:
        header = msgspec.structs.replace(self._header(Page(dataset, tuple(companies)), shard.number), **values)
        header = shard.writer.append(header)
        shard.progress.absorb(header, b"")
        return header

    def _header(self, page: Page, shard: int) -> Header:
        language = self._run.plan.language
        return Header(
            request_id=request_id(self._run.run_id, page, language),
            run_id=self._run.run_id,
            shard=shard,
            dataset=page.dataset,
            companies=page.companies,
            limit=page.limit,
            offset=page.offset,
            language=language,
            fetched_at=self._now(),
        )


def request_id(run_id: str, page: Page, language: str) -> str:
    """Return a hash of what a request asks for, so that all its attempts share one identifier."""
    return hashlib.blake2b(msgspec.json.encode((run_id, *page, language)), digest_size=12).hexdigest()


def _log_answer(header: Header) -> None:
    log(
        "landed",
        run=header.run_id,
        shard=header.shard,
        request=header.request_id,
        dataset=header.dataset,
        companies=len(header.companies),
        offset=header.offset,
        attempt=header.attempt,
        status=header.status,
        error=header.error,
        seconds=header.duration_seconds,
    )
