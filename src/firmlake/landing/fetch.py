"""Fetching a shard: ask, land, look what is still missing, until every company is answered or given up."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import polars as pl

from firmlake.api import requests
from firmlake.api.answers import Element
from firmlake.api.client import Answer, Client
from firmlake.core.company import Company
from firmlake.core.errors import OutOfCreditsError, RequestFailedError, RequestRefusedError, ServiceError
from firmlake.core.log import log
from firmlake.core.memory import collecting_rarely
from firmlake.core.run import Run
from firmlake.core.settings import Settings
from firmlake.landing.pages import Page, Wanted, plan_pages
from firmlake.landing.progress import Progress, Track, check_answer
from firmlake.landing.segments import Header, Landed, SegmentWriter, answered, list_segments, read_segment

__all__ = ["Fetcher", "ShardResult", "load_progress", "read_landed"]
_TRIES_ALONE = 2
"""Before a company is given up it is asked for alone, twice: one failure may be the service's."""


class ShardResult(NamedTuple):
    """How a shard ended: how many pairs of company and dataset came to each status.

    Attributes:
        progress: All that has landed of it, records too, so that it can be staged without being read back.
    """

    progress: Progress
    answered: int
    not_found: int
    failed: int
    pending: int

    def __str__(self) -> str:
        return f"{self.answered} answered, {self.not_found} not found, {self.failed} failed, {self.pending} open"


class _Ask(NamedTuple):
    """A page to send.

    Attributes:
        tries: Tries it gets.
    """

    page: Page
    tries: int


class _Sent(NamedTuple):
    """What came of asking: all that landed, with its elements where they were read, and the error it ended with."""

    ask: _Ask
    landed: list[tuple[Header, bytes, list[Element] | None]]
    error: ServiceError | OutOfCreditsError | None


class _Shard(NamedTuple):
    """A shard while it is fetched.

    Attributes:
        free: Companies inside their paid window before this run.
        apart: Pairs of company and dataset that failed in an earlier run: asked for apart, so that they trip no others.
        barred: Companies that the service will not give without credits, whatever we believed.
    """

    number: int
    progress: Progress
    writer: SegmentWriter
    free: frozenset[Company]
    apart: frozenset[tuple[Company, str]]
    barred: set[Company]

    def is_apart(self, page: Page) -> bool:
        """Tell whether a page asks again for what failed: that it is refused once more says nothing of the settings."""
        return all((company, page.dataset) in self.apart for company in page.companies)

    def is_paid(self, company: Company, datasets: Iterable[str]) -> bool:
        """Tell whether a company costs nothing: paid for before, or by an answer of this run."""
        tracks = self.progress.tracks
        return company in self.free or any(
            (company, dataset) in tracks and tracks[company, dataset].first_at for dataset in datasets
        )


def read_landed(run: Run, shard: int) -> Iterator[Landed]:
    """Read everything that has landed of a shard, in landing order."""
    for path in list_segments(run.folders.landing(run.run_id, shard)):
        yield from read_segment(path)


def load_progress(run: Run, shard: int, *, targets: pl.DataFrame | None = None, keep_records: bool = False) -> Progress:
    """Work out from what has landed how far a shard is.

    Args:
        run: The run.
        shard: Its number.
        targets: What is asked for, where it was read already.
        keep_records: As for `Progress`.
    """
    targets = run.targets(shard) if targets is None else targets
    columns = targets.select("country", "company_number", "dataset", "expected_count", "held_hash")
    wanted = (
        (Company(country, number), dataset, count, held)
        for country, number, dataset, count, held in columns.iter_rows()
    )
    progress = Progress(wanted, run.plan.names.not_found_message, keep_records=keep_records)
    for landed in read_landed(run, shard):
        progress.absorb(landed.header, landed.body)
        progress.headers.append(landed.header)
    return progress


