"""What an answer says of each contact that was sent: nothing counts as added that a failure may mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firmlake.core.errors import UnusableAnswerError
from firmlake.service_lists.additions import read_outcomes
from firmlake.service_lists.contacts import Contact

FIRST, SECOND = Contact("BE", "0403227515", "007"), Contact("BE", "0403227515", "8")
OTHER = Contact("NL", "24202194", "9")


def contact(contact_id: Any, message: str | None = "Contact not found") -> dict[str, Any]:
    return {"contactIdentifier": {"contactId": contact_id}, "message": message}


def company(*contacts: dict[str, Any], number: Any = "403227515", **fields: Any) -> dict[str, Any]:
    failed = list(contacts) or None
    return {"companyIdentifier": {"country": "be", "companyNumber": number}, "contacts": failed, **fields}


def success(*failed: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"success": True, "message": None, "failed": list(failed), **fields}


def no_success(*failed: dict[str, Any], message: str = "") -> dict[str, Any]:
    return {"success": False, "message": message, "failed": list(failed)}


def outcomes(sent: list[Contact], answer: dict[str, Any]) -> dict[Contact, str]:
    found, _ = read_outcomes(sent, json.dumps(answer).encode(), lambda message: "already" in message.casefold())
    return {one: status for one, (status, _) in found.items()}


PRESENT = "CONTACT ALREADY IN LIST 7."
NOT_FOUND = {"message": "Company not found"}
CASES = {
    "failures that are null": ([FIRST, OTHER], success(failed=None), "added added"),
    "no failures": ([FIRST, OTHER], {"success": True}, "added added"),
    "ids that are JSON numbers": ([SECOND, OTHER], success(company(contact(8), number=403227515)), "failed added"),
    # The others may have been undone or left out, whatever number the message states.
    "no success that adds": ([SECOND, OTHER], no_success(company(contact(8)), message="1 contact added"), "failed -"),
    "no success that undoes": ([SECOND, OTHER], no_success(company(contact(8)), message="2 rolled back"), "failed -"),
    "in the list already": ([SECOND], no_success(company(contact(8, PRESENT))), "added"),
    # Of several it does not tell which one is there, nor whether the others were added.
    "all of one in the list already": ([SECOND], no_success(message=PRESENT), "added"),
    "one of several in the list already": ([FIRST, SECOND], no_success(message=PRESENT), "- -"),
    "a company of one in the list already": ([SECOND], no_success(company(message=PRESENT)), "added"),
    "a company of several in the list already": ([FIRST, SECOND], no_success(company(message=PRESENT)), "- -"),
    "a contact that was not sent": ([FIRST, SECOND, OTHER], success(company(contact("7"))), "- - added"),
    "one sent, one not": ([FIRST, SECOND, OTHER], success(company(contact("8"), contact("7"))), "- failed added"),
    "a company without contacts or reason": ([FIRST, SECOND, OTHER], success(company(contacts=[])), "- - added"),
    "a company that is none": ([FIRST, OTHER], success(company(number="KBC", **NOT_FOUND)), "- -"),
    "another id of a contact sent alone": ([FIRST], success(company(contact("7"))), "failed"),
    "another spelling of a company": ([FIRST], success(company(number="0403.227.515", **NOT_FOUND)), "company_failed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_answer_settles_the_contacts_of_which_it_leaves_no_doubt(case):
    sent, answer, expected = CASES[case]
    found = outcomes(sent, answer)
    assert [found.get(one, "-") for one in sent] == expected.split()


@pytest.mark.parametrize(
    ("body", "says"), [(b'{"success": true, "errors": []}', "unknown field"), (b"", "what was added")]
)
def test_an_answer_that_does_not_say_what_failed_is_not_used(body, says):
    with pytest.raises(UnusableAnswerError, match=says):
        read_outcomes([FIRST], body)
