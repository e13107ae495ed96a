"""The operations on service lists that every entry point offers: read them, plan contacts, and apply a plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from firmlake import __version__
from firmlake.api import requests, service
from firmlake.api.answers import tells_unknown
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.api.requests import ListKind
from firmlake.core.errors import FirmlakeError, RequestFailedError, RequestRefusedError, ServiceError, UsageError
from firmlake.core.files import write_json
from firmlake.core.folders import Folders
from firmlake.core.process import graceful
from firmlake.core.settings import Settings
from firmlake.core.text import one_line
from firmlake.core.work import CarryOut, at_once, lock, utc_now
from firmlake.landing.run import new_run_id
from firmlake.landing.segments import Header, SegmentWriter, answered
from firmlake.landing.shard import TRIES_ALONE
from firmlake.privacy.forgotten import is_mark, open_forgotten
from firmlake.privacy.persons import answer_filter
from firmlake.service_lists.additions import Additions, Applied, read_addition, read_additions, says_not_found
from firmlake.service_lists.contacts import (
    PLAN_AGAIN,
    Contact,
    ContactList,
    ContactPlan,
    Refused,
    as_entries,
    by_companies,
    check_plan,
    pack_requests,
    spread,
)
from firmlake.service_lists.load import lists_loaded_at, publish_lists, read_list_changes
from firmlake.service_lists.overview import Overview, take_overview
from firmlake.warehouse.generations import newest_link, open_warehouse

_REFUSALS_MAX = 3
"""If this many single contacts are refused before any request succeeds, the settings do not fit the service."""
_LIST_GONE = "Run `firmlake service-lists --type STATIC` to see the existing lists, and plan for one of them"
_REFUSES_ALL = (
    "Check that the list accepts contacts, and that api.requests.contacts and the limits under api fit the service "
    "(docs/service_gaps.md); then apply the plan again. If the service means that the contact is already in the list, "
    "set api.names.contact_present_message to its words, and plan again"
)
_NAME_MAX = 80
_UNCLEAR_MAX = 3
"""Stop sending contacts alone after this many in a row whose answer does not mention them."""


def read_service_lists(
    settings: Settings, kind: ListKind, holder: str, step: CarryOut = at_once
) -> tuple[Overview, list[dict[str, Any]]]:
    """Read all lists of the service into the next generation of the warehouse, and return their events too.

    `step` carries out "read lists" and "publish"; nothing is published if `take_overview` fails. Others who find the
    data folder locked see `holder`.
    """
    folders = Folders.of(settings)
    with _connected(settings, holder) as client:
        overview = step("read lists", lambda: take_overview(client, settings, kind))

        def publish_overview() -> list[dict[str, Any]]:
            service.stamp_service(settings, folders)
            publish_lists(folders, settings.run, overview.plan.overview_id, utc_now, overview)
            with open_warehouse(folders, with_held=True) as connection:
                return read_list_changes(connection, overview.plan.overview_id)

        return overview, step("publish", publish_overview)


@contextmanager
def _connected(settings: Settings, holder: str) -> Iterator[Client]:
    """Lock the data folder and open a client; a signal to stop takes effect after the request in flight."""
    service.check_access(settings)
    with lock(Folders.of(settings), holder):
        service.check_service(settings, Folders.of(settings))
        with graceful() as stop, service.connect(settings, stop) as client:
            yield client


def plan_contacts(
    settings: Settings, contacts: ContactList, list_id: int, holder: str, now: Callable[[], datetime] = utc_now
) -> ContactPlan:
    """Plan which contacts of a contact list are still to be added to a service list; nothing is added.

    Others who find the data folder locked see `holder`. Raises UsageError if there is no such list, or it is not
    static, and what `take_overview` raises.
    """
    with _connected(settings, holder) as client:
        service_list = _find_list(settings, client, list_id, now)
        additions = read_additions(Folders.of(settings))
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    wanted = [
        one
        for one in contacts.contacts
        if forgotten is None or (forgotten.contact(one.contact_id) is None and not forgotten.has_company(one.company))
    ]
    refused = list(contacts.refused)
    if not settings.intake.keeps_all:  # intake.keep_columns does not allow the text of lines
        refused = [msgspec.structs.replace(one, given="") for one in refused]
    if count := len(contacts.contacts) - len(wanted):
        refused.append(Refused(0, "", f"contacts that were forgotten: {count:,}"))
    statuses = {one: additions.statuses.get((list_id, one)) for one in wanted}
    added = {one: known for one, known in statuses.items() if known and known.status == "added"}
    made_at = now()
    return ContactPlan(
        plan_id=new_run_id(made_at),
        made_at=made_at,
        service=service.service_name(settings),
        source=contacts.path.name,
        list_id=list_id,
        list_name=service_list["name"] or "",
        list_type=service_list["type"],
        list_company_count=service_list["company_count"],
        list_updated_at=service_list["updated_at"] and service_list["updated_at"].replace(tzinfo=UTC),
        requests=pack_requests([one for one in wanted if one not in added], settings.api),
        already_added=as_entries(added),
        refused=tuple(refused),
        repaired_count=contacts.repaired_count,
        repeated_count=contacts.repeated_count,
        firmlake_version=__version__,
        present_message=settings.api.names.contact_present_message,
    )


def _find_list(settings: Settings, client: Client, list_id: int, now: Callable[[], datetime]) -> dict[str, Any]:
    """Return the row of a static list in a fresh overview."""
    overview = take_overview(client, settings, now=now, is_look=True)
    rows = overview.gather().frame.filter(list_id=list_id).to_dicts()
    if not rows:
        missing = f"The service has no list {list_id} among its {len(overview.lists)}"
        raise UsageError(missing, "Run `firmlake service-lists` to see the lists")
    name, kind = rows[0]["name"] or "", rows[0]["type"]
    if kind.upper() != "STATIC":
        raise UsageError(
            f"List {list_id} ({one_line(name, _NAME_MAX)}) is {one_line(kind.lower(), 20)}, but "
            "contacts can only be added to static lists",
            "Run `firmlake service-lists --type STATIC` to see the static lists",
        )
    return rows[0]


def apply_plan(
    settings: Settings,
    plan: ContactPlan,
    holder: str,
    now: Callable[[], datetime] = utc_now,
    on_answer: Callable[[Answer, int], object] = lambda answer, settled_count: None,
) -> Applied:
    """Send the contacts of a plan that are not settled yet, and publish the result.

    If an error ends the call early, what has landed is published, and the same call resumes. Contacts that another plan
    has added in the meantime are not sent again. `on_answer` is called after each answer has landed, with the number of
    contacts of the plan settled so far. Others who find the data folder locked see `holder`.

    Raises:
        UsageError: The plan is stale, for another service, or for a list that has changed; nothing was sent.
        FirmlakeError: As `Client.send`; the same call resumes.
    """
    check_plan(settings, plan, now())
    folders = Folders.of(settings)
    with _connected(settings, holder) as client:
        additions = read_additions(folders)
        if additions.plans.get(plan.plan_id, plan) != plan:
            raise UsageError(f"Another plan {plan.plan_id} was applied already", "Plan again")
        sender = _Sender(client, settings, additions, plan, now, on_answer)
        if sender.todo():
            name = _find_list(settings, client, plan.list_id, now)["name"] or ""
            if name != plan.list_name:  # a list may grow, because the plan itself may be the reason
                was = f"List {plan.list_id} was named {plan.list_name!r} when the plan was made"
                raise UsageError(f"{was}, and is named {name!r} now", PLAN_AGAIN)
            service.stamp_service(settings, folders)
            write_json(folders.additions / f"plan={plan.plan_id}" / "plan.json", plan)
        try:
            for _ in range(2):  # the next apply sends what is still unknown after both
                sender.send_all()
        finally:
            _publish(settings, folders, additions, plan, now)
    return additions.applied(plan)


def _publish(
    settings: Settings, folders: Folders, additions: Additions, plan: ContactPlan, now: Callable[[], datetime]
) -> None:
    """Load the additions into the warehouse, unless it already has everything from this plan."""
    last = max((one.changed_at for one in additions.statuses.values() if one.plan_id == plan.plan_id), default=None)
    if last is None:
        return
    if newest_link(folders).exists():  # a generation without the link is not published yet
        with open_warehouse(folders, with_held=True) as connection:
            since = lists_loaded_at(connection)
        if since and since >= last:
            return
    publish_lists(folders, settings.run, plan.plan_id, now)


def request_id(plan_id: str, body: bytes) -> str:
    """Return a hash of a plan and the contacts of a request, as identifier of that request."""
    return hashlib.blake2b(plan_id.encode() + body, digest_size=12).hexdigest()


@dataclass
class _Sender:
    """Sends the contacts of a plan, one request after the other; 200 requests a minute need no threads."""

    _client: Client
    _settings: Settings
    _additions: Additions
    _plan: ContactPlan
    _now: Callable[[], datetime]
    _on_answer: Callable[[Answer, int], object]

    def __post_init__(self) -> None:
        folders = Folders.of(self._settings)
        self._clean = answer_filter(self._settings.privacy, folders, self._settings.contract)
        self._folder = folders.additions / f"plan={self._plan.plan_id}"
        self._api = self._settings.api
        self._settled_count = sum(map(self._is_done, self._plan.contacts()))
        self._has_answers = bool(self._additions.applied(self._plan).counts()["added"])
        self._refused_alone = self._unclear_alone = 0

    def todo(self) -> list[list[Contact]]:
        """List the contacts that are not settled, by request of the plan."""
        left = (self._left(spread(entries)) for entries in self._plan.requests)
        return [contacts for contacts in left if contacts]

    def send_all(self) -> None:
        """Send the contacts that are not settled."""
        if todo := self.todo():
            with SegmentWriter(self._folder) as self._writer:
                for contacts in todo:
                    self._send(contacts)

    def _left(self, contacts: Iterable[Contact]) -> list[Contact]:
        return [contact for contact in contacts if not self._is_done(contact)]

    def _is_done(self, contact: Contact) -> bool:
        return is_mark(contact.contact_id) or self._additions.is_settled(self._plan, contact)

    def _send(self, contacts: list[Contact]) -> None:
        """Send contacts in one request; if that settles none, send halves until the contact that causes it is alone."""
        groups: list[tuple[list[Contact], int | None]] = [(contacts, None)]
        while groups:
            group, tries = groups.pop()
            error = self._request(group, tries)
            left = self._left(group)
            if getattr(error, "is_outage", False) or not left:
                continue
            if len(left) < len(group):
                self._unclear_alone = 0
                groups.append((left, tries))
            elif len(left) == 1 and isinstance(error, RequestRefusedError):
                self._give_up(error, left)
            elif len(left) == 1:
                self._unclear_alone += error is None
            elif error or self._unclear_alone < _UNCLEAR_MAX:
                middle = (len(left) + 1) // 2
                groups += [(half, 1 if len(half) > 1 else TRIES_ALONE) for half in (left[middle:], left[:middle])]

    def _request(self, contacts: Sequence[Contact], tries: int | None) -> FirmlakeError | None:
        """Send contacts in one request; return the error if the cause may be one of them.

        `tries` says how often the request may be sent; None takes the setting.
        """
        sending = self._header(contacts)
        # They are on record before they are sent, even if the answer is lost.
        self._land(sending, msgspec.json.encode(as_entries(contacts)))

        def land(answer: Answer) -> None:
            before = len(self._left(contacts))
            self._land(answered(sending, answer), self._clean(answer.body))
            self._settled_count += before - len(self._left(contacts))
            self._on_answer(answer, self._settled_count)

        def check(body: bytes) -> None:
            if not body.strip():  # sending the contacts again would not make the service say more
                raise ServiceError(
                    "The service does not say which contacts it added: its answer is empty",
                    f"Look whether list {self._plan.list_id} at the service holds the contacts",
                )
            read_addition(body)

        grouped = {company: [one.contact_id for one in of] for company, of in by_companies(contacts).items()}
        request = requests.add_contacts(self._api, self._plan.list_id, grouped)
        try:
            self._client.send(request, check, tries=tries, on_answer=land)
        except (RequestRefusedError, RequestFailedError) as error:
            status = error.answer.status if isinstance(error, RequestRefusedError) and error.answer else None
            if status in (404, 410) and not self._blames(error, contacts):
                raise self._name(error, contacts, _LIST_GONE) from error  # every other contact would fail too
            return error
        self._has_answers = True
        return None

    def _blames(self, error: FirmlakeError, contacts: Sequence[Contact]) -> bool:
        """Return whether a refusal is about a contact or its company, not about the list."""
        said = getattr(error, "said", "")
        ids = {one.contact_id for one in contacts} - {str(self._plan.list_id)}
        return (
            says_not_found(said, self._api.names)
            or not ids.isdisjoint(re.findall(r"[\w-]+", said))
            or any(tells_unknown(self._api.names, company, 404, said) for company in {one.company for one in contacts})
        )

    def _give_up(self, error: RequestRefusedError, contacts: Sequence[Contact]) -> None:
        """Record that the service refuses a contact even in a request of its own."""
        is_unknown = says_not_found(error.said, self._api.names)
        if not (self._has_answers or is_unknown or self._plan.says_present(error.said)):
            self._refused_alone += 1
            if self._refused_alone >= _REFUSALS_MAX:
                raise self._name(error, contacts, _REFUSES_ALL) from error
        self._land(self._header(contacts, "given_up", error.said if is_unknown else error.message), b"")

    def _name(self, error: FirmlakeError, contacts: Sequence[Contact], next_step: str) -> RequestRefusedError:
        """Make an error that names the list and the contacts."""
        first, more = contacts[0], len(contacts) - 1
        which = f"contact {first.contact_id} of {first.company}" + (f" and {more:,} others" if more else "")
        name = one_line(self._plan.list_name, _NAME_MAX)
        return RequestRefusedError(f"{which} for list {self._plan.list_id} ({name}): {error.message}", next_step)

    def _header(self, contacts: Sequence[Contact], kind: str = "sending", error: str = "") -> Header:
        plan_id, body = self._plan.plan_id, msgspec.json.encode(as_entries(contacts))
        return Header(
            kind=kind, request_id=request_id(plan_id, body), run_id=plan_id, shard=0, dataset="contacts",
            companies=tuple(by_companies(contacts)), error=error, fetched_at=self._now(),
        )  # fmt: skip

    def _land(self, header: Header, body: bytes) -> None:
        self._writer.append(header, body)
        self._additions.absorb(self._plan, header, body)