class Fetcher:
    """Fetches shards of one run over one client; several shards may be fetched at the same time.

    Args:
        client: The service.
        settings: Limits and budgets.
        run: What to fetch.
        on_answer: Called after each answer has landed, from any thread.
        on_works: Called as soon as it shows that the service answers what can be used.
        now: The clock, UTC.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        run: Run,
        on_answer: Callable[[Answer], object] = lambda answer: None,
        on_works: Callable[[], object] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._settings = settings
        self._run = run
        self._on_answer = on_answer
        self._on_works = on_works
        self._now = now
        self._pool = ThreadPoolExecutor(settings.api.threads, thread_name_prefix="request")
        self._lock = threading.Lock()
        self._works = False
        self._out_of_credits: OutOfCreditsError | None = None

    def close(self) -> None:
        """Wait for the requests in flight; no other is started."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @collecting_rarely()
    def fetch_shard(self, number: int) -> ShardResult:
        """Fetch what a shard still lacks.

        When the credits run out, nothing more is bought, but whatever is paid for is still fetched.

        Raises:
            Stopped: A budget, the credits, or a long pause of the service; what has landed is kept.
            AuthorizationError: The token is refused.
            RequestRefusedError: Nothing was ever answered, and the first request is refused for no company of it: the
                settings do not fit.
            ServiceError: The service is down.
        """
        targets = self._run.targets(number)
        progress = load_progress(self._run, number, targets=targets, keep_records=True)
        with SegmentWriter(self._run.folders.landing(self._run.run_id, number)) as writer:
            shard = _Shard(
                number,
                progress,
                writer,
                free=frozenset(company for company, _ in _pairs(targets.filter("is_paid"))),
                apart=frozenset(_pairs(targets.filter("has_failed"))),
                barred=set(),
            )
            # What was answered before a crash shows as well that the settings fit the service.
            with self._lock:
                if any(track.first_at or track.status == "not_found" for track in progress.tracks.values()):
                    self._note_works()
            while asks := self._plan(shard):
                for sent in self._send_all(asks, shard):
                    for header, body, elements in sent.landed:
                        progress.absorb(header, body, elements)
                    asks.extendleft(self._narrow(sent, shard))
        statuses = [track.status for track in progress.tracks.values()]
        if self._out_of_credits and "pending" in statuses:
            raise self._out_of_credits
        progress.follow(writer.headers)
        return ShardResult(progress, *(statuses.count(name) for name in ShardResult._fields[1:]))

    def _plan(self, shard: _Shard) -> deque[_Ask]:
        """Give up what has no prospect, and shape requests for the rest."""
        asks: deque[_Ask] = deque()
        for dataset in self._run.plan.datasets:
            hopeless: defaultdict[str, list[Company]] = defaultdict(list)
            wanted: dict[bool, list[Wanted]] = {False: [], True: []}
            for company in shard.progress.pending(dataset):
                track = shard.progress.tracks[company, dataset]
                if track.is_given_up:
                    hopeless[track.reason].append(company)
                elif self._may_ask(shard, company):
                    is_apart = (company, dataset) in shard.apart
                    wanted[is_apart].append(Wanted(company, track.next_offset, _remaining(track), track.expected))
            for reason, companies in hopeless.items():
                self._give_up(Page(dataset, tuple(companies)), reason, shard)
            for is_apart, group in wanted.items():
                tries = 1 if is_apart else self._settings.api.tries  # what failed before is halved, not repeated
                asks += [_Ask(page, tries) for page in plan_pages(self._settings.api, dataset, group)]
        return asks

    def _may_ask(self, shard: _Shard, company: Company) -> bool:
        if not self._out_of_credits:
            return True
        return company not in shard.barred and shard.is_paid(company, self._run.plan.datasets)

    def _send_all(self, asks: deque[_Ask], shard: _Shard) -> Iterator[_Sent]:
        """Send pages, a bounded number at once, and give what came of each as it ends.

        Until the first success of all, requests go one by one: a wrong token costs one request and a wrong setting
        few: ten for a page of a hundred companies.

        Args:
            asks: Whoever takes what came may add to it.
            shard: Where they belong.
        """
        flying: set[Future[_Sent]] = set()
        try:
            while asks or flying:
                with self._lock:
                    if asks and not self._works:
                        flying |= set(map(_done, self._send_first(asks.popleft(), shard)))
                while self._works and asks and len(flying) < 2 * self._settings.api.threads:
                    flying.add(self._pool.submit(self._send, asks.popleft(), shard))
                done, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            wait(flying)

    def _send_first(self, ask: _Ask, shard: _Shard) -> list[_Sent]:
        """Send a page while nothing was ever answered; where it is refused, ever smaller parts, which tell why.

        Because of companies, some part is answered and another of its size is not. Settings that do not fit refuse
        all, companies asked for alone too; where a page was too large, both its halves are answered. Then nobody is to
        blame, and no more is sent.
        """
        first = sent = self._send(ask, shard)
        if not isinstance(first.error, RequestRefusedError) or shard.is_apart(ask.page):
            if first.error is None:
                self._note_works()
            return [first]
        split: list[_Sent] = []
        rest: list[_Ask] = []
        while isinstance(sent.error, RequestRefusedError) and len(sent.ask.page.companies) > 1:
            split.append(sent._replace(error=None))
            half, *rest = _halve(sent.ask.page)
            sent = self._send(half, shard)
        parts = [sent, *(self._send(other, shard) for other in rest)]
        if _are_refused(parts) and len(ask.page.companies) > len(parts):  # two neighbours may both be bad
            parts.append(self._send(_Ask(ask.page._replace(companies=ask.page.companies[-1:]), _TRIES_ALONE), shard))
        if _are_refused(parts) or all(part.error is None for part in parts):
            raise _misfit(first.error, first.landed[-1][0].status)
        if any(part.error is None for part in parts):
            self._note_works()
        return [*split, *parts]

    def _note_works(self) -> None:
        """Note that the service answers and the settings fit it; for whoever holds `_lock`."""
        if not self._works:
            self._on_works()
        self._works = True

    def _send(self, ask: _Ask, shard: _Shard) -> _Sent:
        """Send one page; every answer lands before it is looked at."""
        page = ask.page
        request = requests.bulk(self._settings.api, page.dataset, page.companies, page.limit, page.offset)
        base = self._header(page, shard.number)
        landed: list[tuple[Header, bytes, list[Element] | None]] = []

        def land(answer: Answer) -> None:
            header = answered(base, answer)
            if answer.request is not request:
                header = msgspec.structs.replace(header, kind="probe", companies=())
            header = shard.writer.append(header, answer.body)
            landed.append((header, answer.body, None))
            _log_answer(header)
            self._on_answer(answer)

        def check(body: bytes) -> None:
            elements = check_answer(page.dataset, body)
            if landed[-1][1] is body:  # not that of a probe, which another request makes of this one
                landed[-1] = (landed[-1][0], body, elements)

        try:
            is_patient = not shard.is_apart(page)
            self._client.send(request, check, tries=ask.tries, is_patient=is_patient, on_answer=land)
        except (RequestFailedError, RequestRefusedError) as error:
            return _Sent(ask, landed, error)
        except OutOfCreditsError as error:
            if all(shard.is_paid(company, self._run.plan.datasets) for company in page.companies):
                shard.barred.update(page.companies)
            self._out_of_credits = error
            return _Sent(ask, landed, error)
        return _Sent(ask, landed, None)

    def _narrow(self, sent: _Sent, shard: _Shard) -> list[_Ask]:
        """Find out which companies make a request fail, by halves: at most 2 log2 of their number in requests.

        A request that failed by chance is answered in two halves and costs no more than those.
        """
        page, error = sent.ask.page, sent.error
        if error is None or isinstance(error, OutOfCreditsError):
            return []
        is_outage, is_apart = getattr(error, "is_outage", False), shard.is_apart(page)
        if is_apart and (is_outage or len(page.companies) == 1):
            # It failed before and nothing is answered now: what it may be worth is for another run to see.
            self._give_up(page, error.message, shard)
            return []
        if len(page.companies) > 1:
            return _halve(page)
        if not is_outage:  # else nobody is to blame, and it is asked for again with everybody else
            self._give_up(page, error.message, shard)
        return []

    def _give_up(self, page: Page, reason: str, shard: _Shard) -> None:
        """Record that companies get no further request in this run."""
        header = msgspec.structs.replace(self._header(page, shard.number), kind="given_up", error=reason)
        shard.progress.absorb(shard.writer.append(header), b"")

    def _header(self, page: Page, shard: int) -> Header:
        language = self._run.plan.language
        return Header(
            request_id=_request_id(self._run.run_id, page, language),
            run_id=self._run.run_id,
            shard=shard,
            dataset=page.dataset,
            companies=page.companies,
            limit=page.limit,
            offset=page.offset,
            language=language,
            fetched_at=self._now(),
        )


