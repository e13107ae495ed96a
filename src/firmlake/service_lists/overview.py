"""Read the overview of service lists page by page, completely even if lists change in the meantime.

A list can slip through between two pages: if an earlier list vanishes, the next one moves to a page already read. If
the pages do not hold as many lists as each of them states, the overview is therefore read once more from the start. If
the second sweep is no better, the lists of both count. If the service states no total, or only the length of a page,
pages are read until one has nothing new.
"""

from __future__ import annotations

import hmac
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from firmlake import __version__
from firmlake.api import requests
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.api.requests import ListKind
from firmlake.core.clock import utc_now
from firmlake.core.errors import RequestRefusedError, ServiceError, UnusableAnswerError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import ListSettings, Settings
from firmlake.landing.run import new_run_id
from firmlake.landing.segments import Header, SegmentWriter, answered, list_segments, read_segment
from firmlake.privacy.document import Number, Object, Place, looks_like_json, read, rewrite, write
from firmlake.privacy.key import read_key
from firmlake.privacy.persons import answer_filter, speaks_of_person, words_of
from firmlake.service_lists.decode import CREATED_BY, LIST_NAME, Listed, ListedPage, ListEntry, read_list_page

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


class OverviewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an overview, written before its first request."""

    overview_id: str
    kind: ListKind
    service: str
    started_at: datetime
    firmlake_version: str
    is_look: bool = False
    """Whether the overview only looks up a list and is not loaded into the warehouse."""


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
        is_consistent: Whether the last sweep found as many lists as each of its pages states.
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
    conceal, clean = concealer(settings.lists, folders), answer_filter(settings.privacy, folders, settings.contract)
    began = now()
    plan = OverviewPlan(
        overview_id=new_run_id(began),
        kind=kind,
        service=service,
        started_at=began,
        firmlake_version=__version__,
        is_look=is_look,
    )
    _remove_never_started(folders)
    folder = folders.overviews / f"overview={plan.overview_id}"
    write_json(folder / "plan.json", plan)
    reading = _Reading(plan)
    with SegmentWriter(folder) as writer:
        while page := reading.next_page():
            number, offset = page
            request = requests.service_lists(settings.api, kind, settings.api.page_limit_max, offset)

            def land(answer: Answer, number: int = number, offset: int = offset) -> None:
                header = _header(plan, number, offset, answer)
                body = clean(conceal(answer.body))
                writer.append(header, body)
                reading.absorb(header, body)

            try:
                client.send(request, read_list_page, on_answer=land)
            except RequestRefusedError as error:
                raise RequestRefusedError(error.message, error.next_step or _REFUSED) from error
    found = reading.result()
    if found is None:
        total = reading.sweeps[-1].total
        raise ServiceError(f"The service states {total} lists, but pages hold {len(reading.lists)}", _TOO_FEW)
    return found


def list_overviews(folders: Folders) -> list[Overview]:
    """Read the completed overviews, oldest first.

    Raises:
        DamagedError: A landed file was changed.
    """
    found = map(_read_overview, folders.overviews.glob("overview=*"))
    return sorted((one for one in found if one is not None), key=lambda one: one.plan.started_at)


class _Sweep:
    """All pages from the first to the last, as far as they have arrived."""

    def __init__(self) -> None:
        self.lists: dict[int, Seen] = {}
        self.offset = 0
        self.is_over = False
        self._totals: list[int | None] = []
        self._finished_at: list[datetime] = []

    @property
    def total(self) -> int | None:
        """The number of lists that the newest page states; None if a page states none, or only its own length."""
        return None if None in self._totals else self._totals[-1]

    @property
    def is_consistent(self) -> bool:
        """Whether the pages hold as many lists as each of them states."""
        return self.total is None or set(self._totals) == {len(self.lists)}

    @property
    def finished_at(self) -> datetime:
        """When the newest page was received."""
        return self._finished_at[-1]

    def add(self, page: ListedPage, header: Header) -> None:
        """Add the next page; the sweep is over after the last one."""
        known_count, is_beyond_last = len(self.lists), self.offset > 0 and not page.lists
        self.lists |= {listed.entry.id: Seen(listed, header.fetched_at) for listed in page.lists}
        self._finished_at.append(header.fetched_at)
        has_news = len(self.lists) > known_count
        if not is_beyond_last:  # where a total may be 0
            is_exceeded = page.total is not None and has_news and self.offset >= page.total
            self._totals.append(None if is_exceeded else page.total)
        self.offset += len(page.lists)
        is_full = len(page.lists) in (page.limit, header.limit)
        if self.total is None or (is_full and self.total <= len(page.lists)):  # it may be the total of the page
            self.is_over = not has_news
        else:
            self.is_over = self.offset >= self.total
        self.is_over |= not page.lists or len(self._finished_at) >= _PAGES_MAX


class _Reading:
    """The sweeps of an overview, whether its pages just arrived or are read again."""

    def __init__(self, plan: OverviewPlan) -> None:
        self._plan = plan
        self.sweeps = [_Sweep()]

    def next_page(self) -> tuple[int, int] | None:
        """Return the sweep and offset of the next page; None at the end."""
        return None if self.sweeps[-1].is_over else (len(self.sweeps), self.sweeps[-1].offset)

    def absorb(self, header: Header, body: bytes) -> None:
        """Add one landed answer, in landing order. An unusable answer is skipped, and its page requested again."""
        is_next = (header.shard, header.offset) == self.next_page()
        if not is_next or header.kind != "answer" or not header.is_success:
            return
        try:
            page = read_list_page(body)
        except UnusableAnswerError:
            return
        sweep = self.sweeps[-1]
        sweep.add(page, header)
        if sweep.is_over and not sweep.is_consistent and len(self.sweeps) < SWEEPS_MAX:
            self.sweeps.append(_Sweep())

    @property
    def lists(self) -> dict[int, Seen]:
        """The lists of the last sweep, and of all if it is not consistent."""
        counted = self.sweeps[-1:] if self.sweeps[-1].is_consistent else self.sweeps
        return {number: seen for sweep in counted for number, seen in sweep.lists.items()}

    def result(self) -> Overview | None:
        """Return the overview; None if it is incomplete or shows fewer lists than it states."""
        last = self.sweeps[-1]
        if not last.is_over or len(self.lists) < (last.total or 0):
            return None
        return Overview(self._plan, self.lists, last.finished_at, len(self.sweeps), last.is_consistent)


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
    reading = _Reading(plan)
    for segment in list_segments(folder):
        for landed in read_segment(segment):
            reading.absorb(landed.header, landed.body)
    return reading.result()


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


_ADDRESS = re.compile(r"[^\s\"\\@<>(),;:\[\]{}]{1,320}+@[^\s\"\\@<>(),;:\[\]{}]{1,320}+")
_KNOWN = {field.encode_name for field in msgspec.structs.fields(ListEntry)}
_HASH_DIGITS = 32

Conceal = Callable[[Any], str | None]
"""What takes the place of a value that names a person; None for null."""


def concealer(settings: ListSettings, folders: Folders) -> Callable[[bytes], bytes]:
    """Return a function that replaces the makers' addresses in an answer, as set by `lists.created_by`.

    The keyed hash (HMAC-SHA256, cut to 128 bits) of a person is the same in every answer, whatever the case of the
    address. Without the key, nobody can compare it with a list of addresses. The key is created when first needed,
    readable only by its owner.

    Raises:
        SettingsError: The key cannot be read or made.
    """
    if settings.created_by == "as_is":
        return lambda body: body
    if settings.created_by == "omit":
        return partial(_conceal, conceal=lambda value: None)
    key = read_key(Path(settings.created_by_key_file or folders.state / "created_by.key"), "lists.created_by_key_file")
    return partial(_conceal, conceal=partial(_hash, key))


def _conceal(body: bytes, conceal: Conceal) -> bytes:
    try:
        page = read(body)
    except ValueError:
        return b"" if looks_like_json(body) else _without_addresses(body.decode("latin-1"), conceal).encode("latin-1")
    lists = _lists_of(page)
    concealed = rewrite(page, partial(_conceal_maker, conceal=conceal))
    has_addresses = lists is None or _has_address_beside_names(concealed)
    if lists is None or any(CREATED_BY not in dict(entry) for entry in lists):
        concealed = rewrite(concealed, partial(_conceal_person, conceal=conceal))
    if has_addresses:
        concealed = rewrite(concealed, partial(_conceal_addresses, conceal=conceal))
    return body if concealed == page else write(concealed)


def _conceal_maker(place: Place, conceal: Conceal) -> Any:
    return conceal(place.value) if place.key == CREATED_BY and place.value is not None else place.value


def _conceal_person(place: Place, conceal: Conceal) -> Any:
    is_text = isinstance(place.value, str) and not isinstance(place.value, Number)
    return conceal(place.value) if is_text and _is_about_person(place) else place.value


def _lists_of(page: Any) -> list[Object] | None:
    lists = page.get("data") if isinstance(page, Object) else None
    return lists if isinstance(lists, list) and all(isinstance(entry, Object) for entry in lists) else None


def _has_address_beside_names(page: Any) -> bool:
    found: list[Place] = []

    def look(place: Place) -> Any:
        is_name = place.key == LIST_NAME and place.outer and place.outer.outer and place.outer.outer.key == "data"
        if not is_name and _texts_of(place.value) and _ADDRESS.search(_texts_of(place.value)):
            found.append(place)
        return place.value

    rewrite(page, look)
    return bool(found)


def _texts_of(value: Any) -> str:
    """Return a text, or the keys of an object."""
    if isinstance(value, Object):
        return "\n".join(key for key, _ in value)
    return value if isinstance(value, str) else ""


def _conceal_addresses(place: Place, conceal: Conceal) -> Any:
    if isinstance(place.value, Object):
        return Object((_without_addresses(key, conceal), item) for key, item in place.value)
    is_text = isinstance(place.value, str) and not isinstance(place.value, Number)
    return _without_addresses(place.value, conceal) if is_text else place.value


def _without_addresses(text: str, conceal: Conceal) -> str:
    return _ADDRESS.sub(lambda found: conceal(found[0]) or "omitted", text)


def _is_about_person(place: Place) -> bool:
    """Return whether an unknown key suggests a person, or the text is a name inside an unknown object of a list."""
    keys = place.keys[::-1]
    unknown = [key for key in keys if key not in _KNOWN]
    if any(speaks_of_person(key, even_by_id=True) for key in unknown):
        return True
    return keys[:1] == ["data"] and "name" in words_of(keys[-1]) and any(key in unknown for key in keys[1:-1])


def _hash(key: bytes, value: Any) -> str:
    text = value if isinstance(value, str) else write(value).decode("utf-8", "replace")
    content = text.strip().casefold().encode("utf-8", "surrogatepass")
    return hmac.new(key, content, "sha256").hexdigest()[:_HASH_DIGITS]
