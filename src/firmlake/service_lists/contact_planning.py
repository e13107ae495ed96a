"""Make and check contact plans, which state the contacts to add to a list before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from firmlake import __version__
from firmlake.api.client import Client
from firmlake.api.service import service_name
from firmlake.core.errors import DamagedError, UsageError
from firmlake.core.files import read_json, write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import ApiSettings, NameSettings, Settings
from firmlake.core.text import one_line
from firmlake.landing.run import new_run_id
from firmlake.privacy.forgotten import Forgotten, open_forgotten
from firmlake.service_lists.additions import Applied, ContactStatus, added_to, list_applied, merge_standings
from firmlake.service_lists.contact_plan import Contact, ContactList, ContactPlan, Entry, Refused, as_entries
from firmlake.service_lists.decode import ListEntry
from firmlake.service_lists.overview import take_overview

REDRIVE = "redrive"
"""The source of a plan for failed contacts, instead of a file name."""
_PLAN_AGAIN = "Plan again with `firmlake contacts plan`, which leaves out the contacts already added"


def plan_contacts(
    settings: Settings, client: Client, contacts: ContactList, list_id: int, now: Callable[[], datetime]
) -> ContactPlan:
    """Plan which contacts of a contact list to add to a service list. Nothing is added yet.

    Raises:
        UsageError: There is no such list, or it is not static.
        FirmlakeError: As `take_overview`.
    """
    folders = Folders.of(settings)
    entry = find_service_list(settings, client, list_id, now)
    added = added_to(list_id, list_applied(folders))
    return _make(settings, entry, contacts, added, now())


def plan_redrive(
    settings: Settings, client: Client, list_id: int, now: Callable[[], datetime], *, also_not_found: bool = False
) -> ContactPlan | None:
    """Plan to send the failed contacts of a list again; None if there are none.

    Contacts that the service does not know, or whose company it does not know, are left out unless `also_not_found`:
    they fail until somebody creates them.

    Raises:
        UsageError: There is no such list, or it is not static.
    """
    standings = merge_standings(list_applied(Folders.of(settings)))
    again = [
        contact
        for (where, contact), standing in standings.items()
        if where == list_id
        and standing.status != "added"
        and (also_not_found or not is_not_found(standing, settings.api.names))
    ]
    if not again:
        return None
    entry = find_service_list(settings, client, list_id, now)
    return _make(settings, entry, ContactList(Path(REDRIVE), again, [], 0, 0), set(), now())


def is_not_found(standing: ContactStatus, names: NameSettings) -> bool:
    """Return whether a contact failed because it or its company does not exist."""
    return standing.status in ("failed", "company_failed") and says_not_found(standing.message, names)


def says_not_found(message: str, names: NameSettings) -> bool:
    """Return whether a message says that a contact or its company does not exist."""
    return message.casefold() in (names.not_found_message.casefold(), names.contact_not_found_message.casefold())


def name_next_step(progress: Applied, names: NameSettings) -> str:
    """Return what to do about the contacts that a plan did not add; empty if it added all."""
    lacking = [standing for _, standing in progress.lacking()]
    if any(standing.status == "unknown" for standing in lacking):
        return "Apply the plan again to settle the unknown contacts"
    redrive = f"firmlake contacts redrive --service-list {progress.plan.list_id}"
    if lacking and all(is_not_found(standing, names) for standing in lacking):
        return f"Once the service has them, plan them again with `{redrive} --also-not-found`"
    if any(one.lost_count and not is_not_found(one, names) for one in lacking):
        return (
            "An earlier answer was lost: if the reason means that the contact is already in the list, set "
            f"api.names.contact_present_message to the words of the service. Then plan again with `{redrive}`"
        )
    return f"Plan the failed contacts again with `{redrive}`" if lacking else ""


def find_service_list(settings: Settings, client: Client, list_id: int, now: Callable[[], datetime]) -> ListEntry:
    """Look a list up in a fresh overview.

    Raises:
        UsageError: There is no such list, or contacts cannot be added to it because it is not static.
    """
    folders = Folders.of(settings)
    overview = take_overview(client, settings, folders, service_name(settings), now=now, is_look=True)
    seen = overview.lists.get(list_id)
    if seen is None:
        raise UsageError(
            f"The service has no list {list_id} among its {len(overview.lists)}",
            "Run `firmlake service-lists` to see the lists",
        )
    entry = seen.listed.entry
    if entry.type.upper() != "STATIC":
        raise UsageError(
            f"List {list_id} ({one_line(entry.name or '', 80)}) is {one_line(entry.type.lower(), 20)}, but "
            "contacts can only be added to static lists",
            "Run `firmlake service-lists --type STATIC` to see the static lists",
        )
    return entry


def pack_requests(contacts: Iterable[Contact], api: ApiSettings) -> tuple[tuple[Entry, ...], ...]:
    """Pack contacts into as few requests as the limits allow. A request names each company at most once.

    A company with more contacts than a request allows is cut into pieces. The pieces are dealt to the requests in turn,
    so that consecutive pieces of one company go to different requests.
    """
    most = api.contacts_per_company
    pieces = [
        Entry(entry.country, entry.company_number, entry.contacts[start : start + most])
        for entry in as_entries(contacts)
        for start in range(0, len(entry.contacts), most)
    ]
    per_company = (-(-len(entry.contacts) // most) for entry in as_entries(contacts))
    count = max(-(-len(pieces) // api.contact_companies_per_request), max(per_company, default=0))
    return tuple(tuple(pieces[place::count]) for place in range(count))


def write_plan(path: Path, plan: ContactPlan) -> None:
    """Write a plan with its checksum, atomically."""
    write_json(path, plan)


def read_plan(path: Path) -> ContactPlan:
    """Read a plan.

    Raises:
        UsageError: The file cannot be read or was changed. Plan again.
    """
    try:
        return read_json(path, ContactPlan)
    except DamagedError as error:
        raise UsageError(error.message, "Name a plan that `firmlake contacts plan` wrote, or plan again") from None


def check_plan(settings: Settings, plan: ContactPlan, now: datetime) -> None:
    """Refuse a plan that was made for another service, or too long ago.

    Raises:
        UsageError: Plan again.
    """
    service = service_name(settings)
    if plan.service != service:
        raise UsageError(f"The plan was made for {plan.service}, not for {service}", _PLAN_AGAIN)
    age = now - plan.made_at
    if not timedelta(0) <= age <= timedelta(hours=settings.lists.plan_max_age_hours):
        raise UsageError(
            f"The plan was made at {plan.made_at:%Y-%m-%d %H:%M} UTC, but lists.plan_max_age_hours is "
            f"{settings.lists.plan_max_age_hours:g}",
            _PLAN_AGAIN,
        )


def check_list(plan: ContactPlan, entry: ListEntry) -> None:
    """Refuse a plan whose list was renamed. A list that grew is fine, because the plan itself may be the reason.

    Raises:
        UsageError: Plan again.
    """
    if (entry.name or "") != plan.list_name:
        raise UsageError(
            f"List {plan.list_id} was named {plan.list_name!r} when the plan was made, and is named {entry.name!r} now",
            _PLAN_AGAIN,
        )


def _make(
    settings: Settings, entry: ListEntry, contacts: ContactList, added: Collection[Contact], now: datetime
) -> ContactPlan:
    forgotten = open_forgotten(settings.privacy, Folders.of(settings))
    wanted = [one for one in contacts.contacts if forgotten is None or not _is_forgotten(one, forgotten)]
    refused = contacts.refused if settings.intake.keeps_all else _without_text(contacts.refused)
    if count := len(contacts.contacts) - len(wanted):
        refused = [*refused, Refused(0, "", f"contacts that were forgotten: {count:,}")]
    return ContactPlan(
        plan_id=new_run_id(now),
        made_at=now,
        service=service_name(settings),
        source=contacts.path.name,
        list_id=entry.id,
        list_name=entry.name or "",
        list_type=entry.type,
        list_company_count=entry.company_count,
        list_updated_at=entry.updated_at,
        requests=pack_requests([one for one in wanted if one not in added], settings.api),
        already_added=as_entries(one for one in wanted if one in added),
        refused=tuple(refused),
        repaired_count=contacts.repaired_count,
        repeated_count=contacts.repeated_count,
        firmlake_version=__version__,
        present_message=settings.api.names.contact_present_message,
    )


def _without_text(refused: Iterable[Refused]) -> list[Refused]:
    """Drop the text of refused lines, because `intake.keep_columns` does not allow all of it; keep line and reason."""
    return [msgspec.structs.replace(one, given="") for one in refused]


def _is_forgotten(contact: Contact, forgotten: Forgotten) -> bool:
    return forgotten.contact(contact.contact_id) is not None or forgotten.has_company(contact.company)
