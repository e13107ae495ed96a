"""What the service takes and answers: one table of refusals, the shape of answers, pages, lists and the description."""

from __future__ import annotations

import json
import re

import openapi_spec_validator
import pytest

import firmlake_sandbox
from firmlake_sandbox.contract import ENDPOINTS, describe_service
from firmlake_sandbox.options import Options
from firmlake_sandbox.state import ListBook
from firmlake_sandbox.world import World

from .conftest import DATASETS, KBC, SMART, STATIC, UNKNOWN

# --- refusals: request -> status, and a word of the message ----------------------------------------------------------

COMPANY = {"countryCode": "BE", "companyNumber": "403227515"}
CONTACT = {"company": COMPANY, "contacts": [{"contactId": "1"}]}


def body(**changes):
    return {"companies": [{**COMPANY, **changes}]}


BODIES = [
    ("", "truncated"), ("{", "truncated"), ("[]", "object"), ("null", "object"), ("{}", "companies"),
    ({"companies": []}, "length"), ({"companies": {}}, "array"),
    ({"companies": [{"countryCode": "BE"}]}, "companyNumber"), (body(countryCode="DE"), "DE"),
    (body(companyNumber=403227515), "companyNumber"), (body(companyNumber="0403.227.515"), "companyNumber"),
    (body(companyNumber="12\n"), "companyNumber"),
    ({"companies": [{"country": "BE", "companyNumber": "403227515"}]}, "country"), ({**body(), "page": 2}, "page"),
    (b'{"companies": "\xff"}', ""), ('{"companies":' * 20_000, ""),
    ({"companies": [COMPANY] * 101}, "101 companies, but a request may have at most 100"),
]  # fmt: skip
CONTACTS = [
    {}, {"companyContacts": []}, {"companyContacts": [{**CONTACT, "contacts": []}]},
    {"companyContacts": [{"company": COMPANY}]}, {"companyContacts": [{"contacts": [{"contactId": "1"}]}]},
    {"companyContacts": [{**CONTACT, "contacts": [{"contactId": 1}]}]},
    {"companyContacts": [CONTACT] * 101},
    {"companyContacts": [CONTACT, {**CONTACT, "contacts": [{"contactId": str(n)} for n in range(51)]}]},
]  # fmt: skip
ADDRESSES = {
    400: [
        "companies/XX/403227515/financials", "companies/BE/0403.227.515/financials", "lists?type=ALL",
        *(f"companies/BE/403227515/financials?{query}"
          for query in ("limit=501", "limit=five", "limit=1&limit=2", "page=1")),
        "companies/BE/403227515/lookalikes?limit=1", "lists?offset=-1", "lists?%ff",
    ],
    404: [
        "companies/BE/403227516/financials", "companies/BE/403227515/owners", "companies/BE/403227515/financials/",
    ],
}  # fmt: skip
CONTROL = [
    ("options", {"nonsense": 1}), ("options", {"credits": -1}), ("options", {"rate_limit_kind": "guess"}),
    ("options", []), ("world", {"week": -1}), ("clock", {}), ("clock", {"seconds": "1"}), ("faults", {}),
    ("faults", [{"kind": "nonsense"}]), ("faults", [{"kind": "status", "colour": 1}]),
    ("faults", [{"kind": "status", "companies": ["BE1"]}]),
]  # fmt: skip
LIMITS = [0, -1, 501, "5", 1.5, None, True, 10**30]
REFUSALS = [
    *(("POST", f"/v1/companies/{dataset}", content, 400, word) for dataset in DATASETS for content, word in BODIES),
    *(("POST", f"/v1/companies/{name}", {**body(), "limit": 5}, 400, "limit") for name in DATASETS[1:]),
    *(("POST", "/v1/companies/financials", {**body(), "limit": limit}, 400, "") for limit in LIMITS),
    *(("GET", f"/v1/{path}", None, status, "") for status, paths in ADDRESSES.items() for path in paths),
    ("GET", "/v2/lists", None, 404, ""), ("GET", "/", None, 404, ""),
    *((method, path, None, 405, "")
      for method, path in (("GET", "/v1/companies/financials"), ("POST", "/v1/lists"), ("DELETE", "/v1/lists"))),
    *(("PUT", f"/v1/lists/{STATIC}/contacts", content, 400, "") for content in CONTACTS),
    *(("PUT", f"/v1/lists/{number}/contacts", {"companyContacts": [CONTACT]}, status, "")
      for number, status in ((SMART, 400), ("x", 400), (-1, 400), (999, 404), (5000, 404))),
    *(("POST", f"/_sandbox/{path}", content, 400, "") for path, content in CONTROL),
]  # fmt: skip


def error(answer):
    """Status and message of an error in the service's form."""
    content = answer.json()
    assert content.keys() == {"status", "message"}
    assert content["status"] == answer.status_code
    return answer.status_code, content["message"]


