"""Track progress from landed answers: for each company and dataset, the pages received and what is missing.

The same rules apply while answers arrive, when a run resumes and when tables are made, so all three agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from firmlake.api.answers import read_answer
from firmlake.api.contract import DATASETS
from firmlake.api.element import Element
from firmlake.api.unknown import says_unknown
from firmlake.core.company import Company
from firmlake.core.errors import UnusableAnswerError
from firmlake.core.settings import NameSettings
from firmlake.landing.segments import ENDS, PROVEN, Header, credits_in
from firmlake.landing.track import EMPTY, LEFT_OUT, OTHER_MESSAGE, Track, is_beyond_page

__all__ = ["Progress", "check_answer"]


class Progress:
    """The progress of a shard: one track for each company and dataset.

    Args:
        wanted: Each dataset with its companies, in the order of the company list, and their values of `Track.expected`.
        names: The messages and headers of the service.
        free: Companies inside their paid window before this run.
        keep_records: Whether records are kept for staging; otherwise they are only counted.
        doubts_totals: Whether a full page whose total equals its length is doubted; see `settle`.

    Attributes:
        free: Companies inside their paid window before this run.
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
        free: frozenset[Company] = frozenset(),
        *,
        keep_records: bool = False,
        doubts_totals: bool = False,
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
        self._doubts = doubts_totals
        self._proven: set[str] = set()
        self._noted: set[str] = set()

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

    def is_paid(self, company: Company, before: datetime | None = None) -> bool:
        """Return whether a company is paid for: before this run, or by an answer of this run before some time."""
        if company in self.free:
            return True
        for tracks in self.datasets.values():  # a loop, because this is asked for each company of each request
            track = tracks.get(company)
            if track and track.first_at and (before is None or track.first_at < before):
                return True
        return False

    def pending(self, dataset: str) -> dict[Company, Track]:
        """Return the companies still to ask for, in the order of the company list."""
        self.settle()
        return {company: track for company, track in self.datasets[dataset].items() if track.status == "pending"}

    def settle(self) -> None:
        """Mark companies as answered whose totals were doubted and are now proven.

        Some services report the length of the page as the total, so a company with a full first page would seem
        complete. One total larger than its page proves that the totals of the dataset are real. The first answer
        usually has one, so no further request is needed. Without proof, a full page is requested again with twice the
        limit, until a page is not full. Call this once everything that has landed so far is absorbed.

        The proof is recorded too (`PROVEN`), because `firmlake forget` may remove the answer that gave it.
        """
        for dataset in self._proven:
            for track in self.datasets[dataset].values():
                if track.status == "pending" and 0 < track.next_offset == track.total:
                    track.status, track.wider = "answered", 0

    def unnoted(self) -> list[str]:
        """Return the datasets whose totals are proven, but whose proof is not recorded yet."""
        return sorted(self._proven - self._noted) if self._doubts else []

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

        Args:
            header: Header of the record.
            body: The answer as received.
            elements: The result of `check_answer`, if known already; None reads the body.
        """
        if header.kind == PROVEN:
            self._proven.add(header.dataset)
            self._noted.add(header.dataset)
            return
        of_dataset = self.datasets[header.dataset]
        asked = [(company, of_dataset[company]) for company in header.companies if company in of_dataset]
        if header.kind in ENDS:
            for _, track in asked:
                track.end(header)
            return
        if header.kind == "probe":
            if asked and header.is_success:
                self._note_paid(header, asked, body)
            return
        reason = ""
        if header.kind == "no_answer" or not header.is_success:
            reason = header.error or f"status {header.status}"
        else:
            try:
                elements = elements or check_answer(header.dataset, body)
            except UnusableAnswerError as error:
                reason = error.message  # one company may be the reason, so none gets a miss
        for _, track in asked:
            track.attempts += 1
            track.request_id = header.request_id
            track.reason = reason or track.reason
        if elements and not reason:
            self._absorb_elements(header, asked, elements)
        else:
            self._note_charged(header, asked)

    def _absorb_elements(
        self, header: Header, asked: Sequence[tuple[Company, Track]], elements: Sequence[Element]
    ) -> None:
        if header.dataset not in self._proven and any(is_beyond_page(header, element) for element in elements):
            self._proven.add(header.dataset)
        if [element.company for element in elements] == [company for company, _ in asked]:  # usual, and faster
            said = elements
        else:
            said = self._match(header, asked, elements)
        is_shared = any(
            track.status == "pending" and element.count for (_, track), element in zip(asked, said, strict=True)
        )
        for (company, track), element in zip(asked, said, strict=True):
            if track.status in ("answered", "not_found"):
                continue
            track.left_out = track.left_out + 1 if element is _SILENCE else 0
            if element.problem:
                track.miss(element.problem)
            elif self._tells(element):
                doubts = self._doubts and header.dataset not in self._proven
                track.add_page(
                    header, element, keeps=self._keeps, doubts=doubts, compares=self._doubts, is_shared=is_shared
                )
            elif not says_unknown(self._names, Company(*company), element.message or ""):
                track.miss(f"{OTHER_MESSAGE}: {element.message}")
            elif track.next_offset:
                track.restart("it was found, and then not found")
            else:
                track.status, track.answered_at = "not_found", header.fetched_at
        self.unknown += [(header, path) for element in elements for path in element.unknown]
        if not DATASETS[header.dataset].is_paged:
            self.cut += [(header, cut) for element in elements if (cut := _cut(element))]

    def _tells(self, element: Element) -> bool:
        """Return whether an element holds the records of its company."""
        return element.records is not None and (element.message or "").casefold() in ("", self._fine)

    def _note_paid(self, header: Header, asked: Sequence[tuple[Company, Track]], body: bytes) -> None:
        """Mark as paid the companies that an answer to `firmlake check` covers, in bulk or for one company."""
        try:
            elements = read_answer(header.dataset, body if body.lstrip().startswith(b"[") else b"[%b]" % body)
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
        if charged == len(header.companies) and not any(self.is_paid(each, before=at) for each in header.companies):
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


def check_answer(dataset: str, body: bytes) -> list[Element]:
    """Read a bulk answer and check that it names a company.

    Raises:
        UnusableAnswerError: The answer cannot be read or names no company. Ask again.
    """
    elements = read_answer(dataset, body)
    if elements and all(element.company is None for element in elements):
        raise UnusableAnswerError(f"no element names a company: {elements[0].problem}")
    if not elements:
        raise UnusableAnswerError(EMPTY)
    return elements


def _cut(element: Element) -> str:
    """Describe how many records are missing; empty if none are, or if there is no total."""
    return f"{element.company}: {element.count} of {element.total}" if element.count < (element.total or 0) else ""


_SILENCE = Element(None, problem=LEFT_OUT)


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
