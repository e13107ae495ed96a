"""Read the overview of service lists page by page, completely even if lists change in the meantime.

A list can slip through between two pages: if an earlier list vanishes, the next one moves to a page already read. If
the pages do not hold as many lists as each of them states, the overview is therefore read once more from the start. If
the second sweep is no better, the lists of both count. If the service states no total, or only the length of a page,
pages are read until one has nothing new.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Raw

from firmlake import __version__
from firmlake.api import requests
from firmlake.api.answers import UNREADABLE
from firmlake.api.client import Client
from firmlake.api.contract import RECORDS, Count
from firmlake.api.exchange import Answer
from firmlake.api.requests import ListKind
from firmlake.api.service import service_name
from firmlake.core.errors import RequestRefusedError, ServiceError, UnusableAnswerError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import Settings
from firmlake.core.work import utc_now
from firmlake.landing.run import new_run_id
from firmlake.landing.segments import Header, SegmentWriter, answered, list_segments, read_segment
from firmlake.privacy.persons import answer_filter, concealer
from firmlake.tables.flatten import DRIFT, Gathered, gather_records, merge_drift, moments
from firmlake.tables.leaves import read_object
from firmlake.tables.records import read_records

SWEEPS_MAX = 2
_TOO_FEW = (
    "No list was changed, so run again later. If that does not help, write {limit} and {offset} in "
    "api.requests.service_lists where the service has its paging parameters"
)
_REFUSED = (
    "If the pages are too long for the service, lower api.page_limit_max; if its paging parameters have other names, "
    "set {limit} and {offset} in api.requests.service_lists"
)
_PAGES_MAX = 10_000
_FIELDS = RECORDS["service_lists"].fields
_KEYS = {field.path.partition(".")[0] for field in _FIELDS.values()}


class OverviewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an overview, written before its first request.

    With `is_look`, it only looks up a list and is not loaded.
    """

    overview_id: str
    kind: ListKind
    service: str
    started_at: datetime
    firmlake_version: str
    is_look: bool = False


class ListPage(NamedTuple):
    """A page of the overview; total and limit as the service states them, None if it does not."""

    ids: list[int]
    records: list[Raw]
    total: int | None
    limit: int | None


class Overview(NamedTuple):
    """All lists of one kind, or of both.

    Attributes:
        lists: By id, the record as last seen, and when.
        finished_at: When the last page was received.
        sweeps: How often the lists were read from the start.
        is_consistent: Whether the last sweep found as many lists as each of its pages states.
    """

    plan: OverviewPlan
    lists: dict[int, tuple[Raw, datetime]]
    finished_at: datetime
    sweeps: int
    is_consistent: bool

    def gather(self) -> Gathered:
        """Return the lists as rows, in the order of their ids, with their differences from the contract.

        A field counts as vanished if every list lacks it.
        """
        seen = [self.lists[number] for number in sorted(self.lists)]
        records, times = [record for record, _ in seen], [fetched_at for _, fetched_at in seen]
        found = gather_records("service_lists", "list", records, pl.DataFrame({"fetched_at": moments(times)}))
        keys = {key for record in records for key in read_object(record)}
        vanished = [field.path for field in _FIELDS.values() if seen and field.path.partition(".")[0] not in keys]
        first = found.frame["fetched_at"].min()
        rows = [("service_lists", "vanished_field", path, None, len(seen), first) for path in vanished]
        drift = pl.concat([found.drift, pl.DataFrame(rows, schema=DRIFT, orient="row")])
        return found._replace(drift=merge_drift(drift))


def take_overview(
    client: Client,
    settings: Settings,
    kind: ListKind = "OVERVIEW",
    now: Callable[[], datetime] = utc_now,
    *,
    is_look: bool = False,
) -> Overview:
    """Request all service lists; every answer lands before anything acts on it. `OVERVIEW` is static and smart lists.

    Raises what `Client.send` raises, and ServiceError if the service states more lists than its pages hold.
    """
    folders, began = Folders.of(settings), now()
    conceal = concealer(settings.lists, folders, _KEYS)
    clean = answer_filter(settings.privacy, folders, settings.contract)
    overview_id = new_run_id(began)
    plan = OverviewPlan(
        overview_id=overview_id, kind=kind, service=service_name(settings), started_at=began,
        firmlake_version=__version__, is_look=is_look,
    )  # fmt: skip
    for unused in folders.overviews.glob("overview=*"):  # of a crash before the first request
        if not (unused / "plan.json").exists():
            shutil.rmtree(unused, ignore_errors=True)
    folder = folders.overviews / f"overview={overview_id}"
    write_json(folder / "plan.json", plan)
    with SegmentWriter(folder) as writer:

        def ask(sweep: int, offset: int) -> tuple[Header, ListPage]:
            bodies = []

            def land(answer: Answer) -> None:
                header = Header(
                    request_id=f"{overview_id}-{sweep}-{offset}", run_id=overview_id, shard=sweep,
                    dataset="service_lists", companies=(), limit=answer.request.limit, offset=offset,
                    fetched_at=answer.fetched_at,
                )  # fmt: skip
                bodies.append(clean(conceal(answer.body)))
                writer.append(answered(header, answer), bodies[-1])

            request = requests.service_lists(settings.api, kind, settings.api.page_limit_max, offset)
            try:
                client.send(request, read_list_page, on_answer=land)
            except RequestRefusedError as error:
                raise RequestRefusedError(error.message, error.next_step or _REFUSED) from error
            return writer.headers[-1], read_list_page(bodies[-1])

        return _read_overview(plan, ask)


