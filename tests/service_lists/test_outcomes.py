"""What an answer says of each contact that was sent: nothing counts as added that a failure may mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firmlake.service_lists.contact_plan import Contact
from firmlake.service_lists.decode import read_addition
from firmlake.service_lists.outcomes import read_outcomes

FIRST, SECOND = Contact("BE", "0403227515", "007"), Contact("BE", "0403227515", "8")
OTHER = Contact("NL", "24202194", "9")


def statuses(*sent: Contact, **failure: Any) -> dict[Contact, str]:
    number = failure.pop("number", "403227515")
    entry = {"companyIdentifier": {"country": "BE", "companyNumber": number}, "contacts": None, **failure}
    answer = {"success": True, "message": "2 contacts added", "failed": [entry]}
    outcomes, remarks = read_outcomes(sent, read_addition(json.dumps(answer).encode()))
    assert remarks
    return {contact: status for contact, (status, _) in outcomes.items()}


SEVEN: Any = [{"contactIdentifier": {"contactId": "7"}, "message": "Contact not found"}]


def test_a_failed_contact_that_was_not_sent_leaves_the_others_of_its_company_unknown():
    assert statuses(FIRST, SECOND, OTHER, contacts=SEVEN) == {OTHER: "added"}
    eight = {"contactIdentifier": {"contactId": "8"}}
    assert statuses(FIRST, SECOND, OTHER, contacts=[eight, *SEVEN]) == {SECOND: "failed", OTHER: "added"}


def test_a_failed_company_that_is_none_leaves_all_unknown():
    assert statuses(FIRST, OTHER, number="KBC", message="Company not found") == {}


@pytest.mark.parametrize(
    ("failure", "status"),
    [({"contacts": SEVEN}, "failed"), ({"number": "0403.227.515", "message": "Company not found"}, "company_failed")],
)
def test_of_a_contact_sent_alone_every_spelling_is_clear(failure, status):
    assert statuses(FIRST, **failure) == {FIRST: status}
