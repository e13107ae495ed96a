"""Fetch a shard: send requests and land answers until every company is answered or given up."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from queue import SimpleQueue

from firmlake.api.client import Answer, Client
from firmlake.core.clock import utc_now
from firmlake.core.memory import collecting_rarely
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.landing.again import ask_again
from firmlake.landing.charged import Account
from firmlake.landing.first import send_first
from firmlake.landing.pages import Wanted, accompany, plan_pages
from firmlake.landing.progress import Progress
from firmlake.landing.segments import SegmentWriter
from firmlake.landing.send import Sender
from firmlake.landing.sent import Ask, Sent
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Standing
from firmlake.privacy.persons import answer_filter

__all__ = ["Fetcher"]


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
        on_advice: Called with a sentence to show to the user if a setting should change before the next run.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        run: Run,
        on_answer: Callable[[Answer], object] = lambda answer: None,
        on_works: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = utc_now,
        on_advice: Callable[[str], object] = lambda advice: None,
    ) -> None:
        self._api = settings.api
        self._run = run
        self._now = now
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        self._standing = Standing(run, settings.api, on_works, on_advice)
        self._account = Account(run, settings)
        clean = answer_filter(settings.privacy, run.folders)
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
            ServiceError: The service is down. Run again later.
        """
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = Shard(self._run, number, writer, self._standing, self._account, self._now)
            self._recall(shard)
            try:
                while asks := self._plan(shard):
                    self._send_all(asks, shard)
            finally:
                shard.note_proofs()
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
        for header in [header for header in progress.headers if header.limits][-1:]:
            self._standing.keep_to(header)

    def _plan(self, shard: Shard) -> deque[Ask]:
        """Plan requests for the companies that are not hopeless."""
        asks: deque[Ask] = deque()
        limits = self._standing.limits
        for dataset in self._run.plan.datasets:
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
            for (_, is_apart, _, is_left_out), group in sorted(wanted.items()):  # refreshes first: see `Account.end`
                if is_apart and others_left:
                    continue  # until these are answered: one of them may have to be the witness
                tries = 1 if is_apart else limits.tries  # failed before: halved, not retried
                witness = shard.witness(dataset) if is_left_out else None
                asks += [Ask(page, tries) for page in accompany(limits, plan_pages(limits, dataset, group), witness)]
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

        def follow_up(sent: Sent) -> None:
            asks.extendleft(ask_again(sent, shard, send))

        try:
            while asks or flying:
                while asks and flying < 2 * self._api.threads:
                    page = asks[0].page
                    if self._standing.must_wait(shard.scope(page.dataset, page.companies[0])):
                        for sent in send_first(asks, shard, send):
                            follow_up(sent)
                        break  # the result decides how to continue
                    self._pool.submit(self._sender.send, asks.popleft(), shard).add_done_callback(done.put)
                    flying += 1
                if flying:
                    ended, flying = done.get(), flying - 1
                    follow_up(absorb(ended.result()))
        finally:
            for _ in range(flying):
                done.get()
