"""Additions: the status of every contact that was sent to a service list, read from landed answers.

The same code reads answers while they arrive, when an apply resumes, and when the table is made. A contact counts as
added only once the service says so. Until then its status is unknown and it is sent again, which is harmless: the
service accepts the same contact twice.

    landing/contacts/plan=<plan>/plan.json       the plan as applied, whole
                                 00001.zst ...   "sending": the contacts of a request, before it is sent; then its
                                                 answers; "given_up": refused even alone
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from firmlake.api.answers import UNREADABLE
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import DamagedError, UnusableAnswerError
from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.core.settings import NameSettings
from firmlake.landing.segments import Header, list_segments, read_segment
from firmlake.service_lists.contacts import Contact, ContactPlan, Entry, spread

SETTLED = ("added", "failed", "company_failed")


class ContactStatus(NamedTuple):
    """The status of a contact that was sent.

    Attributes:
        status: `added`, `failed` (the message says why), `company_failed` (the message says why the whole company
            failed) or `unknown` (no answer mentions the contact).
        sent_count: Requests that carried the contact, repeats included.
        lost_count: Requests whose answer was lost or cannot be read.
        changed_at: When the status became known or, if it is unknown, when the contact was last sent; UTC.
    """

    status: str
    message: str
    sent_count: int
    lost_count: int
    request_id: str
    plan_id: str
    changed_at: datetime

    def is_not_found(self, names: NameSettings) -> bool:
        """Return whether the contact failed because it or its company does not exist."""
        return self.status in ("failed", "company_failed") and says_not_found(self.message, names)


def says_not_found(message: str, names: NameSettings) -> bool:
    """Return whether a message says that a contact or its company does not exist."""
    return message.casefold() in (names.not_found_message.casefold(), names.contact_not_found_message.casefold())


class Remark(NamedTuple):
    """A difference from the contract, as a row of the table `drift`."""

    kind: str
    path: str
    example: str | None
    record_count: int
    fetched_at: datetime


class Applied:
    """How much of a plan has been applied.

    Attributes:
        standings: The status of each contact that was sent.
        in_list: Contacts that any plan added to the list; the caller fills this in.
        remarks: Differences from the contract, such as answers about contacts that were not sent.
    """

    def __init__(self, plan: ContactPlan) -> None:
        self.plan = plan
        self.standings: dict[Contact, ContactStatus] = {}
        self.in_list: set[Contact] = set()
        self.remarks: list[Remark] = []
        self._sent: dict[str, list[Contact]] = {}
        self._open: set[str] = set()

    def counts(self) -> dict[str, int]:
        """Count the plan's contacts by status.

        A contact that another plan added counts as added, one that was never sent as `pending`.
        """
        found = dict.fromkeys((*SETTLED, "unknown", "pending"), 0)
        for contact in self.plan.contacts():
            standing = self.standings.get(contact)
            found["added" if contact in self.in_list else standing.status if standing else "pending"] += 1
        return found

    def lacking(self) -> list[tuple[Contact, ContactStatus]]:
        """List the contacts that were sent and are not known to be added."""
        return [
            (contact, standing)
            for contact, standing in self.standings.items()
            if standing.status != "added" and contact not in self.in_list
        ]

    def next_step(self, names: NameSettings) -> str:
        """Return what to do about the contacts that were not added; empty if all were."""
        lacking = [standing for _, standing in self.lacking()]
        if any(standing.status == "unknown" for standing in lacking):
            return "Apply the plan again to settle the unknown contacts"
        redrive = f"firmlake contacts redrive --service-list {self.plan.list_id}"
        if lacking and all(standing.is_not_found(names) for standing in lacking):
            return f"Once the service has them, plan them again with `{redrive} --also-not-found`"
        if any(one.lost_count and not one.is_not_found(names) for one in lacking):
            return (
                "An earlier answer was lost: if the reason means that the contact is already in the list, set "
                f"api.names.contact_present_message to the words of the service. Then plan again with `{redrive}`"
            )
        return f"Plan the failed contacts again with `{redrive}`" if lacking else ""

    def absorb(self, header: Header, body: bytes) -> None:
        """Update the statuses from one landed record. Call this in landing order."""
        if header.kind == "sending":
            self._sent[header.request_id] = list(spread(_ENTRIES.decode(body)))
            self._open.add(header.request_id)
            self._set(header, {}, "the answer was lost", sent=1, lost=1)
        elif header.kind == "given_up":
            status = ("added", "") if self.plan.says_present(header.error) else ("failed", header.error)
            self._set(header, dict.fromkeys(self._sent.get(header.request_id, ()), status), "")
        else:
            self._absorb_answer(header, body)

    def _absorb_answer(self, header: Header, body: bytes) -> None:
        sent = 0 if header.request_id in self._open else 1
        self._open.discard(header.request_id)
        if header.kind == "no_answer" or header.status is None or header.status >= 500:
            self._set(header, {}, header.error or f"status {header.status}", sent=sent, lost=sent)
        elif not header.is_success:
            self._set(header, {}, f"status {header.status}", sent=sent, lost=sent - 1)
        else:
            try:
                answer = read_addition(body)
            except UnusableAnswerError as error:
                self._set(header, {}, error.message, sent=sent, lost=sent)
                return
            outcomes = read_outcomes(self._sent.get(header.request_id, []), answer, self.plan.says_present)
            self.remarks += [Remark(*remark, fetched_at=header.fetched_at) for remark in outcomes.remarks]
            self._set(header, outcomes.statuses, "the answer does not say", sent=sent, lost=sent - 1)

    def _set(
        self, header: Header, outcomes: dict[Contact, tuple[str, str]], reason: str, sent: int = 0, lost: int = 0
    ) -> None:
        """Update the status of each contact of a request; a settled status never becomes unknown again."""
        for contact in self._sent.get(header.request_id, ()):
            before = self.standings.get(contact)
            status, message = outcomes.get(contact, ("unknown", reason))
            if before and before.status in SETTLED and status == "unknown":
                status, message = before.status, before.message
            self.standings[contact] = ContactStatus(
                status,
                message,
                (before.sent_count if before else 0) + sent,
                (before.lost_count if before else 0) + lost,
                header.request_id,
                self.plan.plan_id,
                header.fetched_at,
            )


def open_applied(folders: Folders, plan_id: str) -> Applied | None:
    """Read how much of a plan has been applied; None if nothing was.

    Raises:
        DamagedError: A landed file was changed.
    """
    folder = folders.additions / f"plan={plan_id}"
    return _read(folder) if (folder / "plan.json").exists() else None


def list_applied(folders: Folders, until: datetime | None = None) -> list[Applied]:
    """Read the progress of every applied plan, oldest plan first.

    Raises:
        DamagedError: A landed file was changed.
    """
    applied, damaged = read_applied(folders, until)
    for error in damaged.values():
        raise error
    return applied


def read_applied(folders: Folders, until: datetime | None = None) -> tuple[list[Applied], dict[str, DamagedError]]:
    """Read the progress of every applied plan; plans with damaged files are returned by name, with their error."""
    applied, damaged = [], {}
    for path in sorted(folders.additions.glob("plan=*/plan.json")):
        try:
            applied.append(_read(path.parent, until))
        except DamagedError as error:
            damaged[path.parent.name.removeprefix("plan=")] = error
    added = {list_id: added_to(list_id, applied) for list_id in {one.plan.list_id for one in applied}}
    for one in applied:
        one.in_list = added[one.plan.list_id]
    return applied, damaged


def _read(folder: Path, until: datetime | None = None) -> Applied:
    progress = Applied(read_json(folder / "plan.json", ContactPlan))
    for segment in list_segments(folder):
        for landed in read_segment(segment):
            if until is None or landed.header.fetched_at <= until:
                progress.absorb(landed.header, landed.body)
    return progress


def added_to(list_id: int, applied: Iterable[Applied]) -> set[Contact]:
    """Return the contacts that were added to a list."""
    of_list = (one for one in applied if one.plan.list_id == list_id)
    return {contact for one in of_list for contact, status in one.standings.items() if status.status == "added"}


def merge_standings(applied: Iterable[Applied]) -> dict[tuple[int, Contact], ContactStatus]:
    """Merge the statuses of each contact of each list across all plans: added wins, otherwise the latest status."""
    merged: dict[tuple[int, Contact], ContactStatus] = {}
    for progress in applied:
        for contact, standing in progress.standings.items():
            key = progress.plan.list_id, contact
            merged[key] = _later(merged[key], standing) if key in merged else standing
    return merged


def _later(first: ContactStatus, second: ContactStatus) -> ContactStatus:
    late = max(first, second, key=lambda one: (one.status == "added", one.changed_at))
    if first.status == second.status == "added":
        late = min(first, second, key=lambda one: one.changed_at)
    sent, lost = first.sent_count + second.sent_count, first.lost_count + second.lost_count
    return late._replace(sent_count=sent, lost_count=lost)


class ContactIdentifier(Struct, frozen=True):
    """The id of a contact."""

    contact_id: str | int = field(name="contactId")


class FailedContact(Struct, frozen=True):
    """A contact that was not added, with the reason."""

    identifier: ContactIdentifier = field(name="contactIdentifier")
    message: str | None = None


class FailedCompany(Struct, frozen=True):
    """The company of a failure, whose number may be a JSON number."""

    country: str
    company_number: str | int = field(name="companyNumber")


class FailedEntry(Struct, frozen=True):
    """A company that failed as a whole (`contacts` is null) or for some of its contacts."""

    identifier: FailedCompany = field(name="companyIdentifier")
    contacts: list[FailedContact] | None = None
    message: str | None = None


class _Addition(Struct, frozen=True):
    success: bool
    failed: list[Raw] | None = None
    message: str | None = None


class AddedContacts(NamedTuple):
    """The answer to a request that adds contacts.

    Attributes:
        failed: The failures that can be read.
        unread_count: How many failures cannot be read.
        differences: Differences of the answer and of the failures that can be read.
    """

    success: bool
    message: str
    failed: list[FailedEntry]
    unread_count: int
    differences: tuple[Difference, ...]


_ENTRIES = msgspec.json.Decoder(tuple[Entry, ...])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ADDITION = msgspec.json.Decoder(_Addition, strict=False)  # success may be a text
_FAILED = msgspec.json.Decoder(FailedEntry)
_NO_REASON = "no reason is given"


class Difference(NamedTuple):
    """A harmless difference from the contract: kind, path and example as in the table `drift`."""

    kind: str
    path: str
    example: str | None


def _list_differences(fields: dict[str, Raw], known: tuple[str, ...], path: str) -> list[Difference]:
    """List unknown fields of an object (all in one difference) and absent ones (one difference each)."""
    unknown = {name: value for name, value in fields.items() if name not in known}
    example = msgspec.json.encode(unknown).decode("utf-8", "replace")
    new = [Difference("new_field", path or "$", example)] if unknown else []
    inside = f"{path}." if path else ""
    return new + [Difference("vanished_field", inside + name, None) for name in known if name not in fields]


def read_addition(body: bytes) -> AddedContacts:
    """Read the answer to a request that adds contacts; a failure that cannot be read does not affect the others.

    Raises:
        UnusableAnswerError: The body says neither what was added nor what failed.
    """
    if not body.strip():
        raise UnusableAnswerError("it is empty: it does not say what was added")
    try:
        answer = _ADDITION.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it does not say what was added: {error}") from None
    fields = _FIELDS.decode(body)
    differences = _list_differences(fields, _Addition.__struct_fields__, "")
    if "failed" not in fields and any(one.kind == "new_field" for one in differences):
        raise UnusableAnswerError("it does not say what was added: failures may stand in an unknown field")
    failures = answer.failed or []
    failed: list[FailedEntry] = []
    for raw in failures:
        try:
            failed.append(_FAILED.decode(raw))
            differences += _list_differences(_FIELDS.decode(raw), FailedEntry.__struct_encode_fields__, "failed[]")
        except UNREADABLE:
            continue
    return AddedContacts(answer.success, answer.message or "", failed, len(failures) - len(failed), tuple(differences))


class Outcomes(NamedTuple):
    """The contacts whose status an answer settles.

    Attributes:
        statuses: Status and message of each contact that the answer settles.
        remarks: Kind, path, example and count of each difference from the contract, as in the table `drift`.
    """

    statuses: dict[Contact, tuple[str, str]]
    remarks: list[tuple[str, str, str | None, int]]


def read_outcomes(
    sent: Sequence[Contact], answer: AddedContacts, says_present: Callable[[str], bool] = lambda message: False
) -> Outcomes:
    """Work out the status of each contact of a request from its answer, without guessing.

    - A contact that a failure names has failed, or counts as added if the list already has it.
    - If the answer is a success and every failure can be read, all other contacts were added.
    - If the answer is not a success and names no failure, every contact has failed. If its message says that the list
      already has a contact, a single contact counts as added; several stay unknown and are sent separately.
    - If the answer is not a success and names some failures, the other contacts stay unknown: they may have been undone
      or left out. They are sent again without the failed ones and get an answer of their own.
    - If a failure matches no contact that was sent, every contact that it could mean stays unknown. In a request of one
      contact there is no doubt which one is meant.

    Args:
        sent: The contacts of the request.
        answer: The successful answer to it.
        says_present: Returns whether a message says that the list already has the contact.
    """
    failures, vague, foreign, unread = _read_failures(sent, answer, says_present)
    statuses = {
        contact: ("added", "") if says_present(message) else (status, message)
        for contact, (status, message) in failures.items()
    }
    rest = [contact for contact in sent if contact not in statuses and contact not in vague]
    if answer.success and not unread:
        statuses |= dict.fromkeys(rest, ("added", ""))
    elif not (answer.success or answer.failed or unread):
        is_present = says_present(answer.message)
        if len(sent) == 1 or not is_present:
            outcome = ("added", "") if is_present else ("failed", answer.message or _NO_REASON)
            statuses |= dict.fromkeys(rest, outcome)
    remarks = [(*difference, times) for difference, times in Counter(answer.differences).items()]
    for path, examples in (("failed[].companyIdentifier", foreign), ("failed[]", unread)):
        remarks += [("foreign_element", path, examples[0], len(examples))] if examples else []
    added_count, stated = sum(status == "added" for status, _ in statuses.values()), re.search(r"\d+", answer.message)
    if answer.success and not unread and stated and int(stated[0]) != added_count:
        remarks.append(("other_count", "message", f"{answer.message!r}, where {added_count} did not fail", 1))
    return Outcomes(statuses, remarks)


def _read_failures(
    sent: Sequence[Contact], answer: AddedContacts, says_present: Callable[[str], bool]
) -> tuple[dict[Contact, tuple[str, str]], set[Contact], list[str], list[str]]:
    """Sort the failures of an answer by what they identify.

    Returns:
        Status and message of the contacts that failures name; contacts that failures may mean without naming them;
        failures of companies or contacts that were not sent; failures that identify no company.
    """
    failed: dict[Contact, tuple[str, str]] = {}
    vague: set[Contact] = set()
    foreign, unread = [], ["a failure that cannot be read"] * answer.unread_count
    by_company: defaultdict[Company | None, list[Contact]] = defaultdict(list)
    for contact in sent:
        by_company[contact.company].append(contact)
    for entry, contact_id, reason in _list_failures(answer):
        number = str(entry.identifier.company_number)
        named = f"{entry.identifier.country} {number}"
        company = normal_form(entry.identifier.country, number) or (sent[0].company if len(sent) == 1 else None)
        contacts = by_company.get(company, [])
        meant = [one for one in contacts if contact_id in ("", one.contact_id)]
        if company is None:
            unread.append(f"a failure of {named}, which is no company number")
        elif not contacts:
            foreign.append(named)
        elif not meant:
            foreign.append(f"{named}, contact {contact_id}")
            vague.update(contacts)
        elif not contact_id and _is_vague(entry, len(contacts), says_present):
            vague.update(contacts)
        else:
            status = "failed" if contact_id else "company_failed"
            failed = {**dict.fromkeys(meant, (status, reason or _NO_REASON)), **failed}
        if len(contacts) == 1 and not meant:  # there is no doubt which one is meant
            failed.setdefault(contacts[0], ("failed", reason or _NO_REASON))
    return failed, vague, foreign, unread


def _is_vague(entry: FailedEntry, count: int, says_present: Callable[[str], bool]) -> bool:
    """Return whether a failure of a company gives no reason, or says that the list has one of several contacts."""
    return (entry.contacts == [] and not entry.message) or (count > 1 and says_present(entry.message or ""))


def _list_failures(answer: AddedContacts) -> Iterator[tuple[FailedEntry, str, str]]:
    """Yield each failure with the id of its contact ("" for the whole company) and its reason."""
    for entry in answer.failed:
        for failed in entry.contacts or ():
            yield entry, str(failed.identifier.contact_id), failed.message or ""
        if not entry.contacts:
            yield entry, "", entry.message or ""
