import re
from typing import Any

import pytest

from .calls import Api

STATIC, SMART = 1002, 1001  # in seed 0
UNKNOWN = "BE0403227516"


def all_lists(api: Api, kind: str) -> list[dict[str, Any]]:
    first = api.call("GET", "/v1/lists", params={"type": kind, "limit": 500}).json()
    second = api.call("GET", "/v1/lists", params={"type": kind, "limit": 500, "offset": 500}).json()
    found = first["data"] + second["data"]
    assert len(found) == first["pagination"]["total"] == second["pagination"]["total"]
    return found


def show(api: Api, number: int) -> dict[str, Any]:
    return next(one for one in all_lists(api, "OVERVIEW") if one["id"] == number)


def test_there_are_more_than_five_hundred_static_and_smart(api: Api) -> None:
    static, smart = all_lists(api, "STATIC"), all_lists(api, "SMART")
    assert {one["type"] for one in static} == {"STATIC"}
    assert {one["type"] for one in smart} == {"SMART"}
    assert sorted(one["id"] for one in static + smart) == [one["id"] for one in all_lists(api, "OVERVIEW")]
    assert len(static) + len(smart) > 500
    assert api.call("GET", "/v1/lists").json()["pagination"] == {"limit": 4, "offset": 0, "total": 520}


def test_lists_are_as_specified(api: Api) -> None:
    timestamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    lists = all_lists(api, "OVERVIEW")
    for one in lists:
        assert list(one) == [
            "id", "name", "type", "columns", "shared", "notifications", "amountOfCompanies", "newResults",
            "updatedAt", "createdAt", "createdBy",
        ]  # fmt: skip
        assert (one["newResults"] is None) == (one["type"] == "STATIC")
        assert one["type"] == "STATIC" or not one["notifications"]["enabled"]
        assert timestamp.fullmatch(one["updatedAt"])
        assert timestamp.fullmatch(one["createdAt"])
        assert one["createdAt"] <= one["updatedAt"]
        assert "@" in one["createdBy"]
    assert any(one["notifications"]["enabled"] for one in lists)
    known = {"activities", "vatNumber", "country", "url", "socials", "description"}
    assert any(set(one["columns"]) - known for one in lists)


def test_adding_contacts_changes_the_list(api: Api, companies: list[str]) -> None:
    before = show(api, STATIC)
    answer = api.add_contacts(STATIC, {companies[0]: ["1", "2"], companies[1]: ["3"]}).json()
    assert answer == {"success": True, "message": "3 contacts added to the list", "failed": []}
    after = show(api, STATIC)
    assert after["amountOfCompanies"] == before["amountOfCompanies"] + 2
    assert after["updatedAt"] > before["updatedAt"]
    assert after == before | {name: after[name] for name in ("amountOfCompanies", "updatedAt")}


def test_adding_twice_does_no_harm(api: Api, companies: list[str]) -> None:
    api.add_contacts(STATIC, {companies[0]: ["1", "2"]})
    before = show(api, STATIC)
    assert api.add_contacts(STATIC, {companies[0]: ["1", "2"]}).json() == {
        "success": True,
        "message": "0 contacts added to the list",
        "failed": [],
    }
    assert show(api, STATIC) == before
    assert api.add_contacts(STATIC, {companies[0]: ["2", "3"]}).json()["message"] == "1 contact added to the list"
    assert show(api, STATIC)["amountOfCompanies"] == before["amountOfCompanies"]


def test_unknown_companies_and_contacts_fail_one_by_one(api: Api, companies: list[str]) -> None:
    answer = api.add_contacts(STATIC, {companies[0]: ["1", "10", "x"], UNKNOWN: ["4"], companies[1]: ["5"]}).json()
    assert answer["success"]
    assert answer["message"] == "2 contacts added to the list"
    partly, whole = answer["failed"]
    assert partly["companyIdentifier"]["companyNumber"] in companies[0]
    assert partly["message"] is None
    assert partly["contacts"] == [
        {"contactIdentifier": {"contactId": contact}, "message": "Contact not found"} for contact in ("10", "x")
    ]
    assert whole == {
        "companyIdentifier": {"country": "BE", "companyNumber": "0403227516"},
        "contacts": None,
        "message": "Company not found",
    }


def test_where_nothing_could_be_added_it_is_no_success_and_no_change(api: Api, companies: list[str]) -> None:
    before = show(api, STATIC)
    assert not api.add_contacts(STATIC, {UNKNOWN: ["1"], companies[0]: ["10"]}).json()["success"]
    assert show(api, STATIC) == before


@pytest.mark.parametrize(("number", "status"), [(SMART, 400), (999, 404), (5000, 404), ("x", 400), (-1, 400)])
def test_smart_and_unknown_lists_are_refused(api: Api, companies: list[str], number: int, status: int) -> None:
    answer = api.add_contacts(number, {companies[0]: ["1"]})
    assert answer.status_code == answer.json()["status"] == status


def test_too_many_companies_or_contacts_are_refused_whole(api: Api, companies: list[str]) -> None:
    before = show(api, STATIC)
    many = {company: ["1"] for company in companies[:101]}
    assert api.add_contacts(STATIC, many).status_code == 400
    assert (
        api.add_contacts(STATIC, {companies[0]: ["1"], companies[1]: [str(id) for id in range(51)]}).status_code == 400
    )
    assert show(api, STATIC) == before
    assert api.add_contacts(STATIC, {company: ["1"] for company in companies[:100]}).status_code == 200
    assert api.add_contacts(STATIC, {companies[0]: [str(id) for id in range(50)]}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"companyContacts": []},
        {"companyContacts": [{"company": {"countryCode": "BE", "companyNumber": "403227515"}, "contacts": []}]},
        {"companyContacts": [{"company": {"countryCode": "BE", "companyNumber": "403227515"}}]},
        {"companyContacts": [{"contacts": [{"contactId": "1"}]}]},
        {
            "companyContacts": [
                {"company": {"countryCode": "BE", "companyNumber": "403227515"}, "contacts": [{"contactId": 1}]}
            ]
        },
    ],
)
def test_a_body_out_of_contract_is_refused(api: Api, body: object) -> None:
    assert api.call("PUT", f"/v1/lists/{STATIC}/contacts", json=body).status_code == 400


def test_lists_come_go_and_move_as_a_fault_has_it(api: Api) -> None:
    api.sandbox.set_options(lists=4)

    def ids(change: str, number: int = 0) -> list[int]:
        api.sandbox.set_faults([{"kind": "change_lists", "change": change, "list": number, "times": 1}])
        return [one["id"] for one in api.call("GET", "/v1/lists", params={"limit": 500}).json()["data"]]

    assert ids("appear") == [1001, 1002, 1003, 1004, 1005]
    assert ids("vanish", 1003) == ids("vanish", 1003) == [1001, 1002, 1004, 1005]
    assert ids("front", 1004) == ids("front", 9) == [1004, 1001, 1002, 1005]
    assert ids("appear")[-1] == 1006
    assert api.add_contacts(1003, {"BE0403227515": ["1"]}).status_code == 404
