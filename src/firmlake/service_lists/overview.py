"""Read the overview of service lists page by page, completely even if lists change in the meantime.

A list can slip through between two pages: if an earlier list vanishes, the next one moves to a page already read. An
overview of more than one page is therefore read again from the start, until two sweeps in a row find the same lists
and as many as the service states. If no two sweeps agree, the lists of the last two sweeps count, because two sweeps
in a row hardly ever miss the same list. If the service states no total, or only the length of a page, pages are read
until one has nothing new.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from firmlake import __version__
from firmlake.api import requests
from firmlake.api.client import Answer, Client
from firmlake.api.requests import ListKind
from firmlake.core.clock import utc_now
from firmlake.core.errors import RequestRefusedError, ServiceError, UnusableAnswerError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.run import new_run_id
from firmlake.core.settings import Settings
from firmlake.landing.segments import Header, SegmentWriter, answered, list_segments, read_segment
from firmlake.privacy.persons import answer_filter
from firmlake.service_lists.decode import Listed, ListedPage, read_list_page
from firmlake.service_lists.persons import concealer

__all__ = ["Overview", "OverviewPlan", "list_overviews", "take_overview"]

SWEEPS_MAX = 5
_TOO_FEW = (
    "No list was changed, so run again later. If that does not help, set api.names.limit and api.names.offset to the "
    "service's paging parameters"
)
_REFUSED = (
    "If the pages are too long for the service, lower api.page_limit_max; if its paging parameters have other names, "
    "set api.names.limit and api.names.offset"
)
_PAGES_MAX = 10_000


class OverviewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an overview, written before its first request."""

    overview_id: str
    kind: ListKind
    service: str
    started_at: datetime
    firmlake_version: str
    is_look: bool = False
    """Whether the overview only looks up a list and is not loaded into the warehouse."""
    doubts_totals: bool = False
    """Whether to doubt the total of a full page if it does not exceed the page. Earlier versions trusted it."""


class Seen(NamedTuple):
    """A list as an answer showed it."""

    listed: Listed
    fetched_at: datetime


class Overview(NamedTuple):
    """All lists of one kind, or of both.

    Attributes:
        lists: By id, as last seen.
        finished_at: When the last page was received.
        sweeps: How often the lists were read from the start.
        is_consistent: Whether two sweeps agreed, or one page held all lists.
    """

    plan: OverviewPlan
    lists: dict[int, Seen]
    finished_at: datetime
    sweeps: int
    is_consistent: bool


def take_overview(
    client: Client,
    settings: Settings,
    folders: Folders,
    service: str,
    kind: ListKind = "OVERVIEW",
    now: Callable[[], datetime] = utc_now,
    *,
    is_look: bool = False,
) -> Overview:
    """Request all service lists; every answer lands before anything acts on it.

    Args:
        client: The service.
        settings: Page size, and how to store the maker of a list.
        folders: Where answers land.
        service: The service's name.
        kind: `OVERVIEW` is static and smart lists.
        now: The clock, UTC.
        is_look: Whether to look up a list only; see `OverviewPlan`.

    Raises:
        FirmlakeError: As `Client.send`.
        ServiceError: The service states more lists than its pages hold. Run again later.
    """
    conceal, clean = concealer(settings.lists, folders), answer_filter(settings.privacy, folders)
    began = now()
    plan = OverviewPlan(
        overview_id=new_run_id(began),
        kind=kind,
        service=service,
        started_at=began,
        firmlake_version=__version__,
        is_look=is_look,
        doubts_totals=True,
    )
    _remove_never_started(folders)
    folder = folders.overviews / f"overview={plan.overview_id}"
    write_json(folder / "plan.json", plan)
    sweeps = _Sweeps(plan)
    with SegmentWriter(folder) as writer:
        while page := sweeps.next_page():
            number, offset = page
            request = requests.service_lists(settings.api, kind, settings.api.page_limit_max, offset)

            def land(answer: Answer, number: int = number, offset: int = offset) -> None:
                header = _header(plan, number, offset, answer)
                body = clean(conceal(answer.body))
                writer.append(header, body)
                sweeps.absorb(header, body)

            try:
                client.send(request, read_list_page, on_answer=land)
            except RequestRefusedError as error:
                raise RequestRefusedError(error.message, error.next_step or _REFUSED) from error
    found = sweeps.result()
    if found is None:
        raise ServiceError(f"The service states {sweeps.total} lists, but pages hold {sweeps.shown_count}", _TOO_FEW)
    return found