def test_what_is_out_of_contract_is_refused_with_a_hint_and_changes_and_costs_nothing(api):
    before = api.lists(limit=500).content
    for method, path, content, status, word in REFUSALS:
        answer = api.call(method, path, **{"content" if isinstance(content, str | bytes) else "json": content})
        found, message = error(answer)
        assert (found, word in message) == (status, True), (method, path, str(content)[:80], message)
        if status == 405:
            assert answer.headers["allow"] == ("POST" if "companies" in path else "GET")
    assert api.lists(limit=500).content == before
    assert api.summary()["credits_charged"] == 0


def test_who_has_no_valid_token_gets_no_answer(api):
    forbidden = f"Bearer {api.sandbox.token}-forbidden"
    for header in ("", "Bearer", f"Basic {api.sandbox.token}", "Bearer wrong", api.sandbox.token):
        assert error(api.call("GET", "/v1/lists", headers={"Authorization": header}))[0] == 401
    assert error(api.call("GET", "/v1/lists", headers={"Authorization": forbidden}))[0] == 403
    for header in ("Bearer second", "Bearer wrong", forbidden):  # control takes the first token alone
        assert error(api.call("GET", "/_sandbox/ledger", headers={"Authorization": header}))[0] == 401


# --- companies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_bulk_request_is_answered_company_by_company_in_order_as_single_ones_are(api, companies, dataset):
    for company, element in zip(companies[:10], api.bulk(dataset, companies[:10]).json(), strict=True):
        assert element.pop("message") is None
        assert api.single(dataset, company).json() == element
    asked = [companies[1], "NL1", companies[0], companies[1], UNKNOWN]
    elements = api.bulk(dataset, asked).json()
    numbers = [element["identifier"]["companyNumber"] for element in elements]
    assert [n.zfill(len(one) - 2) for one, n in zip(asked, numbers, strict=True)] == [one[2:] for one in asked]
    assert [element["message"] for element in elements] == [None, "Company not found", None, None, "Company not found"]
    missing = {"identifier": {"country": "NL", "companyNumber": "1"}, "data": None, "message": "Company not found"}
    assert elements[1] == (missing | {"pagination": None} if dataset == "financials" else missing)
    assert api.bulk(dataset, [KBC] * 100).status_code == 200


def test_the_language_header_chooses_names_and_places(api, companies):
    def places(language):
        elements = api.bulk("lookalikes", companies[:30], headers={"Accept-Language": language}).json()
        return [element["identifier"]["place"] for element in elements]

    assert places("NL") != places("FR") != places("EN")
    assert places("nl-BE,nl;q=0.9,en;q=0.8") == places("NL")
    assert places("*") == places("EN")


def test_belgian_numbers_are_read_in_both_spellings_and_answered_in_the_chosen_one(api):
    for has_zero, spelled in ((False, "403227515"), (True, "0403227515")):
        api.sandbox.set_options(leading_zero=has_zero)
        for company in (KBC, "BE403227515"):
            assert api.single("financials", company).json()["identifier"]["companyNumber"] == spelled


def test_the_world_moves_on_by_weeks_and_back(api, companies):
    before = api.bulk("relationships", companies[:100]).json()
    api.sandbox.set_world(week=20)
    assert api.bulk("relationships", companies[:100]).json() != before
    api.sandbox.set_world(week=0)
    assert api.bulk("relationships", companies[:100]).json() == before


def test_limit_and_offset_hold_for_every_company(api, companies):
    for element in api.bulk("financials", companies[:40]).json():
        pagination = element["pagination"]
        assert (pagination["limit"], pagination["offset"]) == (4, 0), "where no limit is given"
        assert len(element["data"]) == min(4, pagination["total"])
    whole = api.bulk("financials", companies[:20], limit=25).json()
    page = api.bulk("financials", companies[:20], limit=3, offset=2).json()
    assert [element["data"] for element in page] == [element["data"][2:5] for element in whole]
    assert page[0]["pagination"] == {"limit": 3, "offset": 2, "total": whole[0]["pagination"]["total"]}
    assert api.single("financials", companies[0], limit=3, offset=2).json()["data"] == page[0]["data"]
    assert api.single("financials", companies[0], offset=20).json()["data"] == []


def test_companies_times_limit_is_capped_unless_lifted(api, companies):
    assert api.bulk("financials", companies[:100], limit=5).status_code == 200
    status, message = error(api.bulk("financials", companies[:100], limit=6))
    assert (status, "500 records" in message) == (400, True)
    api.sandbox.set_options(records_per_request=0)
    assert api.bulk("financials", companies[:100], limit=500).status_code == 200


# --- lists -----------------------------------------------------------------------------------------------------------


def all_lists(api, kind="OVERVIEW"):
    first, second = (api.lists(type=kind, limit=500, offset=offset).json() for offset in (0, 500))
    found = first["data"] + second["data"]
    assert len(found) == first["pagination"]["total"] == second["pagination"]["total"]
    return found