def list_overviews(folders: Folders) -> list[Overview]:
    """Read the completed overviews, oldest first."""
    found = []
    for path in folders.overviews.glob("overview=*/plan.json"):
        plan = read_json(path, OverviewPlan, "Restore it from a copy, or remove its folder")
        pages = {}
        for landed in (one for segment in list_segments(path.parent) for one in read_segment(segment)):
            header = landed.header
            if header.kind == "answer" and header.is_success:
                with suppress(UnusableAnswerError):  # so the page was requested again
                    pages[header.shard, header.offset] = header, read_list_page(landed.body)
        with suppress(KeyError, ServiceError):  # a page is missing, or there are too few lists
            found.append(_read_overview(plan, lambda *place, pages=pages: pages[place]))
    return sorted(found, key=lambda one: one.plan.started_at)


def _read_overview(plan: OverviewPlan, ask: Callable[[int, int], tuple[Header, ListPage]]) -> Overview:
    """Read all lists by a function that returns the page of a sweep, from 1, and an offset, now or as it landed."""
    earlier: dict[int, tuple[Raw, datetime]] = {}
    for sweep in range(1, SWEEPS_MAX + 1):
        pages = list(_read_pages(partial(ask, sweep)))
        lists = {
            number: (record, header.fetched_at)
            for header, page in pages
            for number, record in zip(page.ids, page.records, strict=True)
        }
        header, page = pages[-1]
        totals = {page.total for _, page in pages}
        is_consistent = None in totals or totals == {len(lists)}
        lists = earlier = lists if is_consistent else earlier | lists
        if is_consistent:
            break
    if len(lists) < (page.total or 0) and not is_consistent:
        raise ServiceError(f"The service states {page.total} lists, but pages hold {len(lists)}", _TOO_FEW)
    return Overview(plan, lists, header.fetched_at, sweep, is_consistent)


def _read_pages(ask: Callable[[int], tuple[Header, ListPage]]) -> Iterator[tuple[Header, ListPage]]:
    """Yield all pages, at least one; a total of which lists stand beyond it becomes None."""
    known, offset, has_total = set[int](), 0, True
    for _ in range(_PAGES_MAX):
        header, page = ask(offset)
        if offset and not page.ids:  # beyond the last page, where a total may be 0
            return
        has_news, size = not known.issuperset(page.ids), len(page.ids)
        total = None if has_news and offset >= (page.total or 0) else page.total
        yield header, page._replace(total=total)
        known.update(page.ids)
        offset, has_total = offset + size, has_total and total is not None
        is_full = size in (page.limit, header.limit)
        goal = None if total is None or not has_total or (is_full and total <= size) else total
        if not size or (offset >= goal if goal is not None else not has_news):  # a total may be that of the page
            return


class _Pagination(msgspec.Struct, frozen=True):
    limit: Count | None = None
    total: Count | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[Raw] | None
    pagination: _Pagination | None = None


_PAGE = msgspec.json.Decoder(_Page, strict=False)  # a total may be a text


def read_list_page(body: bytes) -> ListPage:
    """Read a page of the overview of service lists.

    Raises UnusableAnswerError if it is none, or if a list has no id or type: skipping that list would report it as
    gone.
    """
    try:
        page = _PAGE.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it is not an overview of lists: {error}") from None
    stated, records = page.pagination or _Pagination(), page.data or []
    if page.data is None and stated.total != 0:
        raise UnusableAnswerError("it is not an overview of lists: data is null")
    read = read_records("service_lists", "list", records)
    for reject in read.rejects:
        if reject.effect == "record":
            place = ".".join(filter(None, (f"data[{reject.record}]", reject.path)))
            raise UnusableAnswerError(f"it is not an overview of lists: {place}: {reject.reason}")
    return ListPage(read.frame["list_id"].to_list(), records, stated.total, stated.limit)
