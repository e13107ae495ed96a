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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from firmlake.api.answers import UNREADABLE
from firmlake.core.company import normal_form
from firmlake.core.errors import DamagedError, UnusableAnswerError
from firmlake.core.files import read_json
from firmlake.core.folders import Folders
from firmlake.core.settings import NameSettings
from firmlake.landing.segments import Header, list_segments, read_segment
from firmlake.service_lists.contacts import Contact, ContactPlan, Entry, by_companies, spread

SETTLED = ("added", "failed", "company_failed")
Outcomes = dict[Contact, tuple[str, str]]
"""Status and message of contacts."""


class ContactStatus(NamedTuple):
    """The status of a contact that was sent to a list, by whichever plan; a row of the table `contact_additions`.

    Attributes:
        status: `added`, `failed` (the message says why), `company_failed` (the message says why the whole company
            failed) or `unknown` (no answer mentions the contact).
        sent_count: Requests that carried the contact, repeats included.
        lost_count: Requests whose answer was lost or cannot be read.
        changed_at: When the status became known or, if it is unknown, when the contact was last sent; UTC.
        request_id: The request of the plan that led to the status.
    """

    status: str
    message: str
    sent_count: int
    lost_count: int
    changed_at: datetime
    request_id: str
    plan_id: str

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
    plan_id: str


class Applied(NamedTuple):
    """How much of a plan has been applied.

    Attributes:
        statuses: The status of each contact of the plan that was sent since the plan was made, or that is in the list.
        remarks: Differences from the contract, such as answers about contacts that were not sent.
    """

    plan: ContactPlan
    statuses: dict[Contact, ContactStatus]
    remarks: list[Remark]

    def counts(self) -> dict[str, int]:
        """Count the plan's contacts by status; one that was not sent yet is `pending`."""
        found = Counter(known.status for known in self.statuses.values())
        found["pending"] = sum(contact not in self.statuses for contact in self.plan.contacts())
        return {status: found[status] for status in (*SETTLED, "unknown", "pending")}

    def lacking(self) -> list[tuple[Contact, ContactStatus]]:
        """List the contacts that were sent and are not known to be added."""
        return [(contact, known) for contact, known in self.statuses.items() if known.status != "added"]


class Additions:
    """What became of all contacts that were ever sent to lists. Once added, a contact stays added.

    The `plans` that were applied are by name, the oldest first.
    """

    def __init__(self) -> None:
        self.plans: dict[str, ContactPlan] = {}
        self.statuses: dict[tuple[int, Contact], ContactStatus] = {}
        self.remarks: list[Remark] = []
        self._sent: dict[str, list[Contact]] = {}
        self._open: set[str] = set()

    def since(self, plan: ContactPlan, contact: Contact) -> ContactStatus | None:
        """Return the status of a contact if it was added, or sent since a plan was made; otherwise None."""
        known = self.statuses.get((plan.list_id, contact))
        return known if known and (known.status == "added" or known.changed_at >= plan.made_at) else None

    def is_settled(self, plan: ContactPlan, contact: Contact) -> bool:
        """Return whether a plan need not send a contact any more."""
        return (known := self.since(plan, contact)) is not None and known.status in SETTLED

    def applied(self, plan: ContactPlan) -> Applied:
        """Return how much of a plan has been applied."""
        known = ((contact, self.since(plan, contact)) for contact in plan.contacts())
        statuses = {contact: status for contact, status in known if status}
        return Applied(plan, statuses, [one for one in self.remarks if one.plan_id == plan.plan_id])

    def failed(self, list_id: int, names: NameSettings, *, also_not_found: bool = False) -> list[Contact]:
        """List the contacts that were sent to a list, and not added.

        Those that the service does not know, or whose company it does not know, are left out unless `also_not_found`:
        they fail until somebody creates them.
        """
        return [
            contact
            for (of_list, contact), known in self.statuses.items()
            if of_list == list_id and known.status != "added" and (also_not_found or not known.is_not_found(names))
        ]

    def absorb(self, plan: ContactPlan, header: Header, body: bytes) -> None:
        """Update the statuses from one landed record of a plan. Call this in landing order."""
        request = header.request_id
        is_lost, outcomes, reason = True, Outcomes(), "the answer was lost"
        if header.kind == "sending":
            self._sent[request], sent = list(spread(_ENTRIES.decode(body))), 1
            self._open.add(request)
        elif header.kind == "given_up":
            status = _outcome("failed", header.error, plan.says_present)
            outcomes, sent = dict.fromkeys(self._sent.get(request, ()), status), 0
        else:
            is_lost, outcomes, reason = self._read_answer(plan, header, body)
            sent = int(request not in self._open)  # the first answer is that of the sending
            self._open.discard(request)
        for contact in self._sent.get(request, ()):
            status = outcomes.get(contact, ("unknown", reason))
            self._set(plan, header, contact, status, sent, sent if is_lost else sent - 1)

    def _read_answer(self, plan: ContactPlan, header: Header, body: bytes) -> tuple[bool, Outcomes, str]:
        """Return whether an answer was lost, the outcomes that it settles, and why it settles no others."""
        if header.kind == "no_answer" or header.status is None or header.status >= 500:
            return True, {}, header.error or f"status {header.status}"
        if not header.is_success:
            return False, {}, f"status {header.status}"
        try:
            outcomes, odd = read_outcomes(self._sent.get(header.request_id, []), body, plan.says_present)
        except UnusableAnswerError as error:
            return True, {}, error.message
        self.remarks += [Remark(*one, header.fetched_at, plan.plan_id) for one in odd]
        return False, outcomes, "the answer does not say"

    def _set(
        self, plan: ContactPlan, header: Header, contact: Contact, status: tuple[str, str], sent: int, lost: int
    ) -> None:
        """Update the status of a contact; what a plan has settled never becomes unknown again."""
        new = ContactStatus(*status, sent, lost, header.fetched_at, header.request_id, plan.plan_id)
        if before := self.statuses.get((plan.list_id, contact)):
            is_settled = before.status in SETTLED and before.plan_id == plan.plan_id
            stays = before.status == "added" or (is_settled and new.status == "unknown")
            sent, lost = before.sent_count + sent, before.lost_count + lost
            new = (before if stays else new)._replace(sent_count=sent, lost_count=lost)
        self.statuses[plan.list_id, contact] = new


