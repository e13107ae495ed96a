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
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Raw

from firmlake import __version__
from firmlake.api import requests
from firmlake.api.answers import UNREADABLE
from firmlake.api.client import Client
from firmlake.api.contract import Count
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
    """The plan of an overview, written before its first request.

    Attributes:
        is_look: Whether the overview only looks up a list and is not loaded into the warehouse.
    """

    overview_id: str
    kind: ListKind
    service: str
    started_at: datetime
    firmlake_version: str
    is_look: bool = False


class Notifications(msgspec.Struct, frozen=True):
    """Whether the owner of a service list is notified of changes."""

    enabled: bool | None = None


BigInt = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that a BIGINT holds."""


class ListEntry(msgspec.Struct, frozen=True):
    """One service list of the overview; only id and type are required."""

    id: BigInt
    type: str
    name: str | None = None
    columns: tuple[str, ...] = ()
    shared: bool | None = None
    notifications: Notifications | None = None
    company_count: BigInt | None = msgspec.field(name="amountOfCompanies", default=None)
    new_result_count: BigInt | None = msgspec.field(name="newResults", default=None)
    updated_at: datetime | None = msgspec.field(name="updatedAt", default=None)
    created_at: datetime | None = msgspec.field(name="createdAt", default=None)
    created_by: str | None = msgspec.field(name="createdBy", default=None)


class Difference(NamedTuple):
    """A harmless difference from the contract: kind, path and example as in the table `drift`."""

    kind: str
    path: str
    example: str | None


class Listed(NamedTuple):
    """A list of the overview.

    Attributes:
        unknown: Fields that the contract does not know, and known fields whose values do not fit, as one JSON object;
            None if there are none. `entry` does not have them.
        differences: One for each unknown or absent field, and for each value that does not fit.
    """

    entry: ListEntry
    unknown: str | None
    differences: tuple[Difference, ...]


class ListedPage(NamedTuple):
    """A page of the overview; total and limit as the service states them, None if it does not."""

    lists: list[Listed]
    total: int | None
    limit: int | None


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
    overview_id = new_run_id(began)
    plan = OverviewPlan(
        overview_id=overview_id, kind=kind, service=service, started_at=began, firmlake_version=__version__,
        is_look=is_look,
    )  # fmt: skip
    for unused in folders.overviews.glob("overview=*"):  # of a crash before the first request
        if not (unused / "plan.json").exists():
            shutil.rmtree(unused, ignore_errors=True)
    folder = folders.overviews / f"overview={overview_id}"
    write_json(folder / "plan.json", plan)
    reading = _Reading(plan)
    with SegmentWriter(folder) as writer:
        while page := reading.next_page():
            sweep, offset = page
            request = requests.service_lists(settings.api, kind, settings.api.page_limit_max, offset)

            def land(answer: Answer, sweep: int = sweep, offset: int = offset) -> None:
                header, body = _header(overview_id, sweep, offset, answer), clean(conceal(answer.body))
                writer.append(header, body)
                reading.absorb(header, body)

            try:
                client.send(request, read_list_page, on_answer=land)
            except RequestRefusedError as error:
                raise RequestRefusedError(error.message, error.next_step or _REFUSED) from error
    found = reading.result()
    if found is None:
        counts = f"The service states {reading.total} lists, but pages hold {len(reading.lists)}"
        raise ServiceError(counts, _TOO_FEW)
    return found


def list_overviews(folders: Folders) -> list[Overview]:
    """Read the completed overviews, oldest first.

    Raises:
        DamagedError: A landed file was changed.
    """
    found = map(_read_overview, folders.overviews.glob("overview=*/plan.json"))
    return sorted((one for one in found if one is not None), key=lambda one: one.plan.started_at)


def _read_overview(path: Path) -> Overview | None:
    reading = _Reading(read_json(path, OverviewPlan, "Restore it from a copy, or remove its folder"))
    for segment in list_segments(path.parent):
        for landed in read_segment(segment):
            reading.absorb(landed.header, landed.body)
    return reading.result()


def _header(overview_id: str, sweep: int, offset: int, answer: Answer) -> Header:
    asked = Header(
        request_id=f"{overview_id}-{sweep}-{offset}", run_id=overview_id, shard=sweep, dataset="service_lists",
        companies=(), limit=answer.request.limit, offset=offset, fetched_at=answer.fetched_at,
    )  # fmt: skip
    return answered(asked, answer)


class _Reading:
    """The sweeps of an overview, whether its pages just arrived or are read again."""

    def __init__(self, plan: OverviewPlan) -> None:
        self._plan = plan
        self._finished_at = plan.started_at
        self._earlier: dict[int, Seen] = {}
        self._sweep_count = 0
        self._begin_sweep()

    def _begin_sweep(self) -> None:
        self._sweep_count += 1
        self._lists: dict[int, Seen] = {}
        self._totals: list[int | None] = []
        self._offset = self._page_count = 0
        self._is_over = False

    def next_page(self) -> tuple[int, int] | None:
        """Return the sweep and offset of the next page; None at the end."""
        return None if self._is_over else (self._sweep_count, self._offset)

    def absorb(self, header: Header, body: bytes) -> None:
        """Add one landed answer, in landing order. An unusable answer is skipped, and its page requested again."""
        is_next = (header.shard, header.offset) == self.next_page()
        if not is_next or header.kind != "answer" or not header.is_success:
            return
        try:
            self._add(read_list_page(body), header)
        except UnusableAnswerError:
            return
        if self._is_over and not self._is_consistent and self._sweep_count < SWEEPS_MAX:
            self._earlier = self._lists
            self._begin_sweep()

    def _add(self, page: ListedPage, header: Header) -> None:
        """Add the next page; the sweep is over after the last one."""
        known_count, is_beyond_last = len(self._lists), self._offset > 0 and not page.lists
        self._lists |= {listed.entry.id: Seen(listed, header.fetched_at) for listed in page.lists}
        self._finished_at, self._page_count = header.fetched_at, self._page_count + 1
        has_news = len(self._lists) > known_count
        if not is_beyond_last:  # where a total may be 0
            is_exceeded = page.total is not None and has_news and self._offset >= page.total
            self._totals.append(None if is_exceeded else page.total)
        self._offset += len(page.lists)
        is_full = len(page.lists) in (page.limit, header.limit)
        if self.total is None or (is_full and self.total <= len(page.lists)):  # it may be the total of the page
            self._is_over = not has_news
        else:
            self._is_over = self._offset >= self.total
        self._is_over |= not page.lists or self._page_count >= _PAGES_MAX

    @property
    def total(self) -> int | None:
        """The number of lists that the newest page states; None if a page states none, or only its own length."""
        return None if None in self._totals else self._totals[-1]

    @property
    def _is_consistent(self) -> bool:
        """Whether the pages of the last sweep hold as many lists as each of them states."""
        return self.total is None or set(self._totals) == {len(self._lists)}

    @property
    def lists(self) -> dict[int, Seen]:
        """The lists of the last sweep, and of all if it is not consistent."""
        return self._lists if self._is_consistent else self._earlier | self._lists

    def result(self) -> Overview | None:
        """Return the overview; None if it is incomplete or shows fewer lists than it states."""
        if not self._is_over or len(self.lists) < (self.total or 0):
            return None
        return Overview(self._plan, self.lists, self._finished_at, self._sweep_count, self._is_consistent)


class _Pagination(msgspec.Struct, frozen=True):
    limit: Count | None = None
    total: Count | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[Raw] | None
    pagination: _Pagination | None = None


_PAGE = msgspec.json.Decoder(_Page, strict=False)  # a total may be a text
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_NUMBERS = (BigInt, BigInt | None)
_LIST_FIELDS = {
    field.encode_name: (field, msgspec.json.Decoder(field.type, strict=field.type not in _NUMBERS))
    for field in msgspec.structs.fields(ListEntry)
}
_SHOWN = 80


def read_list_page(body: bytes) -> ListedPage:
    """Read a page of the overview of service lists.

    Raises:
        UnusableAnswerError: The body is not such a page, or a list has no id or type. Skipping that list would report
            it as gone.
    """
    try:
        page = _PAGE.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it is not an overview of lists: {error}") from None
    stated = page.pagination or _Pagination()
    if page.data is None and stated.total != 0:
        raise UnusableAnswerError("it is not an overview of lists: data is null")
    return ListedPage([_read_list(raw, place) for place, raw in enumerate(page.data or ())], stated.total, stated.limit)


def _read_list(raw: Raw, place: int) -> Listed:
    """Read a list field by field; values that do not fit are kept as unknown."""
    try:
        fields = _FIELDS.decode(raw)
    except UNREADABLE:
        raise UnusableAnswerError(f"it is not an overview of lists: element {place} of data is not an object") from None
    values, differences = {}, list_differences(fields, tuple(_LIST_FIELDS), "data[]")
    unknown = {name: value for name, value in fields.items() if name not in _LIST_FIELDS}
    for name, (field, decoder) in _LIST_FIELDS.items():
        if name not in fields and not field.required:
            continue
        value = fields.get(name, Raw(b"null"))
        text = bytes(value).decode("utf-8", "replace")
        try:
            values[field.name] = decoder.decode(value)
        except UNREADABLE as error:
            if field.required:
                which = f"list {bytes(fields['id']).decode()}" if "id" in fields else f"element {place} of data"
                reason = f"it is not an overview of lists: {name} of {which[:_SHOWN]}: {error}"
                raise UnusableAnswerError(reason) from None
            unknown[name] = value
            differences.append(Difference("new_value", f"data[].{name}", text))
        else:
            if field.type in _NUMBERS and text.startswith('"'):
                differences.append(Difference("text_for_number", f"data[].{name}", text))
    return Listed(ListEntry(**values), _as_object(unknown) if unknown else None, tuple(differences))


def list_differences(fields: dict[str, Raw], known: tuple[str, ...], path: str) -> list[Difference]:
    """List unknown fields of an object (all in one difference) and absent ones (one difference each)."""
    unknown = {name: value for name, value in fields.items() if name not in known}
    new = [Difference("new_field", path or "$", _as_object(unknown))] if unknown else []
    inside = f"{path}." if path else ""
    return new + [Difference("vanished_field", inside + name, None) for name in known if name not in fields]


def _as_object(fields: dict[str, Raw]) -> str:
    return msgspec.json.encode(fields).decode("utf-8", "replace")


_ADDRESS = re.compile(r"[^\s\"\\@<>(),;:\[\]{}]{1,320}+@[^\s\"\\@<>(),;:\[\]{}]{1,320}+")
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


def _hash(key: bytes, value: Any) -> str:
    text = value if isinstance(value, str) else write(value).decode("utf-8", "replace")
    content = text.strip().casefold().encode("utf-8", "surrogatepass")
    return hmac.new(key, content, "sha256").hexdigest()[:_HASH_DIGITS]


def _conceal(body: bytes, conceal: Conceal) -> bytes:
    """Conceal makers and e-mail addresses; persons in unknown fields too, unless each list names its maker."""
    try:
        page = read(body)
    except ValueError:
        return b"" if looks_like_json(body) else _without_addresses(body.decode("latin-1"), conceal).encode("latin-1")
    lists = page.get("data") if isinstance(page, Object) else None
    is_named = isinstance(lists, list) and all(
        isinstance(entry, Object) and "createdBy" in dict(entry) for entry in lists
    )
    concealed = rewrite(page, partial(_conceal_value, conceal=conceal, is_named=is_named))
    return body if concealed == page else write(concealed)


def _conceal_value(place: Place, conceal: Conceal, *, is_named: bool) -> Any:
    value = place.value
    if place.key == "createdBy" and value is not None:
        return conceal(value)
    if isinstance(value, Object):
        return Object((_without_addresses(key, conceal), item) for key, item in value)
    if not isinstance(value, str) or isinstance(value, Number):
        return value
    if not is_named and _is_about_person(place):
        return conceal(value)
    return value if is_named and place.keys == ["name", "data"] else _without_addresses(value, conceal)


def _without_addresses(text: str, conceal: Conceal) -> str:
    return _ADDRESS.sub(lambda found: conceal(found[0]) or "omitted", text)


def _is_about_person(place: Place) -> bool:
    """Return whether an unknown key suggests a person, or the text is a name inside an unknown object of a list."""
    keys = place.keys[::-1]
    unknown = [key for key in keys if key not in _LIST_FIELDS]
    if any(speaks_of_person(key, even_by_id=True) for key in unknown):
        return True
    return keys[:1] == ["data"] and "name" in words_of(keys[-1]) and any(key in unknown for key in keys[1:-1])
