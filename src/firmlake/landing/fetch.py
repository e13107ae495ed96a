"""Fetch a shard: send requests and land answers until every company is answered or given up.

What follows from an answer about a page:

    answered       nothing; the next plan asks for records that are missing
    402            a smaller page, as large as the credits that are left
    403            a company of each country alone, and a second one if it is forbidden, too; the next plan leaves out
                   what is forbidden. The halves of the page if nothing is, as after a failure
    other failure  the companies that a refusal names, each alone, and the others; or its halves. A company that fails
                   alone is given up

So companies that make a page fail cost no others their answer. A token is usually limited by country, so a 403 is first
put down to that. As long as a dataset has never been answered, its requests go one by one, and it is given up after
three of its companies have failed alone: then the settings or the service are the reason.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime
from itertools import takewhile
from queue import SimpleQueue
from zlib import crc32

import msgspec

from firmlake.api import requests
from firmlake.api.answers import Element, read_answer, says_unknown
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.api.judge import check_credits
from firmlake.core.company import Company
from firmlake.core.errors import (
    AuthorizationError,
    EndpointPausedError,
    ForbiddenError,
    OutOfCreditsError,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    UnusableAnswerError,
    reason_of,
)
from firmlake.core.log import log
from firmlake.core.process import collecting_rarely
from firmlake.core.settings import Settings
from firmlake.core.work import utc_now
from firmlake.landing.charged import Credits
from firmlake.landing.pages import Page, Wanted, accompany, plan_pages
from firmlake.landing.progress import Progress, check_elements
from firmlake.landing.run import Run
from firmlake.landing.segments import Header, SegmentWriter, answered
from firmlake.landing.service_status import ServiceStatus
from firmlake.landing.shard import TRIES_ALONE, UNKNOWN_ASKED, Ask, Record, Sent, Shard, split
from firmlake.privacy.persons import answer_filter

_ABOUT_PAGE = (RequestFailedError, RequestRefusedError, ForbiddenError, EndpointPausedError, UnavailableError)
"""Errors after which other requests may still be answered; any other error ends the run."""


class Fetcher:
    """Fetches the shards of one run through one client, one after the other.

    A dataset that the service forbids or does not answer is given up for this run; the other datasets are still
    fetched. Companies that the token may not ask about are given up too.

    Args:
        on_answer: Called from any thread after each answer has landed.
        on_works: Called once, at the first usable answer.
        looks_closer: Whether to end at the first request that is refused, so that a first contact asks everything.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        run: Run,
        on_answer: Callable[[Answer], object] = lambda answer: None,
        on_works: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = utc_now,
        *,
        looks_closer: bool = False,
    ) -> None:
        self._client, self._api, self._run, self._now = client, settings.api, run, now
        self._on_answer = on_answer
        self._clean = answer_filter(settings.privacy, run.folders, settings.contract)
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        self._status = ServiceStatus(run, settings.api, on_works, looks_closer=looks_closer)
        self._credits = Credits(run, settings)
        self._in_turn = threading.Lock()
        self._is_misread = self._has_asked_lists = False

    def close(self) -> None:
        """Wait for the requests in flight and start no others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @collecting_rarely()
    def fetch_shard(self, number: int) -> Progress:
        """Fetch everything that a shard still lacks; return its progress with all records, so staging reads nothing.

        When the credits run out, the remaining credits are spent first. Companies that are already paid for are still
        requested.

        Raises:
            Stopped: A budget or the credits ran out, or the service asked for a long pause. Landed answers are kept.
            AuthorizationError: The token is refused, or every dataset is forbidden.
            RequestRefusedError: The service refuses the first request, whichever companies it names. Correct the
                settings.
            ServiceError: The service is down: run again later. Or it answers otherwise than the settings say, twice in
                a row: look again with `firmlake check`.
        """
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = Shard(self._run, number, writer, self._status, self._credits, self._now)
            shard.recall()
            for dataset in self._run.plan.datasets:
                while asks := self._plan(shard, dataset):
                    self._send_all(asks, shard)
                self._check_token(dataset)
                self._status.witnesses[dataset] = shard.witness(dataset)
            self._status.check()
            shard.give_up_pending()
        if self._credits.end:
            raise self._credits.end
        if self._credits.out and shard.progress.counts["pending"]:
            raise self._credits.out
        shard.progress.follow(writer.headers)
        return shard.progress

    def _check_token(self, dataset: str) -> None:
        """Ask for the lists, which are free, once a dataset is forbidden and nothing was ever answered.

        Raises:
            AuthorizationError: They are forbidden in the same words, so the service does not accept the token.
        """
        closed = self._status.closed(dataset)
        if closed is None or self._status.has_worked or self._has_asked_lists:
            return
        self._has_asked_lists = True
        try:
            lists = requests.service_lists(self._api, "OVERVIEW")
            self._client.send(lists, tries=1, is_patient=False, on_answer=self._on_answer)
        except ForbiddenError as error:
            if error.said == closed.said:
                raise AuthorizationError(f"The service refuses the token ({error.said})", "Get a valid token") from None
        except ServiceError:
            pass  # a token need not be allowed to see lists, nor a service have them

    def _plan(self, shard: Shard, dataset: str) -> deque[Ask]:
        """Plan requests for the companies that are not hopeless, in the end those that failed before.

        These begin at another company in each run, so that some that always fail cannot block the others. A company
        that another dataset does not know is asked for alone, because a request that names it may be refused.
        """
        asks: deque[Ask] = deque()
        wanted: defaultdict[tuple[bool, bool, bool], list[Wanted]] = defaultdict(list)
        apart, unknown = shard.apart[dataset], list[Wanted]()
        if shard.unknown:
            shard.give_up_unknown(dataset)
        for company, track in shard.progress.pending(dataset).items():
            if track.is_given_up or not shard.may_ask(dataset, company):
                continue
            kind = company in apart, not track.is_refresh, shard.is_left_out(company, track)
            (unknown if company in shard.unknown else wanted[kind]).append(
                Wanted(company, 0 if track.wider else track.next_offset, track.remaining, track.expected)
            )
        others_left = any(not is_apart for is_apart, _, _ in wanted)
        for (is_apart, _, is_left_out), group in sorted(wanted.items()):  # refreshes first: see `Credits.end`
            if is_apart and others_left:
                break  # until these are answered: one of them may have to be the witness
            if is_apart:
                start = crc32(self._run.run_id.encode()) % len(group)
                group = group[start:] + group[:start]
            if tests := self._status.to_test(dataset, (one.company for one in group)):
                asks += self._ask_alone(dataset, (one for one in group if one.company in tests.values()))
                group = [one for one in group if one.company.country not in tests]
            witness = shard.witness(dataset) if is_left_out else None
            pages = accompany(self._api, plan_pages(self._api, dataset, group), witness)
            tries = 1 if is_apart else self._api.tries  # failed before: halved, not retried
            asks += [Ask(page, tries, is_witnessed=witness is not None) for page in pages]
        return asks or deque(self._ask_alone(dataset, unknown[:UNKNOWN_ASKED]))

    def _ask_alone(self, dataset: str, group: Iterable[Wanted]) -> list[Ask]:
        return [Ask(page, TRIES_ALONE) for one in group for page in plan_pages(self._api, dataset, [one])]

    # --- sending ---

    def _send_all(self, asks: deque[Ask], shard: Shard) -> None:
        """Send pages, a bounded number at once, and those that follow from their answers.

        Requests go one by one until their dataset is answered for the first time. A wrong token therefore costs one
        request, and a wrong setting about ten for a page of a hundred companies.
        """
        flying, done = 0, SimpleQueue[Future[Sent]]()
        try:
            while asks or flying:
                while asks and flying < self._most_at_once(asks[0].page.dataset):
                    if ask := shard.take(asks.popleft()):
                        self._pool.submit(self.send, ask, shard).add_done_callback(done.put)
                        flying += 1
                if flying:
                    ended, flying = done.get(), flying - 1
                    sent = ended.result()
                    shard.absorb(sent)
                    self._follow_up(sent, asks, shard)
        finally:
            for _ in range(flying):
                done.get()

    def _most_at_once(self, dataset: str) -> int:
        return 1 if self._credits.out or not self._status.works(dataset) else 2 * self._api.threads

    def send(self, ask: Ask, shard: Shard) -> Sent:
        """Send one page, from any thread; every answer lands before anything acts on it."""
        with self._in_turn if self._credits.is_tight else nullcontext():
            return self._send(ask, shard)

    def _send(self, ask: Ask, shard: Shard) -> Sent:
        page, credits = ask.page, self._credits
        base = shard.header(page)
        base = msgspec.structs.replace(base, is_free_refresh=shard.is_free_refresh(page, base.fetched_at))
        due, lapsed = shard.due(page, base.fetched_at), shard.lapsed(page, base.fetched_at)
        refusal = credits.end or credits.refusal(due, lapsed, is_fitted=ask.is_fitted)
        if ended := self._status.ended.get(page.dataset) or refusal:
            return Sent(ask, [], ended)
        request = requests.bulk(self._api, page.dataset, page.companies, page.limit, page.offset)
        is_apart = shard.is_apart(page)
        credits.expect(due)
        landed: list[Record] = []

        def land(answer: Answer) -> None:
            content = self._clean(answer.body)
            header = shard.writer.append(answered(base, answer), content)
            landed.append((header, content, None))
            credits.note(header, due, is_free=shard.is_free_refresh(page, header.fetched_at))
            _log_answer(header)
            self._on_answer(answer)

        def check(_: bytes) -> None:
            header, content = landed[-1][:2]  # as it landed, because a forgotten company is no longer in it
            elements = read_answer(page.dataset, content)
            check_credits(elements)
            if not is_apart:
                self._recognise(page, elements)
            landed[-1] = header, content, check_elements(elements)

        is_down = self._status.is_down and not self._status.works(page.dataset)
        tries = 1 if is_down else ask.tries
        try:
            is_patient = not (is_down or self._is_suspect(ask, shard))
            self._client.send(request, check, tries=tries, is_patient=is_patient, on_answer=land)
        except OutOfCreditsError as error:  # at once, so that no thread sends another such page
            credits.refused(error, due)
            return Sent(ask, landed, error)
        except _ABOUT_PAGE as error:
            return Sent(ask, landed, credits.explain(error, due))
        if ask.is_fitted:
            credits.spend(due)
        return Sent(ask, landed, None)

    def _recognise(self, page: Page, elements: list[Element]) -> None:
        """Raise UnusableAnswerError if an answer is about several other companies instead.

        If the next one is too, ServiceError: further requests would cost credits for nothing.
        """
        names = self._run.plan.names
        found = (
            each.company in page.companies and not says_unknown(names, each.company, each.message or "")
            for each in elements
        )
        is_found = any(found)  # in nearly all answers the first element is
        others = [] if is_found else [element for element in elements if element.company not in page.companies]
        was_misread, self._is_misread = self._is_misread, len(others) > 1
        if not self._is_misread:
            return
        what = others[0].problem or f"{others[0].company} was not asked for"
        message = f"The answer for {page.dataset} covers none of the {len(page.companies)} companies requested: {what}"
        if not was_misread:
            raise UnusableAnswerError(message)
        raise ServiceError(
            message, "Run `firmlake check LIST` to see how the service writes the identifiers of companies"
        )

    # --- what follows from an answer ---

    def _follow_up(self, sent: Sent, asks: deque[Ask], shard: Shard) -> None:
        """Plan the requests that follow from an answer, before or after those that are planned.

        A failed page is halved again and again, so one company that makes it fail is found in at most 2 log2(companies)
        requests. A page that failed by chance costs only two requests, because both halves are answered.
        """
        if isinstance(sent.error, OutOfCreditsError):
            asks.extendleft(_afford(sent, shard))
        elif isinstance(sent.error, ForbiddenError) and sent.landed:
            others = sum(1 for _ in takewhile(lambda ask: len(ask.page.companies) == 1, asks))
            for ask in _after_forbidden(sent, sent.error, shard):  # after the first company of each other country
                asks.insert(others, ask)
        elif sent.is_spoilt and sent.ask.page.dataset not in self._status.ended:
            self._find_reason(sent, asks, shard)

    def _find_reason(self, sent: Sent, asks: deque[Ask], shard: Shard) -> None:
        """Plan the parts of a page that failed, or give up its only company."""
        page, error, status = sent.ask.page, sent.error, self._status
        assert isinstance(error, ServiceError)
        is_outage = getattr(error, "is_outage", False)
        may_be_up = len(page.companies) == 1 or self._is_suspect(sent.ask, shard)
        if is_outage and may_be_up and status.works(page.dataset):
            if not self._is_up(sent, shard):
                if shard.is_apart(page):  # these companies failed before: another run asks for them
                    shard.give_up(page.dataset, page.companies, reason_of(error))
                elif page.dataset not in status.ended:
                    asks.append(sent.ask)  # the circuit breaker waits, and finally ends the dataset
                return
            if not sent.landed:  # it was not sent, because the service seemed to be down
                asks.appendleft(sent.ask)
                return
        witness = shard.witness(page.dataset)
        if sent.is_empty and witness and not sent.ask.is_witnessed:  # the service may leave out all these companies
            beside = sent.ask._replace(is_witnessed=True)
            asks.extendleft(beside._replace(page=each) for each in accompany(self._api, [page], witness))
        elif unknown := sent.unknown(self._api) if len(page.companies) > 1 else []:
            for company in unknown:
                shard.note_failed(sent.about(company))
            asks.appendleft(sent.about(*(one for one in page.companies if one not in unknown)).ask)
        elif len(page.companies) > 1:
            asks.extendleft(reversed(split(sent, status)))
        elif page.companies[0] != witness:
            shard.note_failed(sent)

    def _is_suspect(self, ask: Ask, shard: Shard) -> bool:
        """Return whether a page may fail because of its companies: they failed before, or a page with them did.

        It is not sent while the circuit breaker is open: a company that was answered shows whether the service is up.
        """
        is_part = ask.tries == 1 and len(ask.page.companies) > 1
        return shard.is_apart(ask.page) or (is_part and shard.witness(ask.page.dataset) is not None)

    def _is_up(self, failed: Sent, shard: Shard) -> bool:
        """Ask for a company that was answered, which is free, and return whether it is answered again.

        The request is not needed if another one was answered after this one failed.
        """
        page = failed.ask.page
        was_reached = not failed.landed or failed.landed[-1][0].status is not None
        if was_reached and not self._client.is_failing(page.dataset):
            return True
        witness = shard.witness(page.dataset)
        if witness is None:
            return False
        sent = self.send(Ask(page._replace(companies=(witness,), offset=page.offset and 0), 1), shard)
        shard.absorb(sent)
        return sent.error is None or isinstance(sent.error, ForbiddenError)


def _afford(sent: Sent, shard: Shard) -> list[Ask]:
    """Plan a smaller page that the remaining credits pay for, and what is left of the page for after it.

    Otherwise one missing credit would cost a page of 100 companies the other 99 answers.
    """
    page, count = sent.ask.page, shard.credits.affordable
    unpaid = [company for company in page.companies if not shard.progress.is_paid(company, shard.now())]
    parts = (unpaid[:count], unpaid[count:]) if count else ()
    pages = [page._replace(companies=tuple(part)) for part in parts if part]
    asks = [sent.ask._replace(page=each, is_fitted=each is pages[0]) for each in pages]
    return asks[::-1]  # the last is sent first


def _after_forbidden(sent: Sent, error: ForbiddenError, shard: Shard) -> list[Ask]:
    """Return the requests after a 403: a company alone of each country that the token may not ask about, then another.

    The next plan asks for the others of the page, without those that are forbidden by then. If every country was tested
    before, the page is halved.
    """
    page, status = sent.ask.page, shard.status
    companies: Iterable[Company] = page.companies
    if len(page.companies) == 1:
        counts = page.companies[0] not in shard.failed_before[page.dataset]
        status.refuse(page.dataset, page.companies[0], error, counts=counts)
        country = page.companies[0].country
        companies = (one for one in shard.progress.pending(page.dataset) if one.country == country)
    may_ask = (company for company in companies if not status.refusal(page.dataset, company))
    by_country = {company.country: company for company in may_ask}
    firsts = [company for company in by_country.values() if status.may_test(page.dataset, company)]
    tests = [Ask(page._replace(companies=(company,)), 1) for company in firsts]
    return tests if tests or len(page.companies) == 1 else split(sent, status)


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