def show(api, number=STATIC):
    return next(one for one in all_lists(api) if one["id"] == number)


def test_lists_are_as_specified_and_more_than_five_hundred_static_and_smart(api):
    timestamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    lists, kinds = all_lists(api), {kind: all_lists(api, kind) for kind in ("STATIC", "SMART")}
    assert api.lists().json()["pagination"] == {"limit": 4, "offset": 0, "total": 520}
    assert all(one["type"] == kind for kind in kinds for one in kinds[kind])
    assert sorted(one["id"] for found in kinds.values() for one in found) == [one["id"] for one in lists]
    assert len(lists) == 520
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


def test_adding_contacts_changes_the_list_once(api, companies):
    before = show(api)
    contacts = {companies[0]: ["1", "2"], companies[1]: ["3"]}
    added = {"success": True, "message": "3 contacts added to the list", "failed": []}
    assert api.add_contacts(STATIC, contacts).json() == added
    after = show(api)
    assert after["amountOfCompanies"] == before["amountOfCompanies"] + 2
    assert after["updatedAt"] > before["updatedAt"]
    assert after == before | {name: after[name] for name in ("amountOfCompanies", "updatedAt")}
    assert api.add_contacts(STATIC, contacts).json() == added | {"message": "0 contacts added to the list"}
    assert show(api) == after
    assert api.add_contacts(STATIC, {companies[0]: ["2", "3"]}).json()["message"] == "1 contact added to the list"
    assert show(api)["amountOfCompanies"] == after["amountOfCompanies"]
    for full in ({company: ["1"] for company in companies[:100]}, {companies[0]: [str(n) for n in range(50)]}):
        assert api.add_contacts(STATIC, full).status_code == 200


def test_unknown_companies_and_contacts_fail_one_by_one(api, companies):
    answer = api.add_contacts(STATIC, {companies[0]: ["1", "10", "x"], UNKNOWN: ["4"], companies[1]: ["5"]}).json()
    assert (answer["success"], answer["message"]) == (True, "2 contacts added to the list")
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
    before = show(api)
    assert not api.add_contacts(STATIC, {UNKNOWN: ["1"], companies[0]: ["10"]}).json()["success"]
    assert show(api) == before, "where nothing could be added"


# --- the description -------------------------------------------------------------------------------------------------


def test_the_description_is_valid_has_every_endpoint_and_is_served_to_anyone_with_the_limits_in_force(api):
    description = json.loads(describe_service(Options()))
    openapi_spec_validator.validate(description)
    described = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    api.sandbox.set_options(companies_per_request=7)
    served = api.connection.get(api.sandbox.base_url + "/openapi.json").json()
    assert served["components"]["schemas"]["CompaniesBody"]["properties"]["companies"]["maxItems"] == 7


@pytest.mark.schemathesis
def test_the_service_is_as_described():
    """Examples, edge cases and drawn requests, valid and invalid, with every check of schemathesis."""
    from schemathesis import Config, openapi
    from schemathesis.engine import from_schema

    settings = {
        "headers": {"Authorization": "Bearer secret"},
        "generation": {"max-examples": 60, "deterministic": True},
        "phases": {"stateful": {"enabled": False}},  # no answer names a next request
    }
    # No description can say that companies x limit is capped, so the cap is lifted.
    with firmlake_sandbox.start("secret", requests_per_minute=0, records_per_request=0) as sandbox:
        schema = openapi.from_url(f"{sandbox.base_url}/openapi.json", config=Config.from_dict(settings))
        schema.hook(map_body)
        schema.hook(map_path_parameters)
        failures, checks = collect(from_schema(schema).execute())
        endpoints = sandbox.ledger(summary=True)["summary"]["by_endpoint"]
    assert failures == []
    assert checks > 1000
    assert all(endpoints[endpoint.name].keys() >= {"200", "400", "401"} for endpoint in ENDPOINTS)


def map_body(context, body):
    """JSON Schema counts 5.0 among the integers; services do not."""
    if isinstance(body, dict):
        return body | {name: int(one) for name, one in body.items() if isinstance(one, float) and one.is_integer()}
    return body


def map_path_parameters(context, path_parameters):
    """A smart list refuses contacts, which no description can say of an id."""
    is_smart = path_parameters and ListBook(World().key, 520).type_of(path_parameters.get("id")) == "SMART"
    return path_parameters | {"id": STATIC} if is_smart else path_parameters


def collect(stream):
    """What failed, with the request that shows it, and how much was checked."""
    from schemathesis.engine import events

    failures, count = [], 0
    for event in stream:
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            failures.append(str(event))
        if isinstance(event, events.ScenarioFinished):
            for check in (one for nodes in event.recorder.checks.values() for one in nodes):
                count += 1
                if check.failure_info:
                    failures.append(f"{check.name}: {check.failure_info.failure} {check.failure_info.code_sample}")
    return failures, count
