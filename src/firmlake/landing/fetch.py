"""Fetch a shard: send, land, find what is still missing, until every company is answered or given up."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from queue import SimpleQueue
from zlib import crc32

import msgspec

from firmlake.api.client import Answer, Client
from firmlake.core.company import Company
from firmlake.core.errors import (
    ForbiddenError,
    OutOfCreditsError,
    RequestFailedError,
    RequestRefusedError,
    ServiceError,
)
from firmlake.core.memory import collecting_rarely
from firmlake.core.run import REDRIVE, Run
from firmlake.core.settings import Settings
from firmlake.landing.asked import count_asked
from firmlake.landing.forbidden import Forbidden
from firmlake.landing.narrow import (
    Ask,
    Sent,
    find_reason,
    halve,
    is_empty,
    is_no_such_place,
    is_nobodys_fault,
    is_size,
    misfit,
    names_unknown,
)
from firmlake.landing.pages import Wanted, accompany, plan_pages
from firmlake.landing.segments import SegmentWriter
from firmlake.landing.send import Sender
from firmlake.landing.shard import Shard, ShardResult, open_shard
from firmlake.landing.standing import Standing
from firmlake.landing.track import MISSES_MAX
from firmlake.privacy.persons import answer_filter

__all__ = ["Fetcher", "ShardResult"]


class Fetcher:
    """Fetches the shards of one run through one client, one after the other.

    If the service forbids a dataset or does not answer it, the dataset is given up for this run; others are fetched.

    Args:
        client: Client of the service.
        settings: Limits and budgets.
        run: The run.
        on_answer: Called from any thread after each answer has landed.
        on_works: Called once, at the first usable answer.
        now: Returns the current time in UTC.
        on_advice: Called with a sentence for people if settings should be changed before the next run.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        run: Run,
        on_answer: Callable[[Answer], object] = lambda answer: None,
        on_works: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_advice: Callable[[str], object] = lambda advice: None,
    ) -> None:
        self._settings = settings
        self._on_advice = on_advice
        self._limits = settings.api
        self._run = run
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        is_redrive = run.plan.list_name == REDRIVE
        company_count = 0 if is_redrive else run.plan.company_count
        self._standing = Standing(run.plan.datasets, count_asked(run), on_works, company_count)
        clean = answer_filter(settings.privacy, run.folders)
        self._sender = Sender(client, settings, run, self._standing, on_answer, clean, now)
        self._forbidden = Forbidden(self._standing, self._sender, is_redrive=is_redrive)

    def close(self) -> None:
        """Wait for the requests in flight and start no others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @collecting_rarely()
    def fetch_shard(self, number: int) -> ShardResult:
        """Fetch everything that a shard still lacks.

        When the credits run out, as many companies are asked for as credits are left for, and companies that are
        already paid for.

        Raises:
            Stopped: A budget or the credits ran out, or the service asked for a long pause. Landed answers are kept.
            AuthorizationError: The token is refused, or every dataset is forbidden.
            RequestRefusedError: The service refuses the first request whatever its companies. Correct the settings.
            ServiceError: The service is down. Run again later.
        """
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = open_shard(self._run, number, writer)
            progress = shard.progress
            # Answers that landed before a crash also prove that the settings fit the service.
            for dataset, tracks in progress.datasets.items():
                said = (one for one, track in tracks.items() if track.first_at or track.status == "not_found")
                if countries := {company.country for company in said}:
                    self._standing.answered(dataset, countries)
            try:
                while asks := self._plan(shard):
                    for sent in self._send_all(asks, shard):
                        for header, body, elements in sent.landed:
                            progress.absorb(header, body, elements)
                        asks.extendleft(self._narrow(sent, shard))
            finally:
                self._sender.note_proofs(shard)
            self._standing.check()
            self._sender.give_up_ended(shard)
        statuses = [track.status for _, _, track in progress.tracks()]
        if self._sender.charged:
            raise self._sender.charged
        if self._sender.out_of_credits and "pending" in statuses:
            raise self._sender.out_of_credits
        progress.follow(writer.headers)
        return ShardResult(progress, *(statuses.count(name) for name in ShardResult._fields[1:]))

    def _plan(self, shard: Shard) -> deque[Ask]:
        """Give up hopeless companies, and plan requests for the rest."""
        asks: deque[Ask] = deque()
        for dataset in self._run.plan.datasets:
            if dataset in self._standing.ended:
                continue
            hopeless: defaultdict[tuple[str, str], list[Company]] = defaultdict(list)
            wanted: defaultdict[tuple[str, bool, bool, bool], list[Wanted]] = defaultdict(list)
            apart, refreshed, barred = shard.apart[dataset], shard.refreshed[dataset], shard.barred[dataset]
            for company, track in shard.progress.pending(dataset).items():
                if self._standing.refusal(dataset, [company]):
                    continue
                is_left_out = track.left_out > 0 and not shard.is_known(company)
                if track.is_given_up:
                    kind = "unknown" if is_left_out and track.left_out >= MISSES_MAX else "given_up"
                    hopeless[kind, track.reason].append(company)
                elif self._may_ask(shard, company):
                    is_barred = company in barred or self._standing.is_barred(dataset, company.country)
                    country = company.country * is_barred  # pages of their own, after all others
                    wanted[country, company in apart, company not in refreshed, is_left_out].append(
                        Wanted(company, 0 if track.wider else track.next_offset, track.remaining, track.expected)
                    )
            for (kind, reason), companies in hopeless.items():
                if kind == "unknown" and shard.doubts_silence(dataset):
                    kind = "given_up"
                self._sender.give_up(dataset, companies, reason, shard, kind)
            for (_, is_apart, _, is_left_out), group in sorted(wanted.items()):  # refreshes first: `Sender.charged`
                tries = 1 if is_apart else self._settings.api.tries  # failed before: halved, not retried
                witness = shard.witness(dataset) if is_left_out else None
                pages = plan_pages(self._limits, dataset, group)
                asks += [Ask(page, tries) for page in accompany(self._limits, pages, witness)]
        return asks

    def _may_ask(self, shard: Shard, company: Company) -> bool:
        if self._sender.charged:
            return False
        if not self._sender.out_of_credits:
            return True
        return company not in shard.unpaid and shard.is_paid(company, self._run.plan.datasets)

    def _send_all(self, asks: deque[Ask], shard: Shard) -> Iterator[Sent]:
        """Send pages, a bounded number at once, and yield each result as soon as it is complete.

        Until a dataset is answered for the first time, its requests go one by one. So a wrong token costs one request,
        and a wrong setting about ten for a page of a hundred companies.

        Args:
            asks: Pages to send; the caller may add more during iteration.
            shard: The shard of the pages.
        """
        flying, done = 0, SimpleQueue[Future[Sent]]()
        try:
            while asks or flying:
                while asks and flying < 2 * self._settings.api.threads:
                    page = asks[0].page
                    if self._standing.must_wait(page.dataset, page.companies[0].country):
                        for sent in self._send_first(asks, shard):
                            yield from self._forbidden.explain(sent, shard)
                        break  # the result decides how to continue
                    self._pool.submit(self._sender.send, asks.popleft(), shard).add_done_callback(done.put)
                    flying += 1
                if flying:
                    ended, flying = done.get(), flying - 1
                    yield from self._forbidden.explain(ended.result(), shard)
        finally:
            for _ in range(flying):
                done.get()

    def _send_first(self, asks: deque[Ask], shard: Shard) -> list[Sent]:
        """Send the next page of a dataset that has not been answered yet.

        If companies may be the reason for a failure, smaller and smaller parts of the page are sent to find out. If no
        company is to blame, the dataset is given up. If, moreover, nothing was ever answered and the service refuses
        everything, the run ends; after a 404, only if no other dataset is answered either. If the page was too large,
        the run goes on with smaller ones.
        """
        standing, dataset = self._standing, asks[0].page.dataset
        if probe := standing.take_probe(dataset, asks[0].page.companies[0].country):
            return [self._probe(asks, probe[0], shard)]
        ask = asks.popleft()
        first = self._sender.send(ask, shard)
        if not first.is_spoilt or shard.is_apart(ask.page):
            return [first]
        has_worked = standing.has_worked
        divided, parts = find_reason(first, lambda part: self._sender.send(part, shard))
        if any(names_unknown(self._settings.api, part) for part in parts):
            standing.answered(dataset, [])  # the endpoint is there: it speaks of a company
            return [*divided, *parts]
        is_refused = isinstance(first.error, RequestRefusedError)
        if is_size(first, parts):
            self._ask_for_less(asks, first, parts[0])
        if is_refused and not has_worked and is_nobodys_fault(parts):
            standing.misfit = misfit(first)
            if not is_no_such_place(first):
                raise standing.misfit
        if is_nobodys_fault(parts):
            assert first.error
            return [*divided, *(self._sender.end(dataset, part, first.error) for part in parts)]
        return [*divided, *parts]

    def _ask_for_less(self, asks: deque[Ask], refused: Sent, answered: Sent) -> None:
        """Drop all planned pages and plan the rest of the run no larger than a page that was answered."""
        page = answered.ask.page
        fitting = {"companies_per_request": len(page.companies)}
        if page.limit:
            fitting["records_per_request"] = len(page.companies) * page.limit
        self._limits = msgspec.structs.replace(self._limits, **fitting)
        asks.clear()
        advised = " and ".join(f"api.{key} = {value}" for key, value in fitting.items())
        self._on_advice(
            f"The service refused {len(refused.ask.page.companies)} companies in one request for {page.dataset}, "
            f"and the run went on with {len(page.companies)}: set {advised}"
        )

    def _probe(self, asks: deque[Ask], tries: int | None, shard: Shard) -> Sent:
        """Ask for one company of the next page, to see whether its dataset is available again."""
        page = asks[0].page
        fine = [company for company in page.companies if company not in shard.barred[page.dataset]]
        # The choice varies from run to run, so that a company that always fails cannot block the dataset.
        company = (fine or page.companies)[crc32(self._run.run_id.encode()) % len(fine or page.companies)]
        probe = Ask(page._replace(companies=(company,)), tries or self._settings.api.tries)
        sent = self._sender.send(probe, shard, is_patient=False)
        is_failure = isinstance(sent.error, RequestFailedError) or (
            tries and isinstance(sent.error, RequestRefusedError)
        )
        if is_failure and sent.error and not self._standing.works(page.dataset):
            return self._sender.end(page.dataset, sent, sent.error)
        if isinstance(sent.error, ForbiddenError):
            return sent
        if sent.error is None:
            ask = asks.popleft()
            rest = tuple(other for other in page.companies if other != company)
            if rest:
                asks.appendleft(ask._replace(page=page._replace(companies=rest)))
        return sent._replace(error=None)

    def _narrow(self, sent: Sent, shard: Shard) -> list[Ask]:
        """Halve a failed request to find the companies that make it fail, in at most 2 log2(companies) requests.

        A request that failed by chance costs only the two halves, because both are answered.
        """
        page, error = sent.ask.page, sent.error
        if isinstance(error, OutOfCreditsError):
            return self._sender.afford(sent, shard)
        if isinstance(error, ForbiddenError):
            return self._forbidden.leave_out(sent, shard)
        if not sent.is_spoilt or page.dataset in self._standing.ended:
            return []
        assert isinstance(error, ServiceError)
        is_outage, is_apart = getattr(error, "is_outage", False), shard.is_apart(page)
        if is_apart and is_outage:
            # It failed before and nothing is answered now: what it may be worth is for another run to see.
            self._sender.give_up(page.dataset, page.companies, error.message, shard)
            return []
        wanted = page._replace(companies=shard.unanswered(page))
        if is_empty(sent) and wanted == page:  # all may be left out
            beside = list(accompany(self._limits, [page], shard.witness(page.dataset)))
            if beside != [page]:
                return [Ask(each, sent.ask.tries) for each in beside]
        if len(wanted.companies) > 1:
            return halve(wanted)
        if is_outage:
            return [sent.ask]  # nobody is to blame; the circuit breaker waits, and at last ends the dataset
        kind = "unknown" if names_unknown(self._settings.api, sent) else "given_up"
        self._sender.give_up(page.dataset, wanted.companies, error.message, shard, kind)
        return []
