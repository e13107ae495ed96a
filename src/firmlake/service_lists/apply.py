"""The operations on service lists that every entry point offers: read them, plan contacts, and apply a plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from firmlake import __version__
from firmlake.api import requests, service
from firmlake.api.client import Client
from firmlake.api.exchange import Answer
from firmlake.api.requests import ListKind
from firmlake.api.unknown import is_about
from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError, RequestFailedError, RequestRefusedError, ServiceError, UsageError
from firmlake.core.files import write_json
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.core.signals import graceful
from firmlake.core.steps import CarryOut, at_once
from firmlake.core.text import one_line
from firmlake.landing.run import new_run_id
from firmlake.landing.segments import Header, SegmentWriter, answered
from firmlake.privacy.forgotten import is_mark, open_forgotten
from firmlake.privacy.persons import answer_filter
from firmlake.service_lists.additions import (
    SETTLED,
    Applied,
    added_to,
    list_applied,
    merge_standings,
    open_applied,
    read_addition,
    says_not_found,
)
from firmlake.service_lists.contacts import (
    PLAN_AGAIN,
    Contact,
    ContactList,
    ContactPlan,
    Refused,
    as_entries,
    check_plan,
    pack_requests,
    spread,
)
from firmlake.service_lists.load import lists_loaded_at, publish_lists, read_list_changes
from firmlake.service_lists.overview import Overview, take_overview
from firmlake.warehouse.generations import LINK, find_held, open_warehouse

REDRIVE = "redrive"
"""The source of a plan for failed contacts, instead of a file name."""
NO_CONTENT = 204
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
_TRIES_ALONE = 2


def read_service_lists(
    settings: Settings, kind: ListKind, holder: str, step: CarryOut = at_once
) -> tuple[Overview, list[dict[str, Any]]]:
    """Read all lists of the service into the next generation of the warehouse.

    Args:
        settings: The service and the data folder.
        kind: Static lists, smart ones or both.
        holder: The text that others see if they find the data folder locked.
        step: Carries out "read lists" and "publish".

    Returns:
        The overview, and its events, as returned by `read_list_changes`.

    Raises:
        FirmlakeError: As `take_overview`; nothing is published.
    """
    folders, name = Folders.of(settings), service.service_name(settings)

    def ask() -> Overview:
        with _connected(settings) as client:
            return take_overview(client, settings, folders, name, kind, utc_now)

    with _held(settings, holder):
        overview = step("read lists", ask)
        return overview, step("publish", partial(_publish_overview, settings, folders, overview))


def _publish_overview(settings: Settings, folders: Folders, overview: Overview) -> list[dict[str, Any]]:
    service.stamp_service(settings, folders)
    publish_lists(folders, settings.run, overview.plan.overview_id, utc_now, overview)
    with open_warehouse(folders, with_held=True) as connection:
        return read_list_changes(connection, overview.plan.overview_id)


@contextmanager
def _held(settings: Settings, holder: str) -> Iterator[None]:
    """Lock the data folder, after checking that it belongs to this service."""
    service.check_access(settings)
    with lock(Folders.of(settings), holder):
        service.check_service(settings, Folders.of(settings))
        yield


@contextmanager
def _connected(settings: Settings) -> Iterator[Client]:
    """Open a client; a signal to stop takes effect after the request in flight."""
    with graceful() as stop, service.connect(settings, stop) as client:
        yield client


def plan_contacts(
    settings: Settings, contacts: ContactList, list_id: int, holder: str, now: Callable[[], datetime] = utc_now
) -> ContactPlan:
    """Plan which contacts of a contact list are still to be added to a service list; nothing is added.

    Args:
        settings: The service and the data folder.
        contacts: From `read_contact_list`.
        list_id: The service list.
        holder: The text that others see if they find the data folder locked.
        now: The clock, UTC.

    Raises:
        UsageError: There is no such list, or it is not static.
        FirmlakeError: As `take_overview`.
    """
    with _held(settings, holder), _connected(settings) as client:
        entry = _find_list(settings, client, list_id, now)
        return _make(settings, entry, contacts, added_to(list_id, list_applied(Folders.of(settings))), now())


def plan_redrive(
    settings: Settings,
    list_id: int,
    holder: str,
    now: Callable[[], datetime] = utc_now,
    *,
    also_not_found: bool = False,
) -> ContactPlan | None:
    """Plan, as `plan_contacts`, to send the failed contacts of a list again; None if there are none.

    Contacts that the service does not know, or whose company it does not know, are left out unless `also_not_found`:
    they fail until somebody creates them.
    """
    with _held(settings, holder), _connected(settings) as client:
        again = [
            contact
            for (where, contact), standing in merge_standings(list_applied(Folders.of(settings))).items()
            if where == list_id
            and standing.status != "added"
            and (also_not_found or not standing.is_not_found(settings.api.names))
        ]
        if not again:
            return None
        entry = _find_list(settings, client, list_id, now)
        return _make(settings, entry, ContactList(Path(REDRIVE), again, [], 0, 0), set(), now())


def _find_list(settings: Settings, client: Client, list_id: int, now: Callable[[], datetime]) -> dict[str, Any]:
    """Return the row of a static list in a fresh overview."""
    name = service.service_name(settings)
    overview = take_overview(client, settings, Folders.of(settings), name, now=now, is_look=True)
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


def _make(
    settings: Settings, service_list: dict[str, Any], contacts: ContactList, added: set[Contact], now: datetime
) -> ContactPlan:
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    wanted = [
        one
        for one in contacts.contacts
        if forgotten is None or (forgotten.contact(one.contact_id) is None and not forgotten.has_company(one.company))
    ]
    refused = contacts.refused
    if not settings.intake.keeps_all:  # intake.keep_columns does not allow the text of lines
        refused = [msgspec.structs.replace(one, given="") for one in refused]
    if count := len(contacts.contacts) - len(wanted):
        refused = [*refused, Refused(0, "", f"contacts that were forgotten: {count:,}")]
    return ContactPlan(
        plan_id=new_run_id(now),
        made_at=now,
        service=service.service_name(settings),
        source=contacts.path.name,
        list_id=service_list["list_id"],
        list_name=service_list["name"] or "",
        list_type=service_list["type"],
        list_company_count=service_list["company_count"],
        list_updated_at=service_list["updated_at"] and service_list["updated_at"].replace(tzinfo=UTC),
        requests=pack_requests([one for one in wanted if one not in added], settings.api),
        already_added=as_entries(one for one in wanted if one in added),
        refused=tuple(refused),
        repaired_count=contacts.repaired_count,
        repeated_count=contacts.repeated_count,
        firmlake_version=__version__,
        present_message=settings.api.names.contact_present_message,
    )


def apply_plan(
    settings: Settings,
    plan: ContactPlan,
    holder: str,
    now: Callable[[], datetime] = utc_now,
    on_answer: Callable[[Answer, int], object] = lambda answer, settled_count: None,
) -> Applied:
    """Send the contacts of a plan that are not settled yet, and publish the result.

    If an error ends the call early, what has landed is published, and the same call resumes. Contacts that another plan
    has added in the meantime are not sent again.

    Args:
        settings: Limits, and how old a plan may be.
        plan: The plan.
        holder: The text that others see if they find the data folder locked.
        now: The clock, UTC.
        on_answer: Called after each answer has landed, with the number of contacts of the plan settled so far.

    Raises:
        UsageError: The plan is stale, for another service, or for a list that has changed; nothing was sent.
        FirmlakeError: As `Client.send`; the same call resumes.
    """
    check_plan(settings, plan, now())
    folders = Folders.of(settings)
    with _held(settings, holder), _connected(settings) as client:
        progress = open_applied(folders, plan.plan_id) or Applied(plan)
        if progress.plan != plan:
            raise UsageError(f"Another plan {plan.plan_id} was applied already", "Plan again")
        todo = _todo(folders, progress)
        if todo:
            _check_name(plan, _find_list(settings, client, plan.list_id, now)["name"] or "")
            service.stamp_service(settings, folders)
            write_json(folders.additions / f"plan={plan.plan_id}" / "plan.json", plan)
        try:
            sender = _Sender(client, settings, progress, now, on_answer)
            for is_again in (False, True):  # the next apply sends what is still unknown after both
                sender.send_all(todo, apart=is_again)
                todo = _todo(folders, progress)
        finally:
            _publish(settings, folders, progress, now)
    return progress


def _check_name(plan: ContactPlan, name: str) -> None:
    """Refuse a plan whose list was renamed. A list that grew is fine, because the plan itself may be the reason."""
    if name != plan.list_name:
        was = f"List {plan.list_id} was named {plan.list_name!r} when the plan was made"
        raise UsageError(f"{was}, and is named {name!r} now", PLAN_AGAIN)


def _todo(folders: Folders, progress: Applied) -> list[list[Contact]]:
    """List the contacts still to be sent, by request: neither settled nor added by another plan."""
    plan = progress.plan
    others = [one for one in list_applied(folders) if one.plan.plan_id != plan.plan_id]
    progress.in_list = added_to(plan.list_id, others)
    todo = ([one for one in spread(entries) if not _is_done(progress, one)] for entries in plan.requests)
    return [contacts for contacts in todo if contacts]


def _is_done(progress: Applied, contact: Contact) -> bool:
    standing = progress.standings.get(contact)
    is_settled = standing is not None and standing.status in SETTLED
    return is_settled or contact in progress.in_list or is_mark(contact.contact_id)


def _publish(settings: Settings, folders: Folders, progress: Applied, now: Callable[[], datetime]) -> None:
    """Load the additions into the warehouse, unless it already has everything from this plan."""
    last = max((one.changed_at for one in progress.standings.values()), default=None)
    if last is None:
        return
    # A generation without the link is not published yet.
    if find_held(folders) or (folders.warehouse / LINK).exists():
        with open_warehouse(folders, with_held=True) as connection:
            since = lists_loaded_at(connection)
        if since and since >= last:
            return
    publish_lists(folders, settings.run, progress.plan.plan_id, now)


def request_id(plan_id: str, body: bytes) -> str:
    """Return a hash of a plan and the contacts of a request, as identifier of that request."""
    return hashlib.blake2b(plan_id.encode() + body, digest_size=12).hexdigest()


class _Sender:
    """Sends contacts, one request after the other; 200 requests a minute need no threads."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        progress: Applied,
        now: Callable[[], datetime],
        on_answer: Callable[[Answer, int], object],
    ) -> None:
        folders = Folders.of(settings)
        self._clean = answer_filter(settings.privacy, folders, settings.contract)
        self._folder = folders.additions / f"plan={progress.plan.plan_id}"
        self._client, self._api, self._now = client, settings.api, now
        self._progress, self._plan, self._on_answer = progress, progress.plan, on_answer
        self._settled_count = sum(_is_done(progress, contact) for contact in progress.plan.contacts())
        self._has_answers = bool(progress.counts()["added"])
        self._refused_alone = self._unclear_alone = 0

    def send_all(self, todo: Sequence[Sequence[Contact]], *, apart: bool) -> None:
        """Send each of these groups of contacts."""
        if todo:
            with SegmentWriter(self._folder) as self._writer:
                for contacts in todo:
                    self._send(contacts, apart=apart)

    def _send(self, contacts: Sequence[Contact], tries: int | None = None, *, apart: bool = False) -> None:
        """Send contacts in one request; if it fails, send halves until the contact that causes it is alone.

        Args:
            contacts: The contacts of one request.
            tries: How often the request may be sent; None takes the setting.
            apart: Also send halves of the contacts that the answer leaves unknown.
        """
        sending = self._note(contacts)
        try:
            self._request(contacts, sending, tries)
        except (RequestRefusedError, RequestFailedError) as error:
            answer = getattr(error, "answer", None)
            if answer is not None and answer.status in (404, 410) and not self._blames(error, contacts):
                raise self._name(error, contacts, _LIST_GONE) from error  # every other contact would fail too
            if len(contacts) > 1 and not getattr(error, "is_outage", False):
                self._send_halves(contacts, 1, apart=apart)
            elif isinstance(error, RequestRefusedError):
                self._give_up(sending, error, contacts)
            return
        self._has_answers = True
        unclear = self._unclear(contacts)
        if len(unclear) < len(contacts):
            self._unclear_alone = 0
        elif len(contacts) == 1 and apart:
            self._unclear_alone += 1
        if apart and unclear and len(contacts) > 1 and self._unclear_alone < _UNCLEAR_MAX:
            self._send_halves(unclear, tries, apart=True)

    def _send_halves(self, contacts: Sequence[Contact], tries: int | None, *, apart: bool) -> None:
        middle = (len(contacts) + 1) // 2
        for half in filter(None, (contacts[:middle], contacts[middle:])):
            self._send(half, tries if len(half) > 1 else _TRIES_ALONE, apart=apart)

    def _unclear(self, contacts: Sequence[Contact]) -> list[Contact]:
        return [one for one in contacts if self._progress.standings[one].status not in SETTLED]

    def _note(self, contacts: Sequence[Contact]) -> Header:
        """Land the contacts before they are sent, so that they are on record even if the answer is lost."""
        entries = as_entries(contacts)
        body = msgspec.json.encode(entries)
        header = Header(
            kind="sending",
            request_id=request_id(self._plan.plan_id, body),
            run_id=self._plan.plan_id,
            shard=0,
            dataset="contacts",
            companies=tuple(entry.company for entry in entries),
            fetched_at=self._now(),
        )
        self._land(header, body)
        return header

    def _request(self, contacts: Sequence[Contact], sending: Header, tries: int | None) -> None:
        statuses: list[int | None] = []

        def land(answer: Answer) -> None:
            before = len(self._unclear(contacts))
            self._land(answered(sending, answer), self._clean(answer.body))
            self._settled_count += before - len(self._unclear(contacts))
            self._on_answer(answer, self._settled_count)
            statuses.append(answer.status)

        def check(body: bytes) -> None:
            if statuses[-1] == NO_CONTENT:  # sending the contacts again would not make the service say more
                raise ServiceError(
                    "The service does not say which contacts it added: it answers 204, without a body",
                    f"Look whether list {self._plan.list_id} at the service holds the contacts",
                )
            read_addition(body)

        grouped = {entry.company: entry.contacts for entry in as_entries(contacts)}
        request = requests.add_contacts(self._api, self._plan.list_id, grouped)
        self._client.send(request, check, tries=tries, on_answer=land)

    def _blames(self, error: FirmlakeError, contacts: Sequence[Contact]) -> bool:
        """Return whether a refusal is about a contact or its company, not about the list."""
        said = getattr(error, "said", "")
        ids = {one.contact_id for one in contacts} - {str(self._plan.list_id)}
        return (
            says_not_found(said, self._api.names)
            or not ids.isdisjoint(re.findall(r"[\w-]+", said))
            or any(is_about(self._api, company, said) for company in {one.company for one in contacts})
        )

    def _give_up(self, sending: Header, error: RequestRefusedError, contacts: Sequence[Contact]) -> None:
        """Record that the service refuses a contact even in a request of its own."""
        is_unknown = says_not_found(error.said, self._api.names)
        if not (self._has_answers or is_unknown or self._plan.says_present(error.said)):
            self._refused_alone += 1
            if self._refused_alone >= _REFUSALS_MAX:
                raise self._name(error, contacts, _REFUSES_ALL) from error
        reason = error.said if is_unknown else error.message
        self._land(msgspec.structs.replace(sending, kind="given_up", error=reason, fetched_at=self._now()), b"")

    def _name(self, error: FirmlakeError, contacts: Sequence[Contact], next_step: str) -> RequestRefusedError:
        """Make an error that names the list and the contacts."""
        first, more = contacts[0], len(contacts) - 1
        which = f"contact {first.contact_id} of {first.company}" + (f" and {more:,} others" if more else "")
        name = one_line(self._plan.list_name, _NAME_MAX)
        return RequestRefusedError(f"{which} for list {self._plan.list_id} ({name}): {error.message}", next_step)

    def _land(self, header: Header, body: bytes) -> None:
        self._writer.append(header, body)
        self._progress.absorb(header, body)