def _are_refused(sent: Iterable[_Sent]) -> bool:
    return all(isinstance(each.error, RequestRefusedError) for each in sent)


def _misfit(refused: ServiceError, status: int | None) -> RequestRefusedError:
    """Say of a refusal that is no company's fault what to look at."""
    keys = ["api.companies_per_request", "records_per_request", "page_limit_max", "api.names"]
    keys += ["api.base_url"] * (status == 404)
    return RequestRefusedError(
        refused.message,
        f"Look at {', '.join(keys[:-1])} and {keys[-1]}; if some companies are the reason, a lower "
        "api.companies_per_request finds out which",
    )


def _halve(page: Page) -> list[_Ask]:
    """Ask for the halves of a page; for none where it asks for one company."""
    if len(page.companies) == 1:
        return []
    middle = (len(page.companies) + 1) // 2
    halves = (page.companies[:middle], page.companies[middle:])
    return [_Ask(page._replace(companies=half), 1 if len(half) > 1 else _TRIES_ALONE) for half in halves]


def _pairs(targets: pl.DataFrame) -> Iterator[tuple[Company, str]]:
    rows = targets.select("country", "company_number", "dataset").iter_rows()
    return ((Company(country, number), dataset) for country, number, dataset in rows)


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


def _remaining(track: Track) -> int | None:
    """How many records are still to come, once the first page told."""
    return None if track.total is None else max(1, track.total - track.next_offset)


def _request_id(run_id: str, page: Page, language: str) -> str:
    return hashlib.blake2b(msgspec.json.encode((run_id, *page, language)), digest_size=12).hexdigest()


def _done(sent: _Sent) -> Future[_Sent]:
    future: Future[_Sent] = Future()
    future.set_result(sent)
    return future
