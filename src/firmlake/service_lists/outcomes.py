"""Read the status of each contact of a request from its answer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from firmlake.api.contract import FailedEntry
from firmlake.core.company import Company, normal_form
from firmlake.service_lists.contact_plan import Contact
from firmlake.service_lists.decode import AddedContacts

__all__ = ["read_outcomes"]

_NO_REASON = "no reason is given"
_ADDED = re.compile(r"(\d{1,9}) contacts? added( to the list)?\.?", re.IGNORECASE)


class Outcomes(NamedTuple):
    """The contacts whose status an answer settles.

    Attributes:
        statuses: Status and message of each contact that the answer settles.
        remarks: Kind, path, example and count of each difference from the contract, as in the table `drift`.
    """

    statuses: dict[Contact, tuple[str, str]]
    remarks: list[tuple[str, str, str | None, int]]


class _Failures(NamedTuple):
    """The failures of an answer, sorted by what they identify.

    Attributes:
        statuses: Contacts that a failure names.
        vague: Contacts that a failure may mean although it does not name them.
        foreign: Failures of companies or contacts that were not sent.
        unread: Failures that do not identify a company.
    """

    statuses: dict[Contact, tuple[str, str]]
    vague: set[Contact]
    foreign: list[str]
    unread: list[str]


def read_outcomes(
    sent: Sequence[Contact], answer: AddedContacts, says_present: Callable[[str], bool] = lambda message: False
) -> Outcomes:
    """Work out the status of each contact of a request from its answer, without guessing.

    - A contact that a failure names has failed, or counts as added if the list already has it.
    - If the answer is a success and every failure can be read, all other contacts were added.
    - If the answer is not a success and names no failure, every contact has failed. If its message says that the list
      already has a contact, a single contact counts as added; several stay unknown and are sent separately.
    - If the answer is not a success and names some failures, the other contacts were added only if the message states
      exactly their number as added. Otherwise they stay unknown, because another number may count contacts that were
      undone or left out. They are sent again without the failed ones and get an answer of their own.
    - If a failure matches no contact that was sent, every contact that it could mean stays unknown. In a request of one
      contact there is no doubt which one is meant.

    Args:
        sent: The contacts of the request.
        answer: The successful answer to it.
        says_present: Returns whether a message says that the list already has the contact.
    """
    failures = _read_failures(sent, answer, says_present)
    statuses = {
        contact: ("added", "") if says_present(message) else (status, message)
        for contact, (status, message) in failures.statuses.items()
    }
    rest = [contact for contact in sent if contact not in statuses and contact not in failures.vague]
    if not failures.unread and (answer.success or _counts_rest(answer, failures, rest)):
        statuses |= dict.fromkeys(rest, ("added", ""))
    elif not (answer.success or answer.failed or failures.unread):
        if not says_present(answer.message):
            statuses |= dict.fromkeys(rest, ("failed", answer.message or _NO_REASON))
        elif len(sent) == 1:
            statuses |= dict.fromkeys(rest, ("added", ""))
    added_count = sum(status == "added" for status, _ in statuses.values())
    return Outcomes(statuses, list(_remarks(answer, failures, added_count)))


# ---------------------------------------------------------------------------------------------------------------------


def _read_failures(sent: Sequence[Contact], answer: AddedContacts, says_present: Callable[[str], bool]) -> _Failures:
    by_company: defaultdict[Company, list[Contact]] = defaultdict(list)
    for contact in sent:
        by_company[contact.company].append(contact)
    failures = _Failures({}, set(), [], ["a failure that cannot be read"] * answer.unread_count)
    for entry in answer.failed:
        number = str(entry.identifier.company_number)
        named = f"{entry.identifier.country} {number}"
        company = normal_form(entry.identifier.country, number)
        if company is None and len(sent) == 1:
            company = sent[0].company
        if company is None:
            failures.unread.append(f"a failure of {named}, which is no company number")
        elif company in by_company:
            is_present = says_present(entry.message or "")
            _sort_failure(entry, named, by_company[company], failures, is_present=is_present)
        else:
            failures.foreign.append(named)
    return failures


def _sort_failure(
    entry: FailedEntry, named: str, contacts: list[Contact], failures: _Failures, *, is_present: bool
) -> None:
    """Sort the failure of a company that was sent with these contacts.

    `is_present`: whether the failure says that the list already has one of them.
    """
    if not entry.contacts:
        is_clear = len(contacts) == 1 or not is_present
        if is_clear and (entry.contacts is None or entry.message):
            failures.statuses.update(dict.fromkeys(contacts, ("company_failed", entry.message or _NO_REASON)))
        else:
            failures.vague.update(contacts)
        return
    for failed in entry.contacts:
        ours = [one for one in contacts if one.contact_id == str(failed.identifier.contact_id)]
        if not ours:
            failures.foreign.append(f"{named}, contact {failed.identifier.contact_id}")
            failures.vague.update(contacts)
        for one in ours or (contacts if len(contacts) == 1 else ()):
            failures.statuses.setdefault(one, ("failed", failed.message or _NO_REASON))


def _counts_rest(answer: AddedContacts, failures: _Failures, rest: Sequence[Contact]) -> bool:
    """Return whether an answer that is not a success states as added exactly the number of contacts without failure."""
    is_sure = bool(failures.statuses) and not (failures.vague or failures.foreign)
    told = _ADDED.fullmatch(answer.message.strip())
    return is_sure and told is not None and int(told[1]) == len(rest)


def _remarks(
    answer: AddedContacts, failures: _Failures, added_count: int
) -> Iterator[tuple[str, str, str | None, int]]:
    for difference, times in Counter(answer.differences).items():
        yield *difference, times
    if failures.foreign:
        yield "foreign_element", "failed[].companyIdentifier", failures.foreign[0], len(failures.foreign)
    if failures.unread:
        yield "foreign_element", "failed[]", failures.unread[0], len(failures.unread)
    count = re.search(r"\d+", answer.message)
    if answer.success and not failures.unread and count and int(count[0]) != added_count:
        yield "other_count", "message", f"{answer.message!r}, where {added_count} did not fail", 1
