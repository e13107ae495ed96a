"""The progress of one company and dataset: the pages received and the records still missing."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw
from xxhash import xxh3_64_intdigest

from firmlake.api.contract import DATASETS
from firmlake.api.element import Element
from firmlake.landing.segments import ENDS, Header

__all__ = ["EMPTY", "LEFT_OUT", "MISSES_MAX", "OTHER_MESSAGE", "WRONG_PAGE", "Part", "Track", "is_beyond_page"]

MISSES_MAX = 3
"""Give up a company for this run after this many successful answers in a row with nothing usable about it."""
LEFT_OUT = "the answer says nothing about it"
"""Reason of a miss, and the reason why a company that every answer leaves out counts as unknown."""
EMPTY = "the answer is an empty array"
"""Reason of a failure, and perhaps all that the service says of companies that it does not know."""
WRONG_PAGE, OTHER_MESSAGE = "wrong page", "the service says"
"""Beginnings of reasons that a setting can correct."""
RESTARTS_MAX = 5
"""Give up a company for this run after its pages were inconsistent this many times."""


class Part(NamedTuple):
    """The records of one page of a company, by group, as received."""

    request_id: str
    fetched_at: datetime
    records: dict[str, list[Raw]]


class Track(msgspec.Struct, gc=False):
    """The progress of one company and dataset.

    Attributes:
        expected: Number of records that an earlier run found; None if unknown.
        status: "pending", "answered", "not_found", or another status of `ENDS`.
        next_offset: Records received so far, which is the offset of the next page.
        total: Records that the service holds; None before the first page.
        wider: Limit of the next request, which starts at the first record again: the last page was full and may not
            hold all records, or the pages were inconsistent. 0 otherwise.
        digests: Hashes of the records received so far; empty once all are there.
        misses: Answers in a row without anything usable about the company.
        left_out: Answers in a row that cover other companies but not this one.
        restarts: Restarts from the first page because pages were inconsistent.
        reason: The last problem; if the company failed, the reason.
        attempts: Requests that named the company.
        first_at: Time of the first answer that paid for the company: its first page, an answer to `firmlake check`, or
            an unreadable answer that was charged for.
        answered_at: Time of the last page.
        ended_at: Time at which the company was given up.
        parts: The pages, if records are kept.
    """

    expected: int | None = None
    status: str = "pending"
    next_offset: int = 0
    total: int | None = None
    wider: int = 0
    digests: set[int] = set()
    misses: int = 0
    left_out: int = 0
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
        """Whether another request in this run would be pointless."""
        return self.status == "pending" and (self.misses >= MISSES_MAX or self.restarts >= RESTARTS_MAX)

    @property
    def remaining(self) -> int | None:
        """The number of records to request next, at least one; None before the first page.

        Without a total, it is the number received so far, until a page is not full.
        """
        return self.wider or (self.next_offset or None if self.total is None else max(1, self.total - self.next_offset))

    def add_page(
        self, header: Header, element: Element, *, keeps: bool, doubts: bool, compares: bool, is_shared: bool
    ) -> None:
        """Add the records of a requested page; a page that does not fit counts as a miss.

        Args:
            header: The header of the answer.
            element: The part of the answer about the company, with records.
            keeps: Whether to keep the records, or only to count them.
            doubts: Whether to doubt a total that equals the length of a full first page; see `Progress.settle`.
            compares: Whether to reject a page that repeats records of an earlier page. Earlier versions accepted it.
            is_shared: Whether the answer has records of a company that was not complete. If it has none of this one,
                the service may have cut the answer, and the next answer can hold them: that is no miss.
        """
        count, offset, total, is_whole = element.count, header.offset or 0, element.total, True
        if DATASETS[header.dataset].is_paged:
            if not self._follows(offset, element, compares=compares):
                return None
            if total is None and element.limit is None and count:
                return self.miss("data without pagination, so the number of records is unknown")
            if total is not None and offset + count > total:
                return self.miss(f"{offset + count} records, but a total of {total}")
            if total is not None and count == 0 and offset < total:
                return self.miss(f"an empty page, but a total of {total}", counts=not is_shared)
            is_told = total is not None and (offset + count < total or offset > 0 or not doubts)
            is_whole = offset + count == total if is_told else not _is_full(header, element, count)
            is_longest = offset > 0 or _is_cut(header, element, self.wider)
            self.wider = 0 if is_told or is_whole or is_longest else 2 * _page_size(header, element)
            self.digests = (
                (self.digests if offset else set()) | _digests(element) if compares and not is_whole else set()
            )
        self.next_offset, self.misses = offset + count, 0
        self.name, self.place = element.name, element.place
        self.answered_at = header.fetched_at
        self.first_at = self.first_at or header.fetched_at
        if keeps:
            self.parts.append(Part(header.request_id, header.fetched_at, element.records or {}))
        if is_whole:
            self.status = "answered"
        return None

    def _follows(self, offset: int, element: Element, *, compares: bool) -> bool:
        """Return whether a page continues the earlier ones; otherwise restart, or count a miss."""
        if element.offset not in (None, offset):
            reason = f"{WRONG_PAGE}: records from {element.offset} on, where those from {offset} on were asked for"
            if offset and self.total and not self.restarts:
                self.restart(reason, self.total)  # the service may still respect the limit
            else:
                self.miss(reason)
            return False
        if offset == 0:
            self.parts, self.next_offset, self.total = [], 0, element.total
        elif (offset, element.total) != (self.next_offset, self.total):
            most = max(element.total or 0, self.total or 0)
            self.restart("the number of records changed between pages", most)
            return False
        elif compares and not self.digests.isdisjoint(_digests(element)):
            self.restart("a page repeats records of an earlier one", element.total)
            return False
        return True

    def restart(self, reason: str, wider: int | None = None) -> None:
        """Restart from the first page, because the pages received so far are inconsistent.

        If the number of records is known, all are requested at once: a single page cannot be inconsistent.
        """
        self.parts, self.next_offset, self.total, self.wider, self.digests = [], 0, None, wider or 0, set()
        self.restarts += 1
        self.reason = reason

    def miss(self, reason: str, *, counts: bool = True) -> None:
        """Note an answer without anything usable about the company, and count it unless it may have been cut."""
        if self.status == "pending":
            self.misses += counts
            self.reason = reason

    def end(self, header: Header) -> None:
        """Set the final status from a header of a kind in `ENDS`. A company that was found before cannot be unknown."""
        if self.status == "pending":
            self.status, self.reason, self.ended_at = ENDS[header.kind], header.error, header.fetched_at
            if self.status == "not_found" and self.first_at:
                self.status = "failed"
            if self.status == "not_found":
                self.answered_at = header.fetched_at


def is_beyond_page(header: Header, element: Element) -> bool:
    """Return whether a total exceeds what its page can hold, which proves that it counts more than that page.

    A page can hold what was requested, or what it actually holds if the service sent more.
    """
    if header.limit is None or not element.total:
        return False
    return element.total > (header.offset or 0) + max(header.limit, element.count)


# ---------------------------------------------------------------------------------------------------------------------


def _digests(element: Element) -> set[int]:
    return {xxh3_64_intdigest(raw) for raws in (element.records or {}).values() for raw in raws}


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
