"""Track progress from landed answers: for each company and dataset, the pages received and what is missing.

The same rules apply while answers arrive, when a run resumes and when tables are made, so all three agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Raw
from xxhash import xxh3_64_intdigest

from firmlake.api.answers import Element, read_answer, says_unknown
from firmlake.api.contract import DATASETS
from firmlake.api.judge import tells_spent
from firmlake.core.company import Company
from firmlake.core.errors import Reason, UnusableAnswerError, make_reason, reason_of
from firmlake.core.settings import NameSettings
from firmlake.landing.run import Run
from firmlake.landing.segments import ENDS, Header, Landed, credits_in, list_segments, read_segment

_EVER = datetime.min.replace(tzinfo=UTC)
MISSES_MAX = 3
"""Give up a company for this run after this many successful answers in a row with nothing usable about it."""
_LEFT_OUT = make_reason("left_out")
RESTARTS_MAX = 5
"""Give up a company for this run after its pages were inconsistent this many times."""


class Part(NamedTuple):
    """The records of one page of a company, by group, as received."""

    request_id: str
    fetched_at: datetime
    records: dict[str, list[Raw]]


class Track(msgspec.Struct, gc=False):
    """The progress of one company and dataset.

    `wider` is the limit of the next request if that starts at the first record again, because the last page was full
    and may not hold all records, or the pages were inconsistent; 0 otherwise. `first_at` is the time of the first
    answer that paid for the company: its first page, an answer to `firmlake check`, or an unreadable answer that was
    charged for.
    """

    expected: int | None = None  # number of records that an earlier run found; None if unknown
    is_refresh: bool = False  # fresh, and asked again for free in the last days of its paid window
    status: str = "pending"  # "pending", "answered", "not_found", or another status of `ENDS`
    next_offset: int = 0  # records received so far, which is the offset of the next page
    total: int | None = None  # records that the service holds; None before the first page
    wider: int = 0
    digests: frozenset[int] = frozenset()  # hashes of the records received so far; empty once all are there
    misses: int = 0  # answers in a row without anything usable about the company
    left_out: int = 0  # answers in a row that cover other companies but not this one
    restarts: int = 0  # from the first page, because pages were inconsistent
    attempts: int = 0  # requests that named the company
    reason: Reason = _LEFT_OUT  # the last problem; if the company failed, the reason
    request_id: str | None = None
    first_at: datetime | None = None
    answered_at: datetime | None = None  # time of the last page
    ended_at: datetime | None = None  # when the company was given up
    name: str | None = None
    place: str | None = None
    parts: tuple[Part, ...] = ()  # the pages, if records are kept

    @property
    def is_given_up(self) -> bool:
        """Whether another request in this run would be pointless."""
        return self.status == "pending" and (self.misses >= MISSES_MAX or self.restarts >= RESTARTS_MAX)

    @property
    def remaining(self) -> int | None:
        """The number of records to request next, at least one; None before the first page.

        Without a total, it is the number received so far, until a page is not full.
        """
        return self.wider or (self.next_offset or None if self.total is None else max(1, self.total - self.next_offset))

    def add_page(self, header: Header, element: Element, *, keeps: bool, trusts_total: bool, is_shared: bool) -> None:
        """Add the records of a requested page; a page that does not fit counts as a miss.

        Args:
            header: The header of the answer.
            element: The part of the answer about the company, with records.
            keeps: Whether to keep the records, or only to count them.
            trusts_total: Whether a total counts all records. If that is not known, a full first page whose total
                equals its length is requested again with twice the limit, since the total may be that of the page. The
                longest pages follow each other until one is not full.
            is_shared: Whether the answer has records of a company that was not complete. If it has none of this one,
                the service may have cut the answer, and the next answer can hold them: that is no miss.
        """
        count, offset, total, is_whole = element.count, header.offset or 0, element.total, True
        if DATASETS[header.dataset].is_paged:
            if total is not None and offset + count > total:
                total = None  # it counts something else, such as pages
                element = msgspec.structs.replace(element, total=None)
            if not self._follows(offset, element):
                return None
            if total is None and element.limit is None and count:
                return self.miss(make_reason("no_pagination"))
            if total is not None and count == 0 and offset < total:
                return self.miss(make_reason("empty_page", total=total), counts=not is_shared)
            is_told = total is not None and (offset + count < total or offset > 0 or trusts_total)
            is_whole = offset + count == total if is_told else not _is_full(header, element, count)
            is_last = is_told or is_whole or offset > 0 or _is_cut(header, element, self.wider)
            self.wider = 0 if is_last else 2 * _page_size(header, element)
            self.digests = frozenset() if is_whole else self.digests | _digests(element)
            self.total = total if is_told or is_whole else None  # the total of a full page may be that of the page
        self.next_offset, self.misses = offset + count, 0
        self.name, self.place = element.name, element.place
        self.answered_at = header.fetched_at
        self.first_at = self.first_at or header.fetched_at
        if keeps:
            self.parts += (Part(header.request_id, header.fetched_at, element.records or {}),)
        if is_whole:
            self.status = "answered"
        return None

    def _follows(self, offset: int, element: Element) -> bool:
        """Return whether a page continues the earlier ones; otherwise restart, or count a miss."""
        if element.offset not in (None, offset):
            reason = make_reason("wrong_page", offset=element.offset, wanted=offset)
            if offset and self.total and not self.restarts:
                self.restart(reason, self.total)  # the service may still respect the limit
            else:
                self.miss(reason)
            return False
        if offset == 0:
            self.parts, self.next_offset, self.total, self.digests = (), 0, element.total, frozenset()
        elif offset != self.next_offset or self.total not in (None, element.total):
            most = max(element.total or 0, self.total or 0)
            self.restart(make_reason("total_changed"), most)
            return False
        elif not self.digests.isdisjoint(_digests(element)):
            self.restart(make_reason("page_repeated"), element.total)
            return False
        return True

    def restart(self, reason: Reason, wider: int | None = None) -> None:
        """Restart from the first page, because the pages received so far are inconsistent.

        If the number of records is known, all are requested at once: a single page cannot be inconsistent.
        """
        self.parts, self.next_offset, self.total, self.wider, self.digests = (), 0, None, wider or 0, frozenset()
        self.restarts += 1
        self.reason = reason

    def miss(self, reason: Reason, *, counts: bool = True) -> None:
        """Note an answer without anything usable about the company, and count it unless it may have been cut."""
        if self.status == "pending":
            self.misses += counts
            self.reason = reason

    def end(self, header: Header) -> None:
        """Set the final status from a header of a kind in `ENDS`. A company that was found before cannot be unknown."""
        if self.status == "pending":
            self.status, self.ended_at = ENDS[header.kind], header.fetched_at
            self.reason = Reason(header.code, header.error)
            if self.status == "not_found" and self.first_at:
                self.status = "failed"
            if self.status == "not_found":
                self.answered_at = header.fetched_at


def _digests(element: Element) -> frozenset[int]:
    return frozenset(map(xxh3_64_intdigest, chain.from_iterable((element.records or {}).values())))


def _page_size(header: Header, element: Element) -> int:
    """Return the number of records requested per company; 0 if unknown."""
    return header.limit or element.limit or 0


def _is_full(header: Header, element: Element, count: int) -> bool:
    size = _page_size(header, element)
    return 0 < min(size, element.limit or size) <= count


def _is_cut(header: Header, element: Element, wanted: int) -> bool:
    """Return whether a page is as long as possible: the service or our settings allow no higher limit."""
    size = _page_size(header, element)
    return (element.limit or size) < size or size < wanted


class Progress:
    """The progress of a shard: one track for each company and dataset.

    Args:
        wanted: Each dataset with its companies, in the order of the company list, and their values of `Track.expected`.
        names: The messages and headers of the service.
        free: Companies inside their paid window before this run, and until when (UTC).
        keep_records: Whether records are kept for staging; otherwise they are only counted.
        trusts_totals: Whether the total of a page counts all records of its company (`api.totals`).

    Attributes:
        datasets: Tracks by dataset, then company, in the order of the company list.
        headers: Headers of all landed records, in landing order.
        foreign: Elements about companies that were not asked for, with the header of their answer.
        unknown: Paths of fields that are not in the contract, with the header of their answer.
        cut: Companies with fewer records than their total in a dataset without pages, with the header of their answer.
    """

    def __init__(
        self,
        wanted: Iterable[tuple[str, Iterable[Company], Iterable[int | None]]],
        names: NameSettings,
        free: Mapping[Company, datetime] = MappingProxyType({}),
        *,
        keep_records: bool = False,
        trusts_totals: bool = True,
    ) -> None:
        self.free = free
        self.datasets: defaultdict[str, dict[Company, Track]] = defaultdict(dict)
        for dataset, companies, counts in wanted:
            self.datasets[dataset] = dict(zip(companies, map(Track, counts), strict=True))
        self.headers: list[Header] = []
        self.foreign: list[tuple[Header, str]] = []
        self.unknown: list[tuple[Header, str]] = []
        self.cut: list[tuple[Header, str]] = []
        self._names, self._fine = names, names.success_message.casefold()
        self._keeps = keep_records
        self._trusts_totals = trusts_totals

    def tracks(self) -> Iterator[tuple[Company, str, Track]]:
        """Yield all tracks, each with its company and dataset."""
        for dataset, tracks in self.datasets.items():
            for company, track in tracks.items():
                yield company, dataset, track

    @property
    def counts(self) -> Counter[str]:
        """The number of tracks by status."""
        return Counter(track.status for _, _, track in self.tracks())

    def describe(self) -> str:
        """Count the tracks by status, for a person."""
        counts = self.counts
        rare = [f"{counts[status]} {status}" for status in ("forbidden", "unavailable") if counts[status]]
        usual = [f"{counts['answered']} answered, {counts['not_found']} not found, {counts['failed']} failed"]
        return ", ".join([*usual, *rare, f"{counts['pending']} open"])

    def is_free(self, company: Company, at: datetime) -> bool:
        """Return whether a company is inside the paid window that it had before this run."""
        return company in self.free and at < self.free[company]

    def is_paid(self, company: Company, at: datetime, before: datetime | None = None) -> bool:
        """Return whether a company is paid for at some time: by a window that it had before this run, or by this run.

        An answer of this run counts if it landed `before` another time; None counts them all.
        """
        since = self.free.get(company, _EVER)  # before that, an answer began no window
        if at < since:
            return True
        for tracks in self.datasets.values():  # a loop, because this is asked for each company of each request
            track = tracks.get(company)
            if track and track.first_at and since <= track.first_at and (before is None or track.first_at < before):
                return True
        return False

    def pending(self, dataset: str) -> dict[Company, Track]:
        """Return the companies still to ask for, in the order of the company list."""
        return {company: track for company, track in self.datasets[dataset].items() if track.status == "pending"}

    def follow(self, headers: Iterable[Header]) -> None:
        """Add the headers of new answers, and sort observations into landing order.

        Answers are absorbed as their requests end, not in landing order. Tracks are unaffected, because a company is
        never part of two concurrent requests for the same dataset.
        """
        self.headers += headers
        place = {id(header): place for place, header in enumerate(self.headers)}
        for observed in (self.foreign, self.unknown, self.cut):
            observed.sort(key=lambda one: place[id(one[0])])

    def absorb(self, header: Header, body: bytes, elements: Sequence[Element] | None = None) -> None:
        """Update the tracks from one landed record. Call this in landing order for each company and dataset.

        `elements` is the result of `check_elements`, if known already; None reads the body.
        """
        of_dataset = self.datasets[header.dataset]
        asked = [(company, track) for company in header.companies if (track := of_dataset.get(company))]
        if header.kind in ENDS:
            for _, track in asked:
                track.end(header)
            return
        if header.kind == "probe":
            if asked and header.is_success:
                self._note_paid(header, asked, body)
            return
        reason: Reason | None = None
        if header.error:
            reason = make_reason("no_answer", problem=header.error)
        elif header.kind == "no_answer" or not header.is_success:
            reason = make_reason("bad_status", status=header.status)
        else:
            try:
                elements = elements or check_elements(read_answer(header.dataset, body))
            except UnusableAnswerError as error:
                reason = reason_of(error)  # one company may be the reason, so none gets a miss
        for _, track in asked:
            track.attempts += 1
            track.request_id = header.request_id
            if reason:
                track.reason = reason
        if elements and not reason:
            self._absorb_elements(header, asked, elements)
        else:
            self._note_charged(header, asked)

    def _absorb_elements(
        self, header: Header, asked: Sequence[tuple[Company, Track]], elements: Sequence[Element]
    ) -> None:
        if [element.company for element in elements] == [company for company, _ in asked]:  # usual, and faster
            said = elements
        else:
            said = self._match(header, asked, elements)
        is_spent = any(element.records is None and tells_spent(element.message or "") for element in elements)
        is_shared = any(
            track.status == "pending" and element.count for (_, track), element in zip(asked, said, strict=True)
        )
        for (company, track), element in zip(asked, said, strict=True):
            if track.status in ("answered", "not_found") or (is_spent and element.records is None):
                continue
            track.left_out = track.left_out + 1 if element is _SILENCE else 0
            if element.problem:
                track.miss(element.problem)
            elif self._tells(element):
                track.add_page(
                    header, element, keeps=self._keeps, trusts_total=self._trusts_totals, is_shared=is_shared
                )
            elif not says_unknown(self._names, Company(*company), element.message or ""):
                track.miss(make_reason("other_message", message=element.message))
            elif track.next_offset:
                track.restart(make_reason("no_longer_found"))
            else:
                track.status, track.answered_at = "not_found", header.fetched_at
        self.unknown += [(header, path) for element in elements for path in element.unknown]
        self.cut += [(header, odd) for element in elements if (odd := _miscount(header, element))]

    def _tells(self, element: Element) -> bool:
        """Return whether an element holds the records of its company."""
        return element.records is not None and (not element.message or element.message.casefold() == self._fine)

    def _note_paid(self, header: Header, asked: Sequence[tuple[Company, Track]], body: bytes) -> None:
        """Mark as paid the companies that an answer to `firmlake check` covers, in bulk or for one company."""
        try:
            elements = read_answer(header.dataset, body)
        except UnusableAnswerError:
            self._note_charged(header, asked)
            return
        told = {element.company for element in elements if self._tells(element)}
        for company, track in asked:
            if company in told:
                track.first_at = track.first_at or header.fetched_at

    def _note_charged(self, header: Header, asked: Sequence[tuple[Company, Track]]) -> None:
        """Mark as paid the companies of a request without a readable answer, if all of them were charged for.

        That is certain only if none was paid for before and one credit was charged for each. With fewer credits, it
        is unknown which companies they paid for.
        """
        charged, at = credits_in(header, self._names.credits_charged_header), header.fetched_at
        if charged == len(header.companies) and not any(self.is_paid(each, at, before=at) for each in header.companies):
            for _, track in asked:
                track.first_at = min(track.first_at or at, at)  # answers are not absorbed in the order of arrival

    def _match(
        self, header: Header, asked: Sequence[tuple[Company, Track]], elements: Sequence[Element]
    ) -> list[Element]:
        """Find the element of each requested company, and note the elements about other companies."""
        said = {element.company: element for element in elements}
        if len(said) < len(elements):
            said |= _contradictions(elements)
        self.foreign += [
            (header, str(other.company or other.problem)) for other in elements if other.company not in header.companies
        ]
        return [said.get(company, _SILENCE) for company, _ in asked]


def check_elements(elements: list[Element]) -> list[Element]:
    """Return the elements of a bulk answer; UnusableAnswerError if none of them names a company."""
    if elements and all(element.company is None for element in elements):
        raise _unusable(make_reason("no_company_named", problem=elements[0].problem))
    if not elements:
        raise _unusable(make_reason("empty_answer"))
    return elements


def _unusable(reason: Reason) -> UnusableAnswerError:
    error = UnusableAnswerError(reason.text)
    error.code = reason.code
    return error


def _miscount(header: Header, element: Element) -> str:
    """Describe a total that is not the number of records, where it should be; empty if it is, or if there is none.

    Records that come in pages may be fewer, but never more.
    """
    held, total = (header.offset or 0) + element.count, element.total
    is_right = total is None or (held <= total if DATASETS[header.dataset].is_paged else held >= total)
    return "" if is_right else f"{element.company}: {held} of {total}"


_SILENCE = Element(None, problem=_LEFT_OUT)


def _contradictions(elements: Iterable[Element]) -> dict[Company | None, Element]:
    """Return companies whose repeated elements contradict each other."""
    first: dict[Company | None, Element] = {}
    return {
        element.company: Element(element.company, problem=make_reason("contradiction"))
        for element in elements
        if _content(first.setdefault(element.company, element)) != _content(element)
    }


def _content(element: Element) -> tuple[object, ...]:
    records = {name: [bytes(raw) for raw in raws] for name, raws in (element.records or {}).items()}
    return element.name, element.place, element.total, element.message, element.problem, records


def read_landed(run: Run, shard: int) -> Iterator[Landed]:
    """Yield the landed records of a shard, in landing order."""
    for path in list_segments(run.folders.landing(run.run_id, shard)):
        yield from read_segment(path)


def load_progress(run: Run, shard: int, *, targets: pl.DataFrame | None = None, keep_records: bool = False) -> Progress:
    """Compute the progress of a shard from its landed answers; `targets` are those of the shard, None reads them."""
    targets = run.targets(shard) if targets is None else targets
    paid = targets.filter(pl.col("free_until").is_not_null()).select(*Company._fields, "free_until").unique()
    free = {Company(country, number): until.replace(tzinfo=UTC) for country, number, until in paid.iter_rows()}
    names, trusts = run.plan.names, run.plan.trusts_totals
    progress = Progress(_by_dataset(targets), names, free, keep_records=keep_records, trusts_totals=trusts)
    refreshed = targets.filter("is_refresh") if run.plan.refresh_count else targets.clear()
    for country, number, dataset in refreshed.select(*Company._fields, "dataset").iter_rows():
        progress.datasets[dataset][Company(country, number)].is_refresh = True
    for landed in read_landed(run, shard):
        progress.absorb(landed.header, landed.body)
        progress.headers.append(landed.header)
    return progress


def _by_dataset(targets: pl.DataFrame) -> Iterator[tuple[str, list[Company], list[int | None]]]:
    """Yield each dataset with its companies and their expected counts. Datasets usually share one list of companies."""
    key, companies = pl.DataFrame(), list[Company]()
    for of_dataset in targets.partition_by("dataset", maintain_order=True):
        own = of_dataset.select(Company._fields)
        if not own.equals(key):
            key, companies = own, list(map(Company._make, own.rows()))
        yield of_dataset["dataset"][0], companies, of_dataset["expected_count"].to_list()