def read_additions(
    folders: Folders, until: datetime | None = None, damaged: dict[str, DamagedError] | None = None
) -> Additions:
    """Read what became of the contacts of all plans, as far as it had landed by `until`; None takes all.

    `damaged` receives the errors of plans with damaged files, which are then left out; None raises them.
    """
    additions, segments = Additions(), []
    for path in sorted(folders.additions.glob("plan=*/plan.json")):
        try:
            plan = read_json(path, ContactPlan)
            landed = [[(one.header, one.body) for one in read_segment(each)] for each in list_segments(path.parent)]
        except DamagedError as error:
            if damaged is None:
                raise
            damaged[path.parent.name.removeprefix("plan=")] = error
            continue
        additions.plans[plan.plan_id] = plan
        segments += [(plan, records) for records in landed if records]
    # A segment is what one call landed, while it kept all others out.
    for plan, records in sorted(segments, key=lambda one: one[1][0][0].fetched_at):
        for header, body in records:
            if until is None or header.fetched_at <= until:
                additions.absorb(plan, header, body)
    return additions


class _ContactIdentifier(Struct, frozen=True):
    contact_id: str | int = field(name="contactId")


class _FailedContact(Struct, frozen=True):
    identifier: _ContactIdentifier = field(name="contactIdentifier")
    message: str | None = None


class _CompanyIdentifier(Struct, frozen=True):
    country: str
    company_number: str | int = field(name="companyNumber")


class _FailedCompany(Struct, frozen=True):
    """A company that failed as a whole (`contacts` is null) or for some of its contacts."""

    identifier: _CompanyIdentifier = field(name="companyIdentifier")
    contacts: list[_FailedContact] | None = None
    message: str | None = None

    def failures(self) -> list[tuple[str, str]]:
        """List the id of each failed contact ("" for the whole company), with the reason."""
        each = [(str(one.identifier.contact_id), one.message or "") for one in self.contacts or ()]
        return each or [("", self.message or "")]


class _Addition(Struct, frozen=True):
    success: bool
    failed: list[Raw] | None = None
    message: str | None = None


Difference = tuple[str, str, str | None]
"""Kind, path and example of a difference from the contract, as in the table `drift`."""
_ENTRIES = msgspec.json.Decoder(tuple[Entry, ...])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ADDITION = msgspec.json.Decoder(_Addition, strict=False)  # success may be a text
_FAILED = msgspec.json.Decoder(_FailedCompany)
_NO_REASON = "no reason is given"


def read_addition(body: bytes) -> _Addition:
    """Read the answer to a request that adds contacts.

    Raises UnusableAnswerError if it says neither what was added nor what failed.
    """
    try:
        answer = _ADDITION.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"it does not say what was added: {error}") from None
    fields = _FIELDS.decode(body).keys()
    if "failed" not in fields and not fields <= {*_Addition.__struct_fields__}:
        raise UnusableAnswerError("it does not say what was added: failures may stand in an unknown field")
    return answer


