"""Track progress from landed answers: for each company and dataset, the pages received and what is missing.

The same rules apply while answers arrive, when a run resumes and when tables are made, so all three agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw

from firmlake.api.answers import read_answer
from firmlake.api.contract import DATASETS
from firmlake.api.element import Element
from firmlake.core.company import Company
from firmlake.core.errors import UnusableAnswerError
from firmlake.landing.segments import GIVEN_UP, Header

__all__ = ["MISSES_MAX", "OTHER_MESSAGE", "WRONG_PAGE", "Part", "Progress", "Track", "check_answer"]

MISSES_MAX = 3
"""A company is given up for this run after so many 200 answers in a row without anything usable about it."""
WRONG_PAGE, OTHER_MESSAGE = "wrong page", "the service says"
"""Beginnings of reasons that a setting removes."""
RESTARTS_MAX = 5
"""A company is given up for this run after its pages were inconsistent so many times."""


class Part(NamedTuple):
    """The records of one page of a company, by group, as received."""

    request_id: str
    fetched_at: datetime
    records: dict[str, list[Raw]]


class Track(msgspec.Struct, gc=False):
    """The progress of one company and dataset.

    Attributes:
        expected: Records that an earlier run found.
        status: "pending", "answered", "not_found", or a status of `GIVEN_UP`.
        next_offset: Records received so far, which is the offset of the next page.
        total: Records that the service holds; None before the first page.
        misses: Answers in a row without anything usable about the company.
        restarts: Restarts from the first page because pages were inconsistent.
        reason: The last problem; if the company failed, the reason.
        attempts: Requests that named the company.
        first_at: Time of the first page; from then on the company is paid for.
        answered_at: Time of the last page.
        ended_at: Time at which the company was given up.
        parts: The pages, if records are kept.
    """

    expected: int | None = None
    status: str = "pending"
    next_offset: int = 0
    total: int | None = None
    misses: int = 0
    restarts: int = 0
    attempts: int = 0
    reason: str = ""
    request_id: str | None = None
    first_at: datetime | None = None
    answered_at: datetime | None = None
    ended_at: datetime | None = None
    name: str | None = None
    place: str | None = None
    parts: list[Part] = []

    @property
    def is_given_up(self) -> bool:
        """Whether asking again in this run would be pointless."""
        return self.status == "pending" and (self.misses >= MISSES_MAX or self.restarts >= RESTARTS_MAX)


class Progress:
    """The progress of a shard: one track for each company and dataset.

    Args:
        wanted: For each dataset its companies, in the order of the company list, and `expected` of each.
        not_found_message: The service's message for a company that does not exist.
        keep_records: Whether records are kept for staging; otherwise they are only counted.

    Attributes:
        datasets: Tracks by dataset, then company, in the order of the company list.
        headers: Headers of all landed records, in landing order.
        foreign: Elements about companies that were not asked for, with the header of their answer.
        unknown: Paths of fields that are not in the contract, with the header of their answer.
    """

    def __init__(
        self,
        wanted: Iterable[tuple[str, Iterable[Company], Iterable[int | None]]],
        not_found_message: str,
        *,
        keep_records: bool = False,
    ) -> None:
        self.datasets: defaultdict[str, dict[Company, Track]] = defaultdict(dict)
        for dataset, companies, counts in wanted:
            self.datasets[dataset] = dict(zip(companies, map(Track, counts), strict=True))
        self.headers: list[Header] = []
        self.foreign: list[tuple[Header, str]] = []
        self.unknown: list[tuple[Header, str]] = []
        self._not_found = not_found_message.casefold()
        self._keeps = keep_records

    def tracks(self) -> Iterator[tuple[Company, str, Track]]:
        """Yield all tracks, each with its company and dataset."""
        for dataset, tracks in self.datasets.items():
            for company, track in tracks.items():
                yield company, dataset, track

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
        for observed in (self.foreign, self.unknown):
            observed.sort(key=lambda one: place[id(one[0])])

    def absorb(self, header: Header, body: bytes, elements: Sequence[Element] | None = None) -> None:
        """Update the tracks from one landed record. Call this in landing order for each company and dataset.

        Args:
            header: Header of the record.
            body: The answer as received.
            elements: The result of `check_answer`, if known already; None reads the body.
        """
        of_dataset = self.datasets[header.dataset]
        asked = [(company, of_dataset[company]) for company in header.companies if company in of_dataset]
        if header.kind in GIVEN_UP:
            for _, track in asked:
                _give_up(header, track)
            return
        has_failed = header.kind == "no_answer" or header.status != 200
        for _, track in asked:
            track.attempts += 1
            track.request_id = header.request_id
            if has_failed:
                track.reason = header.error or f"status {header.status}"
        if has_failed or header.kind != "answer":
            return
        try:
            elements = elements or check_answer(header.dataset, body)
        except UnusableAnswerError as error:
            # The answer tells nothing about any company. One may be the reason, so it is no miss of the others.
            for _, track in asked:
                track.reason = error.message
            return
        self._absorb_elements(header, asked, elements)

    def _absorb_elements(
        self, header: Header, asked: Sequence[tuple[Company, Track]], elements: Sequence[Element]
    ) -> None:
        is_paged = DATASETS[header.dataset].is_paged
        if [element.company for element in elements] == [company for company, _ in asked]:  # as a rule, and faster
            said = elements
        else:
            said = self._match(header, asked, elements)
        for (_, track), element in zip(asked, said, strict=True):
            if track.status in ("answered", "not_found"):
                continue
            if element.problem:
                _miss(track, element.problem)
            elif element.records is not None:
                if problem := self._add_page(header, track, element, element.records, is_paged):
                    _miss(track, problem)
            elif (element.message or "").casefold() != self._not_found:
                _miss(track, f"{OTHER_MESSAGE}: {element.message}")
            elif track.next_offset:
                _restart(track, "it was found, and then not found")
            else:
                track.status, track.answered_at = "not_found", header.fetched_at
        self.unknown += [(header, path) for element in elements for path in element.unknown]

    def _match(
        self, header: Header, asked: Sequence[tuple[Company, Track]], elements: Sequence[Element]
    ) -> list[Element]:
        """Find the element of each company that was asked for, and note the elements about any others."""
        said = {element.company: element for element in elements}
        if len(said) < len(elements):
            said |= _contradictions(elements)
        self.foreign += [
            (header, str(other.company or other.problem or "no known company"))
            for other in elements
            if other.company not in header.companies
        ]
        return [said.get(company, _SILENCE) for company, _ in asked]

    def _add_page(
        self, header: Header, track: Track, element: Element, records: dict[str, list[Raw]], is_paged: bool
    ) -> str:
        count = sum(map(len, records.values()))
        offset = header.offset or 0
        if is_paged:
            total = element.total or 0
            if element.offset != offset:
                return f"{WRONG_PAGE}: records from {element.offset} on, where those from {offset} on were asked for"
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
    """Read a bulk answer and make sure that it tells something about a company.

    Raises:
        UnusableAnswerError: The answer is not readable or names no company. Ask again.
    """
    elements = read_answer(dataset, body)
    if elements and all(element.company is None for element in elements):
        raise UnusableAnswerError(f"no element names a company: {elements[0].problem}")
    if not elements:
        raise UnusableAnswerError("the answer is an empty array")
    return elements


def _restart(track: Track, reason: str) -> None:
    """Restart from the first page, because the pages received so far do not fit together."""
    track.parts, track.next_offset, track.total = [], 0, None
    track.restarts += 1
    track.reason = reason


def _miss(track: Track, reason: str) -> None:
    if track.status == "pending":
        track.misses += 1
        track.reason = reason


def _give_up(header: Header, track: Track) -> None:
    if track.status == "pending":
        track.status, track.reason, track.ended_at = GIVEN_UP[header.kind], header.error, header.fetched_at


_SILENCE = Element(None, problem="the answer says nothing about it")


def _contradictions(elements: Iterable[Element]) -> dict[Company | None, Element]:
    """Return companies whose repeated elements contradict each other."""
    first: dict[Company | None, Element] = {}
    return {
        element.company: Element(element.company, problem="the answer contradicts itself about it")
        for element in elements
        if _content(first.setdefault(element.company, element)) != _content(element)
    }


def _content(element: Element) -> tuple[object, ...]:
    records = {name: [bytes(raw) for raw in raws] for name, raws in (element.records or {}).items()}
    return element.name, element.place, element.total, element.message, element.problem, records