def list_overviews(folders: Folders) -> list[Overview]:
    """Read the completed overviews, oldest first.

    Raises:
        DamagedError: A landed file was changed.
    """
    found = map(_read_overview, folders.overviews.glob("overview=*"))
    return sorted((one for one in found if one is not None), key=lambda one: one.plan.started_at)


class _Sweeps:
    """The state of an overview after the pages so far, whether they just arrived or are reread."""

    def __init__(self, plan: OverviewPlan) -> None:
        self._plan = plan
        self._found: list[dict[int, Seen]] = [{}]
        self._pages = 0
        self._on_first_page = 0
        self._offset = 0
        self._finished_at: datetime | None = None
        self._is_consistent = False
        self._is_over = False
        self.total: int | None = 0
        self._is_total_known = True

    @property
    def shown_count(self) -> int:
        """Lists of the last two sweeps."""
        return len(self._lists())

    def next_page(self) -> tuple[int, int] | None:
        """Return the sweep and offset of the next page; None at the end."""
        return None if self._is_over else (len(self._found), self._offset)

    def absorb(self, header: Header, body: bytes) -> None:
        """Add one landed answer, in landing order. An unusable answer is skipped, and its page requested again."""
        if self._is_over or header.kind != "answer" or not header.is_success:
            return
        if (header.shard, header.offset) != self.next_page():
            return
        try:
            page = read_list_page(body)
        except UnusableAnswerError:
            return
        last = self._found[-1]
        known = len(last)
        last |= {listed.entry.id: Seen(listed, header.fetched_at) for listed in page.lists}
        self._finished_at = header.fetched_at
        has_news = len(last) > known
        self._learn_total(page, has_news)
        self._pages += 1
        self._offset += len(page.lists)
        self._on_first_page = len(last) if self._pages == 1 else self._on_first_page
        is_full = self._plan.doubts_totals and len(page.lists) in (page.limit, header.limit)
        if self.total is None or (is_full and self.total <= len(page.lists)):  # a page with nothing new is the end
            is_last = not has_news
        else:
            is_last = self._offset >= self.total
        if is_last or not page.lists or self._pages >= _PAGES_MAX:
            self._end_sweep()

    def result(self) -> Overview | None:
        """Return the overview; None if it is incomplete or shows fewer lists than it states."""
        lists = self._lists()
        if not self._is_over or self._finished_at is None or len(lists) < (self.total or 0):
            return None
        return Overview(self._plan, lists, self._finished_at, len(self._found), self._is_consistent)

    def _lists(self) -> dict[int, Seen]:
        counted = self._found[-1:] if self._is_consistent else self._found[-2:]
        return {number: seen for sweep in counted for number, seen in sweep.items()}

    def _learn_total(self, page: ListedPage, has_news: bool) -> None:
        """Read the total of a page. A total that new lists exceed counts only its page, so no total is known then."""
        if self._offset and not page.lists:
            return  # beyond the last list, a total may be 0
        if page.total is None or (has_news and self._offset >= page.total):
            self._is_total_known = False
        self.total = page.total if self._is_total_known else None

    def _end_sweep(self) -> None:
        last = self._found[-1]
        is_whole = self.total is None or len(last) == self.total
        agrees = len(self._found) > 1 and last.keys() == self._found[-2].keys()
        self._is_consistent = is_whole and (agrees or len(last) == self._on_first_page)
        self._is_over = self._is_consistent or len(self._found) == SWEEPS_MAX
        if not self._is_over:
            self._found.append({})
            self._pages = self._offset = 0


def _remove_never_started(folders: Folders) -> None:
    """Remove overviews that crashed before their first request; none of their answers can have landed."""
    for folder in folders.overviews.glob("overview=*"):
        if not (folder / "plan.json").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _read_overview(folder: Path) -> Overview | None:
    path = folder / "plan.json"
    if not path.exists():
        return None
    plan = read_json(path, OverviewPlan, "Restore it from a copy, or remove its folder")
    sweeps = _Sweeps(plan)
    for segment in list_segments(folder):
        for landed in read_segment(segment):
            sweeps.absorb(landed.header, landed.body)
    return sweeps.result()


def _header(plan: OverviewPlan, number: int, offset: int, answer: Answer) -> Header:
    asked = Header(
        request_id=f"{plan.overview_id}-{number}-{offset}",
        run_id=plan.overview_id,
        shard=number,
        dataset="service_lists",
        companies=(),
        limit=answer.request.limit,
        offset=offset,
        fetched_at=answer.fetched_at,
    )
    return answered(asked, answer)