def read_outcomes(
    sent: Sequence[Contact], body: bytes, says_present: Callable[[str], bool] = lambda message: False
) -> tuple[Outcomes, list[tuple[str, str, str | None, int]]]:
    """Work out the status of each contact of a request from its successful answer, without guessing.

    - A contact that a failure names has failed, or counts as added if the list already has it.
    - If the answer is a success and every failure can be read, all other contacts were added.
    - If the answer is not a success and names no failure, every contact has failed. If its message says that the list
      already has a contact, a single contact counts as added; several stay unknown and are sent separately.
    - If the answer is not a success and names some failures, the other contacts stay unknown: they may have been undone
      or left out. They are sent again without the failed ones and get an answer of their own.
    - If a failure matches no contact that was sent, every contact that it could mean stays unknown. In a request of one
      contact there is no doubt which one is meant.

    Returns the outcomes that the answer settles; and kind, path, first example and count of its differences. Raises
    UnusableAnswerError, as `read_addition`.
    """
    answer, odd, failed = read_addition(body), _find_differences(body, _Addition, ""), list[_FailedCompany]()
    for raw in answer.failed or ():
        try:
            failed.append(_FAILED.decode(raw))
            odd += _find_differences(raw, _FailedCompany, "failed[].")
        except UNREADABLE:
            odd.append(("foreign_element", "failed[]", "a failure that cannot be read"))
    outcomes, vague = _match(sent, failed, says_present, odd)
    rest = [contact for contact in sent if contact not in outcomes and contact not in vague]
    is_all_read, message = ("foreign_element", "failed[]") not in {each[:2] for each in odd}, answer.message or ""
    if answer.success and is_all_read:
        outcomes |= dict.fromkeys(rest, ("added", ""))
        added_count, stated = sum(status == "added" for status, _ in outcomes.values()), re.search(r"\d+", message)
        if stated and int(stated[0]) != added_count:
            odd.append(("other_count", "message", f"{message!r}, where {added_count} did not fail"))
    elif not answer.success and not answer.failed and (len(sent) == 1 or not says_present(message)):
        outcomes |= dict.fromkeys(rest, _outcome("failed", message, says_present))
    counts = Counter(each[:2] for each in odd)
    examples = {each[:2]: each[2] for each in reversed(odd)}
    return outcomes, [(*place, examples[place], count) for place, count in counts.items()]


def _match(
    sent: Sequence[Contact],
    failed: Iterable[_FailedCompany],
    says_present: Callable[[str], bool],
    odd: list[Difference],
) -> tuple[Outcomes, set[Contact]]:
    """Match failures with the contacts that were sent; what matches none is added to the differences.

    Returns the outcomes of the contacts that failures name, of which the first counts; and contacts that failures may
    mean without naming them.
    """
    outcomes: Outcomes = {}
    vague, by_company = set[Contact](), by_companies(sent)
    for each in failed:
        country, number = each.identifier.country, str(each.identifier.company_number)
        company = normal_form(country, number) or (sent[0].company if len(sent) == 1 else None)
        contacts = by_company.get(company, []) if company else []
        if company is None:
            odd.append(("foreign_element", "failed[]", f"a failure of {country} {number}, which is no company number"))
        elif not contacts:
            odd.append(("foreign_element", "failed[].companyIdentifier", f"{country} {number}"))
        for contact_id, reason in each.failures() if contacts else ():
            meant = [one for one in contacts if contact_id in ("", one.contact_id)]
            if not meant:
                example = f"{country} {number}, contact {contact_id}"
                odd.append(("foreign_element", "failed[].companyIdentifier", example))
                meant = contacts if len(contacts) == 1 else []  # there is no doubt which one is meant
            is_bare = each.contacts == [] and not reason
            if not meant or is_bare or (not contact_id and len(contacts) > 1 and says_present(reason)):
                vague.update(contacts)
                continue
            outcome = _outcome("failed" if contact_id else "company_failed", reason, says_present)
            outcomes = {**dict.fromkeys(meant, outcome), **outcomes}
    return outcomes, vague


def _outcome(status: str, message: str, says_present: Callable[[str], bool]) -> tuple[str, str]:
    """Return status and message of a contact that is said to have failed; the list may have it."""
    return ("added", "") if says_present(message) else (status, message or _NO_REASON)


def _find_differences(content: bytes | Raw, kind: type[Struct], path: str) -> list[Difference]:
    """List unknown fields of an object (all in one difference) and absent ones (one difference each)."""
    fields, known = _FIELDS.decode(content), kind.__struct_encode_fields__
    unknown = {name: value for name, value in fields.items() if name not in known}
    example = msgspec.json.encode(unknown).decode("utf-8", "replace")
    found: list[Difference] = [("new_field", path.removesuffix(".") or "$", example)] if unknown else []
    return found + [("vanished_field", path + name, None) for name in known if name not in fields]
