"""What an answer says of each contact that was sent: nothing counts as added that a failure may mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firmlake.core.errors import UnusableAnswerError
from firmlake.service_lists.additions import AddedContacts, read_addition, read_outcomes
from firmlake.service_lists.contacts import Contact

FIRST, SECOND = Contact("BE", "0403227515", "007"), Contact("BE", "0403227515", "8")
OTHER = Contact("NL", "24202194", "9")


def statuses(*sent: Contact, **fields: Any) -> dict[Contact, str]:
    number = fields.pop("number", "403227515")
    entry = {"companyIdentifier": {"country": "BE", "companyNumber": number}, "contacts": None, **fields}
    outcomes, remarks = read_outcomes(sent, answer(success=True, message="2 contacts added", failed=[entry]))
    assert remarks
    return {contact: status for contact, (status, _) in outcomes.items()}


def answer(**fields: Any) -> AddedContacts:
    return read_addition(json.dumps(fields).encode())


def failure(contact: Contact, message: str = "Contact not found") -> dict[str, Any]:
    company = {"country": contact.country.lower(), "companyNumber": int(contact.company_number)}
    failed = {"contactIdentifier": {"contactId": int(contact.contact_id)}, "message": message}
    return {"companyIdentifier": company, "contacts": [failed], "message": None}


@pytest.mark.parametrize("fields", [{"failed": None}, {}])
def test_a_success_without_failures_added_all(fields):
    outcomes = read_outcomes([FIRST, OTHER], answer(success=True, **fields))
    assert outcomes.statuses == dict.fromkeys((FIRST, OTHER), ("added", ""))


def test_where_failures_may_stand_in_an_unknown_field_nothing_is_concluded():
    with pytest.raises(UnusableAnswerError, match="unknown field"):
        answer(success=True, errors=[failure(OTHER)])


def test_an_empty_answer_is_called_so():
    with pytest.raises(UnusableAnswerError, match="it is empty"):
        read_addition(b"")


def test_numbers_and_ids_may_be_json_numbers():
    outcomes = read_outcomes([SECOND, OTHER], answer(success=True, failed=[failure(SECOND)]))
    assert outcomes.statuses == {SECOND: ("failed", "Contact not found"), OTHER: ("added", "")}


@pytest.mark.parametrize("message", ["2 contacts added", "0 contacts added", "2 contacts were rolled back"])
def test_an_answer_that_is_no_success_settles_only_what_it_names(message):
    """The others may have been undone or left out, whatever number the message states."""
    said = answer(success=False, message=message, failed=[failure(SECOND)])
    assert read_outcomes([SECOND, OTHER, FIRST], said).statuses == {SECOND: ("failed", "Contact not found")}


def test_a_contact_that_the_list_has_already_counts_as_added():
    said = answer(success=False, message="", failed=[failure(SECOND, "CONTACT ALREADY IN LIST 7.")])
    outcomes = read_outcomes([SECOND], said, lambda message: "already" in message.casefold())
    assert outcomes.statuses == {SECOND: ("added", "")}


def test_a_message_that_a_contact_is_in_the_list_means_a_contact_that_was_sent_alone():
    """Of several, also of a company, it does not tell which one is there, nor whether the others were added."""
    words = "Contact already in list"
    company = {"companyIdentifier": {"country": "BE", "companyNumber": FIRST.company_number}, "message": words}
    for said in (answer(success=False, message=words, failed=[]), answer(success=False, failed=[company])):
        for sent, statuses in (([SECOND], {SECOND: ("added", "")}), ([FIRST, SECOND], {})):
            assert read_outcomes(sent, said, lambda message: "already" in message).statuses == statuses


SEVEN: Any = [{"contactIdentifier": {"contactId": "7"}, "message": "Contact not found"}]


def test_a_failed_contact_that_was_not_sent_leaves_the_others_of_its_company_unknown():
    assert statuses(FIRST, SECOND, OTHER, contacts=SEVEN) == {OTHER: "added"}
    eight = {"contactIdentifier": {"contactId": "8"}}
    assert statuses(FIRST, SECOND, OTHER, contacts=[eight, *SEVEN]) == {SECOND: "failed", OTHER: "added"}


def test_a_failure_without_contacts_and_without_a_reason_leaves_the_contacts_of_its_company_unknown():
    entry = {"companyIdentifier": {"country": "BE", "companyNumber": "403227515"}, "contacts": [], "message": None}
    assert set(read_outcomes([FIRST, SECOND, OTHER], answer(success=True, failed=[entry])).statuses) == {OTHER}


def test_a_failed_company_that_is_none_leaves_all_unknown():
    assert statuses(FIRST, OTHER, number="KBC", message="Company not found") == {}


@pytest.mark.parametrize(
    ("failure", "status"),
    [({"contacts": SEVEN}, "failed"), ({"number": "0403.227.515", "message": "Company not found"}, "company_failed")],
)
def test_of_a_contact_sent_alone_every_spelling_is_clear(failure, status):
    assert statuses(FIRST, **failure) == {FIRST: status}
