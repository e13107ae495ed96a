"""What landed answers add up to: for each company and dataset, which pages are held and what is still to ask.

The same rules read answers while they arrive, when a run is resumed and when tables are made, so that all three agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec import Raw

from firmlake.api.answers import Element, read_answer
from firmlake.api.contract import DATASETS
from firmlake.company import Company
from firmlake.errors import UnusableAnswerError
from firmlake.landing.segments import Header

__all__ = ["MISSES_MAX", "Part", "Progress", "Track", "check_answer"]

MISSES_MAX = 3
"""So many answers of status 200 in a row without anything usable about a company, and it is given up for this run."""
RESTARTS_MAX = 5
"""So many times its pages did not fit together, and it is too."""


class Part(NamedTuple):
    """The records of one page of a company, by group, as received."""

    request_id: str
    fetched_at: datetime
    records: dict[str, list[Raw]]


class Track:
    """One company and dataset on its way.

    Attributes:
        status: "pending", "answered", "not_found" or "failed".
        next_offset: Records held so far: where the next page starts.
        total: Records there are, once the first page told.
        misses: Answers without anything usable about it, since the last one with.
        restarts: Times it was begun anew because its pages did not fit together.
        reason: What was wrong last; why it failed.
        attempts: Requests that named it.
        first_at: When its first page came: from then on the company is paid for.
        answered_at: When its last page came.
        ended_at: When it was given up.
        parts: Its pages, where they are kept.
    """

    __slots__ = (
        "answered_at", "attempts", "ended_at", "expected", "first_at", "misses", "name", "next_offset", "parts",
        "place", "reason", "request_id", "restarts", "status", "total",
    )  # fmt: skip

    def __init__(self, expected: int | None = None) -> None:
        self.status = "pending"
        self.next_offset = 0
        self.total: int | None = None
        self.expected = expected
        self.misses = 0
        self.restarts = 0
        self.attempts = 0
        self.reason = ""
        self.request_id: str | None = None
        self.first_at: datetime | None = None
        self.answered_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.name: str | None = None
        self.place: str | None = None
        self.parts: list[Part] = []

    @property
    def is_given_up(self) -> bool:
        """Whether asking again in this run has no prospect."""
        return self.status == "pending" and (self.misses >= MISSES_MAX or self.restarts >= RESTARTS_MAX)


class Progress:
    """The tracks of a shard's companies.

    Args:
        wanted: Company, dataset and the number of records expected (from an earlier run), or None.
        not_found_message: What an element says about a company that does not exist.
        keep_records: Whether parts are kept, to be staged; else they are only counted.

    Attributes:
        headers: Of all that landed, in landing order.
        foreign: What was said of companies that nobody asked for.
        unknown: Places of fields that the contract does not know.
    """

    def __init__(
        self, wanted: Iterable[tuple[Company, str, int | None]], not_found_message: str, *, keep_records: bool = False
    ) -> None:
        self.tracks = {(company, dataset): Track(expected) for company, dataset, expected in wanted}
        self.headers: list[Header] = []
        self.foreign: list[tuple[Header, str]] = []
        self.unknown: list[tuple[Header, str]] = []
        self._not_found = not_found_message.casefold()
        self._keeps = keep_records

    def pending(self, dataset: str) -> list[Company]:
        """List the companies still to ask for, in the order of the company list."""
        return [company for (company, d), track in self.tracks.items() if d == dataset and track.status == "pending"]

    def follow(self, headers: Iterable[Header]) -> None:
        """Add what landed since, and put what was observed into the order in which it landed.

        Answers are absorbed as their requests end. For a company that makes no difference: it is never part of two
        requests at once for the same dataset.
        """
        self.headers += headers
        place = {id(header): place for place, header in enumerate(self.headers)}
        for observed in (self.foreign, self.unknown):
            observed.sort(key=lambda one: place[id(one[0])])

    def absorb(self, header: Header, body: bytes, elements: Iterable[Element] | None = None) -> None:
        """Take in one landed record; those of a company and dataset in landing order.

        Args:
            header: What is known about it.
            body: The answer as received.
            elements: What `check_answer` made of it, where that was done already.
        """
        asked = [(company, self.tracks.get((company, header.dataset))) for company in header.companies]
        tracks = [track for _, track in asked if track]
        if header.kind == "given_up":
            for track in tracks:
                _give_up(header, track)
            return
        has_failed = header.kind == "no_answer" or header.status != 200
        for track in tracks:
            track.attempts += 1
            track.request_id = header.request_id
            if has_failed:
                track.reason = header.error or f"status {header.status}"
        if has_failed or header.kind != "answer":
            return
        try:
            elements = elements or check_answer(header.dataset, body)
        except UnusableAnswerError as error:
            # It says nothing about any company, and one of them may be the reason: no miss of all the others.
            for track in tracks:
                track.reason = error.message
            return
        self._absorb_elements(header, asked, elements)

    def _absorb_elements(
        self, header: Header, asked: Iterable[tuple[Company, Track | None]], elements: Iterable[Element]
    ) -> None:
        by_company: defaultdict[Company | None, list[Element]] = defaultdict(list)
        for element in elements:
            by_company[element.company].append(element)
            if element.unknown:
                self.unknown += [(header, path) for path in element.unknown]
        for company, track in asked:
            said = by_company.pop(company, [])
            if track is not None and track.status not in ("answered", "not_found"):
                self._absorb_company(header, track, said)
        for stranger, others in by_company.items():
            self.foreign += [(header, str(stranger or other.problem or "no known company")) for other in others]

    def _absorb_company(self, header: Header, track: Track, elements: list[Element]) -> None:
        element, problem = _one_of(elements)
        if element is None:
            _miss(track, problem)
        elif element.records is not None:
            problem = self._add_page(header, track, element, element.records)
            if problem:
                _miss(track, problem)
        elif (element.message or "").casefold() != self._not_found:
            _miss(track, f"the service says: {element.message}")
        elif track.next_offset:
            _restart(track, "it was found, and then not found")
        else:
            track.status, track.answered_at = "not_found", header.fetched_at

    def _add_page(self, header: Header, track: Track, element: Element, records: dict[str, list[Raw]]) -> str:
        count = sum(map(len, records.values()))
        offset = header.offset or 0
        is_paged = DATASETS[header.dataset].is_paged
        if is_paged:
            total = element.total or 0
            if element.offset != offset:
                return f"records from {element.offset} on, where those from {offset} on were asked for"
            if offset == 0:
                track.parts, track.next_offset, track.total = [], 0, total
            elif (offset, total) != (track.next_offset, track.total):
                _restart(track, "the number of records changed between pages")
                return ""
            if offset + count > total:
                return f"{offset + count} records, but a total of {total}"
            if count == 0 and offset < total:
                return f"an empty page, but a total of {total}"
        track.next_offset, track.misses = offset + count, 0
        track.name, track.place = element.name, element.place
        track.answered_at = header.fetched_at
        track.first_at = track.first_at or header.fetched_at
        if self._keeps:
            track.parts.append(Part(header.request_id, header.fetched_at, records))
        if not is_paged or track.next_offset >= (track.total or 0):
            track.status = "answered"
        return ""


def check_answer(dataset: str, body: bytes) -> list[Element]:
    """Read a bulk answer, and refuse one that says nothing about any company.

    Raises:
        UnusableAnswerError: Ask again.
    """
    elements = read_answer(dataset, body)
    if elements and all(element.company is None for element in elements):
        raise UnusableAnswerError(f"no element names a company: {elements[0].problem}")
    if not elements:
        raise UnusableAnswerError("the answer is an empty array")
    return elements


def _restart(track: Track, reason: str) -> None:
    """Begin again with the first page: what is held and what came now are not of one piece."""
    track.parts, track.next_offset, track.total = [], 0, None
    track.restarts += 1
    track.reason = reason


def _miss(track: Track, reason: str) -> None:
    if track.status == "pending":
        track.misses += 1
        track.reason = reason


def _give_up(header: Header, track: Track) -> None:
    if track.status == "pending":
        track.status, track.reason, track.ended_at = "failed", header.error, header.fetched_at


def _one_of(elements: list[Element]) -> tuple[Element | None, str]:
    """Choose the element for a company: a repeated one must say the same each time."""
    if not elements:
        return None, "the answer says nothing about it"
    if len(elements) > 1 and any(_content(element) != _content(elements[0]) for element in elements[1:]):
        return None, "the answer contradicts itself about it"
    if elements[0].problem:
        return None, elements[0].problem
    return elements[0], ""


def _content(element: Element) -> tuple[object, ...]:
    records = {name: [bytes(raw) for raw in raws] for name, raws in (element.records or {}).items()}
    return element.name, element.place, element.total, element.message, element.problem, records
