"""Fetch a shard: send requests and land answers until every company is answered or given up."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from zlib import crc32

import msgspec

from firmlake.api.client import Answer, Client
from firmlake.api.service import is_stamped
from firmlake.core.company import Company
from firmlake.core.errors import (
    ForbiddenError,
    RequestFailedError,
    RequestRefusedError,
)
from firmlake.core.memory import collecting_rarely
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.landing.again import ask_again
from firmlake.landing.asked import Scope, count_asked
from firmlake.landing.narrow import (
    Ask,
    Sent,
    find_limits,
    find_reason,
    is_empty,
    is_no_such_place,
    is_nobodys_fault,
    is_size,
    lower_limits,
    misfit,
    names_unknown,
    size_of,
)
from firmlake.landing.pages import Wanted, accompany, plan_pages
from firmlake.landing.segments import Header, SegmentWriter
from firmlake.landing.send import Sender
from firmlake.landing.shard import Shard, ShardResult, open_shard
from firmlake.landing.standing import Standing
from firmlake.landing.track import MISSES_MAX
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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_advice: Callable[[str], object] = lambda advice: None,
    ) -> None:
        self._settings = settings
        self._on_advice = on_advice
        self._limits = settings.api
        self._run = run
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        is_understood = is_stamped(run.folders)
        self._standing = Standing(run.plan.datasets, count_asked(run), on_works, is_understood=is_understood)
        clean = answer_filter(settings.privacy, run.folders)
        self._sender = Sender(client, settings, run, self._standing, on_answer, clean, now)

    def close(self) -> None:
        """Wait for the requests in flight and start no others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @collecting_rarely()
    def fetch_shard(self, number: int) -> ShardResult:
        """Fetch everything that a shard still lacks.

        When the credits run out, the remaining credits are spent first. Companies that are already paid for are still
        requested.

        Raises:
            Stopped: A budget or the credits ran out, or the service asked for a long pause. Landed answers are kept.
            AuthorizationError: The token is refused, or every dataset is forbidden.
            RequestRefusedError: The service refuses the first request, whichever companies it names. Correct the
                settings.
            ServiceError: The service is down. Run again later.
        """
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = open_shard(self._run, number, writer)
            progress = shard.progress
            # Answers that landed before a crash also prove that the settings fit the service; see `Sender._recognise`.
            unproven = ("not_found",) if progress.foreign else ()
            for dataset, tracks in progress.datasets.items():
                said = (one for one, track in tracks.items() if track.answered_at and track.status not in unproven)
                if scopes := {shard.scope(dataset, company) for company in said}:
                    self._standing.answered(dataset, scopes)
            for header in [header for header in progress.headers if header.limits][-1:]:
                self._keep_to(header)
            try:
                while asks := self._plan(shard):
                    with closing(self._send_all(asks, shard)) as results:
                        for sent in results:
                            shard.absorb(sent.landed)
                            asks.extendleft(ask_again(self._limits, sent, shard, self._standing, self._sender))
            finally:
                self._sender.note_proofs(shard)
            self._standing.check()
            self._sender.give_up_refused(shard)
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
            apart, refreshed = shard.apart[dataset], shard.refreshed[dataset]
            for company, track in shard.progress.pending(dataset).items():
                scope = shard.scope(dataset, company)
                if self._standing.refusal(scope, company):
                    continue
                is_left_out = track.left_out > 0 and not shard.is_known(company)
                if track.is_given_up:
                    kind = "unknown" if is_left_out and track.left_out >= MISSES_MAX else "given_up"
                    hopeless[kind, track.reason].append(company)
                elif self._may_ask(shard, company):
                    barred = scope.country * scope.was_barred  # in pages of their own, after all others
                    wanted[barred, company in apart, company not in refreshed, is_left_out].append(
                        Wanted(company, 0 if track.wider else track.next_offset, track.remaining, track.expected)
                    )
            for (kind, reason), companies in hopeless.items():
                if kind == "unknown" and shard.doubts_silence(dataset):
                    kind = "given_up"
                self._sender.give_up(dataset, companies, reason, shard, kind)
            for (_, is_apart, _, is_left_out), group in sorted(wanted.items()):  # refreshes first: `Sender.charged`
                tries = 1 if is_apart else self._settings.api.tries  # failed before: halved, not retried
                witness = shard.witness(dataset, self._standing.refusal) if is_left_out else None
                pages = plan_pages(self._limits, dataset, group)
                asks += [Ask(page, tries) for page in accompany(self._limits, pages, witness)]
        return asks

    def _may_ask(self, shard: Shard, company: Company) -> bool:
        if self._sender.charged:
            return False
        if not self._sender.out_of_credits:
            return True
        return company not in shard.unpaid and shard.progress.is_paid(company)

    def _send_all(self, asks: deque[Ask], shard: Shard) -> Generator[Sent, None, None]:
        """Send pages, a bounded number at once, and yield each result as soon as it is complete.

        Requests go one by one until their dataset is answered for the first time, and again for companies that were
        given up before. A wrong token therefore costs one request, and a wrong setting about ten for a page of a
        hundred companies.

        Args:
            asks: Pages to send; the caller may add more during iteration.
            shard: The shard of the pages.
        """
        flying, done = 0, SimpleQueue[Future[Sent]]()
        try:
            while asks or flying:
                while asks and flying < 2 * self._settings.api.threads:
                    if self._standing.must_wait(_first_scope(asks, shard)):
                        yield from self._send_first(asks, shard)
                        break  # the result decides how to continue
                    self._pool.submit(self._sender.send, asks.popleft(), shard).add_done_callback(done.put)
                    flying += 1
                if flying:
                    ended, flying = done.get(), flying - 1
                    yield ended.result()
        finally:
            for _ in range(flying):
                done.get()

    def _send_first(self, asks: deque[Ask], shard: Shard) -> list[Sent]:
        """Send the next page of a dataset that has not been answered yet.

        If the page fails, smaller and smaller parts of it are sent to find the reason:

        - Some companies make it fail: only these are given up.
        - Every part fails: the dataset is given up. If the service refuses every request of the run, the run ends;
          after a 404, only once the other datasets have failed too.
        - The page was too large: the rest of the run is planned with smaller pages.
        - Every answer is empty and the companies are new: these companies fail.
        """
        standing, scope = self._standing, _first_scope(asks, shard)
        if probe := standing.take_probe(scope):
            return [self._probe(asks, probe[0], shard)]
        ask = asks.popleft()
        first = self._sender.send(ask, shard)
        if not first.is_spoilt or shard.is_apart(ask.page):
            return [first]
        send = partial(self._sender.send, shard=shard)
        divided, parts = find_reason(first, send)
        if any(names_unknown(self._settings.api, each) for each in parts):
            standing.answered(scope.dataset, [])  # the endpoint exists, because its message is about a company
            return [*divided, *parts]
        if is_size(first, parts):
            asks.clear()
            # Recorded at once in case the run is killed before it finds the exact limits.
            self._sender.note_limits(ask.page, size_of(parts[0].ask.page), shard)
            sent, limits = find_limits(self._limits, first, parts[0], send)
            self._keep_to(self._sender.note_limits(ask.page, limits, shard))
            return [*divided, *parts, *sent]
        if is_nobodys_fault(parts):
            assert first.error
            is_earlier = standing.is_understood and not standing.has_worked  # only earlier runs were answered
            if is_earlier and all(map(is_empty, parts)) and shard.give_up_new(ask.page):
                return [part._replace(error=None) for part in (*divided, *parts)]
            if isinstance(first.error, RequestRefusedError) and not standing.has_worked:
                standing.misfit = misfit(first)
                if not is_no_such_place(first):
                    raise standing.misfit
            return [*divided, *(self._sender.end(scope.dataset, each, first.error) for each in parts)]
        return [*divided, *parts]

    def _keep_to(self, header: Header) -> None:
        """Plan the rest of the run within the limits of a header of kind `LIMITS`, and advise the user to set them."""
        if limits := lower_limits(self._limits, header):
            self._limits = msgspec.structs.replace(self._limits, **limits)
            advised = " and ".join(f"api.{key} = {most}" for key, most in limits.items())
            self._on_advice(f"{header.error}, so the run continued with smaller requests. Set {advised}")

    def _probe(self, asks: deque[Ask], tries: int | None, shard: Shard) -> Sent:
        """Ask for one company of the next page, to see whether its dataset or country is available again."""
        page = asks[0].page
        # Each run picks another company, so that one that always fails cannot block the others.
        company = page.companies[crc32(self._run.run_id.encode()) % len(page.companies)]
        probe = Ask(page._replace(companies=(company,)), tries or self._settings.api.tries)
        sent = self._sender.send(probe, shard, is_patient=False)
        is_forbidden = isinstance(sent.error, ForbiddenError)
        is_down = isinstance(sent.error, RequestFailedError) or (tries and isinstance(sent.error, RequestRefusedError))
        if sent.error and is_down and not self._standing.works(page.dataset):
            return self._sender.end(page.dataset, sent, sent.error)
        if sent.error is None or is_forbidden:
            ask = asks.popleft()
            if rest := tuple(other for other in page.companies if other != company):
                asks.appendleft(ask._replace(page=page._replace(companies=rest)))
        if is_forbidden:
            return sent
        self._standing.open([shard.scope(page.dataset, company)])
        return sent._replace(error=None)


def _first_scope(asks: deque[Ask], shard: Shard) -> Scope:
    page = asks[0].page
    return shard.scope(page.dataset, page.companies[0])
