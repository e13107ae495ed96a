"""Fetch a shard: send requests and land answers until every company is answered or given up.

What follows from an answer about a page:

    answered       nothing; the next plan asks for records that are missing
    402            a smaller page, as large as the credits that are left
    403            one or two companies of each country alone, then the page without those that are forbidden; its
                   halves if none is, as after a failure
    other failure  its halves; a company that fails alone is given up

So companies that make a page fail cost no others their answer. A token is usually limited by country, so a 403 is first
put down to that. As long as a dataset has never been answered, its requests go one by one, and it is given up after
three of its companies have failed alone: then the settings or the service are the reason.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from queue import SimpleQueue
from zlib import crc32

from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.core.company import Company
from firmlake.core.errors import (
    CountryRefusedError,
    ForbiddenError,
    OutOfCreditsError,
    RequestFailedError,
    ServiceError,
    make_reason,
    reason_of,
)
from firmlake.core.process import collecting_rarely
from firmlake.core.settings import Settings
from firmlake.core.work import utc_now
from firmlake.landing.charged import Account
from firmlake.landing.pages import Page, Wanted, accompany, plan_pages
from firmlake.landing.progress import Progress
from firmlake.landing.run import Run
from firmlake.landing.segments import SegmentWriter
from firmlake.landing.shard import Ask, Sender, Sent, Shard, halve
from firmlake.landing.standing import Scope, Standing
from firmlake.privacy.persons import answer_filter


class Fetcher:
    """Fetches the shards of one run through one client, one after the other.

    A dataset that the service forbids or does not answer is given up for this run; the other datasets are still
    fetched. Companies that the token may not ask about are given up too.

    Args:
        client: Client of the service.
        settings: Limits and budgets.
        run: The run.
        on_answer: Called from any thread after each answer has landed.
        on_works: Called once, at the first usable answer.
        now: Returns the current time in UTC.
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
        self._api = settings.api
        self._run = run
        self._now = now
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        self._standing = Standing(run, settings.api, on_works, looks_closer=looks_closer)
        self._account = Account(run, settings)
        clean = answer_filter(settings.privacy, run.folders, settings.contract)
        self._sender = Sender(client, settings.api, on_answer, clean)

    def close(self) -> None:
        """Wait for the requests in flight and start no others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @collecting_rarely()
    def fetch_shard(self, number: int) -> Progress:
        """Fetch everything that a shard still lacks.

        When the credits run out, the remaining credits are spent first. Companies that are already paid for are still
        requested.

        Returns:
            The shard's progress with all its records, so that staging need not read them back.

        Raises:
            Stopped: A budget or the credits ran out, or the service asked for a long pause. Landed answers are kept.
            AuthorizationError: The token is refused, or every dataset is forbidden.
            RequestRefusedError: The service refuses the first request, whichever companies it names. Correct the
                settings.
            ServiceError: The service is down: run again later. Or it answers otherwise than the settings say, twice in
                a row: look again with `firmlake check`.
        """
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = Shard(self._run, number, writer, self._standing, self._account, self._now)
            self._recall(shard)
            for dataset in self._run.plan.datasets:
                while asks := self._plan(shard, dataset):
                    self._send_all(asks, shard)
            self._standing.check()
            shard.give_up_pending()
        if self._account.end:
            raise self._account.end
        if self._account.out and shard.progress.counts["pending"]:
            raise self._account.out
        shard.progress.follow(writer.headers)
        return shard.progress

    def _recall(self, shard: Shard) -> None:
        """Learn from the answers that landed before a crash: they too prove that the settings fit the service."""
        progress = shard.progress
        unproven = ("not_found",) if progress.foreign else ()  # see `Sender._recognise`
        for dataset, tracks in progress.datasets.items():
            said = (one for one, track in tracks.items() if track.answered_at and track.status not in unproven)
            if scopes := {shard.scope(dataset, company) for company in said}:
                self._standing.answered(dataset, scopes)

    def _plan(self, shard: Shard, dataset: str) -> deque[Ask]:
        """Plan requests for the companies that are not hopeless.

        One company goes first if the dataset or the companies were given up before: see `Standing.probe_tries`. Each
        run picks another one, so that one that always fails cannot block the others.
        """
        asks: deque[Ask] = deque()
        limits = self._api
        wanted: defaultdict[tuple[str, bool, bool, bool], list[Wanted]] = defaultdict(list)
        apart, refreshed, barred = shard.apart[dataset], shard.refreshed[dataset], shard.barred[dataset]
        for company, track in shard.progress.pending(dataset).items():
            if track.is_given_up or not shard.may_ask(dataset, company):
                continue
            country = company.country if company in barred else ""  # in pages of their own, after all others
            is_left_out = shard.is_left_out(company, track)
            wanted[country, company in apart, company not in refreshed, is_left_out].append(
                Wanted(company, 0 if track.wider else track.next_offset, track.remaining, track.expected)
            )
        others_left = any(not is_apart for _, is_apart, _, _ in wanted)
        for (country, is_apart, _, is_left_out), group in sorted(wanted.items()):  # refreshes first: see `Account.end`
            if is_apart and others_left:
                continue  # until these are answered: one of them may have to be the witness
            pages = plan_pages(limits, dataset, group)
            if tries := self._standing.probe_tries(shard.scope(dataset, group[0].company)):
                picked = pages[0].companies[crc32(self._run.run_id.encode()) % len(pages[0].companies)]
                asks.append(Ask(pages[0]._replace(companies=(picked,)), tries, is_patient=False))
                if not country:
                    break  # until it is known whether the dataset is available
                continue
            tries = 1 if is_apart else limits.tries  # failed before: halved, not retried
            witness = shard.witness(dataset) if is_left_out else None
            asks += [Ask(page, tries) for page in accompany(limits, pages, witness)]
        return asks

    def _send_all(self, asks: deque[Ask], shard: Shard) -> None:
        """Send pages, a bounded number at once, and those that follow from their answers.

        Requests go one by one until their dataset is answered for the first time, and again for companies that were
        given up before. A wrong token therefore costs one request, and a wrong setting about ten for a page of a
        hundred companies.
        """
        flying, done = 0, SimpleQueue[Future[Sent]]()

        def send(ask: Ask) -> Sent:
            return absorb(self._sender.send(ask, shard))

        def absorb(sent: Sent) -> Sent:
            shard.absorb(sent)
            return sent

        try:
            while asks or flying:
                while asks and flying < self._most_at_once(asks[0].page, shard):
                    self._pool.submit(self._sender.send, asks.popleft(), shard).add_done_callback(done.put)
                    flying += 1
                ended, flying = done.get(), flying - 1
                follow_up(absorb(ended.result()), asks, shard, send)
        finally:
            for _ in range(flying):
                done.get()

    def _most_at_once(self, page: Page, shard: Shard) -> int:
        goes_alone = self._standing.must_wait(shard.scope(page.dataset, page.companies[0]))
        return 1 if shard.account.out or goes_alone else 2 * self._api.threads


Send = Callable[[Ask], Sent]
"""Sends a request whose answer decides how to continue, and absorbs it."""


def follow_up(sent: Sent, asks: deque[Ask], shard: Shard, send: Send) -> None:
    """Plan the requests that follow from an answer, before or after those that are planned.

    A failed page is halved again and again, so one company that makes it fail is found in at most 2 log2(companies)
    requests. A page that failed by chance costs only two requests, because both halves are answered.

    Args:
        sent: The page, whose answers the shard has absorbed.
        asks: The requests that are planned, the next one first.
        shard: The shard of the page.
        send: Sends a request for a single company.
    """
    page, error, standing = sent.ask.page, sent.error, shard.standing
    if not sent.ask.is_patient and _ends_or_opens(sent, shard):
        return
    if isinstance(error, OutOfCreditsError):
        asks.extendleft(_afford(sent, shard))
    elif isinstance(error, ForbiddenError):
        asks.extendleft(_leave_out_forbidden(sent, error, shard, send))
    elif isinstance(error, CountryRefusedError):  # so the page was not sent
        others = tuple(one for one in shard.unanswered(page) if not shard.refusal(page.dataset, one))
        asks.extendleft([sent.ask._replace(page=page._replace(companies=others))] if others else [])
    elif sent.is_spoilt and page.dataset not in standing.ended:
        _find_reason(sent, asks, shard, send)


def _find_reason(sent: Sent, asks: deque[Ask], shard: Shard, send: Send) -> None:
    """Plan the parts of a page that failed, or give up its only company."""
    page, error, standing = sent.ask.page, sent.error, shard.standing
    assert isinstance(error, ServiceError)
    is_outage = getattr(error, "is_outage", False)
    if is_outage and (shard.is_apart(page) or len(page.companies) == 1) and standing.works(page.dataset):
        if not _is_up(page, shard, send):
            if shard.is_apart(page):  # these companies failed before: another run asks for them
                shard.give_up(page.dataset, page.companies, reason_of(error))
            elif page.dataset not in standing.ended:
                asks.append(sent.ask)  # the circuit breaker waits, and finally ends the dataset
            return
        if not sent.landed:  # it was not sent, because the service seemed to be down
            asks.appendleft(sent.ask)
            return
    wanted = page._replace(companies=shard.unanswered(page))
    if sent.is_empty and wanted == page:  # the service may leave out all these companies
        beside = list(accompany(standing.api, [page], shard.witness(page.dataset)))
        if beside != [page]:
            asks.extendleft(Ask(each, sent.ask.tries) for each in beside)
            return
        if shard.awaits_witness(page):
            return  # planned again once the witness is there
    if len(wanted.companies) > 1:
        asks.extendleft(reversed(halve(sent._replace(ask=sent.ask._replace(page=wanted)))))
        return
    shard.note_failed(sent._replace(ask=sent.ask._replace(page=wanted)))


def _is_up(page: Page, shard: Shard, send: Send) -> bool:
    """Return whether the service answers again for a company that it has answered, which is free."""
    witness = shard.witness(page.dataset)
    if witness is None:
        return False
    error = send(Ask(page._replace(companies=(witness,), offset=page.offset and 0), 1)).error
    return error is None or isinstance(error, ForbiddenError)


def _ends_or_opens(sent: Sent, shard: Shard) -> bool:
    """Learn from one company whether its dataset or country is available again (see `Fetcher._plan`); False if not."""
    dataset, standing = sent.ask.page.dataset, shard.standing
    scope = shard.scope(dataset, sent.ask.page.companies[0])
    is_brief = scope.was_barred or not standing.has_worked
    is_down = isinstance(sent.error, RequestFailedError) or (is_brief and sent.is_refused)
    if sent.error and is_down and not standing.works(dataset):
        standing.end(dataset, sent.error)
    elif isinstance(sent.error, ForbiddenError):
        return False
    else:
        standing.open([scope])
    return True


def _afford(sent: Sent, shard: Shard) -> list[Ask]:
    """Plan a smaller page that the remaining credits pay for, and what is left of the page for after it.

    Otherwise one missing credit would cost a page of 100 companies the other 99 answers.
    """
    page, count = sent.ask.page, shard.account.affordable
    unpaid = [company for company in page.companies if not shard.progress.is_paid(company, shard.now())]
    parts = (unpaid[:count], unpaid[count:]) if count else ()
    pages = [page._replace(companies=tuple(part)) for part in parts if part]
    asks = [sent.ask._replace(page=each, is_fitted=each is pages[0]) for each in pages]
    return asks[::-1]  # the last is sent first


def _leave_out_forbidden(sent: Sent, error: ForbiddenError, shard: Shard, send: Callable[[Ask], Sent]) -> list[Ask]:
    """Return the requests after a 403: the page without its forbidden companies, or its halves if none was found."""
    page = sent.ask.page
    tracks = shard.progress.datasets[page.dataset]
    before = {company: tracks[company].next_offset for company in page.companies}
    if sent.landed:  # otherwise the page was not sent, because it is known to be forbidden
        if len(shard.unanswered(page)) < len(page.companies):
            # The page had a witness. Its companies get an empty answer without one and a refusal with one: count a
            # miss, so that this ends.
            for company in page.companies:
                tracks[company].miss(make_reason("left_out"))
        if len(page.companies) == 1:
            shard.standing.refuse(shard.scope(page.dataset, page.companies[0]), page.companies[0], error)
        else:
            _sample(page, shard, send)
    wanted = tuple(
        company
        for company in page.companies
        if tracks[company].status == "pending"
        and tracks[company].next_offset == before[company]  # not answered alone
        and not tracks[company].is_given_up
        and not shard.refusal(page.dataset, company)
    )
    if len(wanted) == len(page.companies):
        return halve(sent)
    return [sent.ask._replace(page=page._replace(companies=wanted))] if wanted else []


def _sample(page: Page, shard: Shard, send: Callable[[Ask], Sent]) -> None:
    """Request companies alone until each country in a page is known to be forbidden or not.

    If the dataset was never answered and the first company of each of several countries is refused, all these countries
    are forbidden. Otherwise it takes two companies of a country.
    """
    standing = shard.standing

    def ask_alone(scope: Scope, company: Company) -> ForbiddenError | None:
        """Request one company; return the error if it is forbidden."""
        sent = send(Ask(page._replace(companies=(company,)), 1))
        if not isinstance(sent.error, ForbiddenError):
            return None
        standing.refuse(scope, company, sent.error)
        return sent.error

    unknown: defaultdict[Scope, list[Company]] = defaultdict(list)
    for company in page.companies:
        scope = shard.scope(page.dataset, company)
        if not standing.is_known(scope):
            unknown[scope].append(company)
    refused = {scope: error for scope, of in unknown.items() if (error := ask_alone(scope, of[0]))}
    if len(refused) == len(unknown) > 1 and not standing.works(page.dataset):
        for scope, error in refused.items():
            standing.close(scope, error)
    for scope in refused:
        if len(unknown[scope]) > 1 and not standing.is_known(scope):
            ask_alone(scope, unknown[scope][-1])
