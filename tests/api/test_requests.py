"""What is sent for what is asked."""

import json

import msgspec
import pytest

from firmlake.api import requests
from firmlake.core.company import Company
from firmlake.core.errors import SettingsError
from firmlake.core.example import read_example
from firmlake.core.settings import ApiSettings

API = ApiSettings()
ACME = Company("BE", "0770493071")
VAN_DAM = Company("NL", "01234567")
GET = "GET /v1/companies/{country}/{number}/financials?limit={limit}&offset={offset}"


def test_a_bulk_request_names_its_companies_and_the_page_of_each():
    request = requests.bulk(API, "financials", [ACME, VAN_DAM], 5, 10)
    assert (request.method, request.path, request.query) == ("POST", "/v1/companies/financials", ())
    assert json.loads(request.body) == {
        "companies": [
            {"countryCode": "BE", "companyNumber": "770493071"},
            {"countryCode": "NL", "companyNumber": "01234567"},
        ],
        "limit": 5,
        "offset": 10,
    }
    assert (request.companies, request.limit, request.offset) == ((ACME, VAN_DAM), 5, 10)


def test_what_is_not_asked_for_is_not_sent():
    assert json.loads(requests.bulk(API, "lookalikes", [VAN_DAM]).body).keys() == {"companies"}
    get = by_example("financials", GET)
    assert requests.bulk(get, "financials", [ACME]).query == ()


def test_an_example_may_ask_for_one_company_in_the_path():
    get = by_example("financials", GET)
    request = requests.bulk(get, "financials", [ACME], 500, 0)
    assert (request.method, request.path) == ("GET", "/v1/companies/BE/770493071/financials")
    assert (request.query, request.body) == ((("limit", "500"), ("offset", "0")), b"")
    assert requests.fitting(get, "financials").companies_per_request == 1
    with pytest.raises(ValueError, match="asks for one company, not for 2"):
        requests.bulk(get, "financials", [ACME, VAN_DAM])


def test_service_lists_are_paged_by_kind():
    request = requests.service_lists(API, "OVERVIEW", 500, 1000)
    assert (request.method, request.path) == ("GET", "/v1/lists")
    assert request.query == (("type", "OVERVIEW"), ("limit", "500"), ("offset", "1000"))


def test_contacts_are_grouped_by_company():
    request = requests.add_contacts(API, 1002, {ACME: ["123", "124"]})
    assert (request.method, request.path) == ("PUT", "/v1/lists/1002/contacts")
    assert json.loads(request.body) == {
        "companyContacts": [
            {
                "company": {"countryCode": "BE", "companyNumber": "770493071"},
                "contacts": [{"contactId": "123"}, {"contactId": "124"}],
            }
        ]
    }


@pytest.mark.parametrize(
    ("keeps", "company", "spelt"),
    [
        (False, ACME, "770493071"),
        (True, ACME, "0770493071"),
        (False, Company("BE", "1000000035"), "1000000035"),
        (False, VAN_DAM, "01234567"),
        (False, Company("FR", "005580501"), "005580501"),
    ],
)
def test_only_belgian_numbers_lose_their_zero_and_only_if_so_set(keeps, company, spelt):
    assert requests.spell_number(ApiSettings(keep_leading_zero=keeps), company) == spelt


def by_example(endpoint, text):
    return msgspec.structs.replace(API, requests=msgspec.structs.replace(API.requests, **{endpoint: text}))


NESTED = """
{"request": {
  "ids": [{"companyId": {"c": "{country}", "n": {number}}}],
  "page": {"size": {limit}, "from": {offset}}
}}
"""
DUTCH = """
{"ondernemingen": ["{country}{number}"], "aantal": "{limit}", "vanaf": {offset}, "taal": "{language}", "zone": []}
"""
IDS = [{"companyId": {"c": "BE", "n": 770493071}}, {"companyId": {"c": "NL", "n": 1234567}}]
NAMED = {"ondernemingen": ["BE770493071", "NL01234567"], "taal": "EN", "zone": []}


@pytest.mark.parametrize(
    ("body", "paged", "unpaged"),
    [
        (NESTED, {"request": {"ids": IDS, "page": {"size": 5, "from": 0}}}, {"request": {"ids": IDS}}),
        (DUTCH, {**NAMED, "aantal": "5", "vanaf": 0}, NAMED),
        (
            '[{"of": "{country}-{number}", "100%": true, "n": {limit}, "m": {offset}}]',
            [{"of": "BE-770493071", "100%": True, "n": 5, "m": 0}, {"of": "NL-01234567", "100%": True, "n": 5, "m": 0}],
            [{"of": "BE-770493071", "100%": True}, {"of": "NL-01234567", "100%": True}],
        ),
    ],
)
def test_a_request_looks_like_its_example(body, paged, unpaged):
    api = by_example(
        "financials", f"POST /v2/fin?fields=all%2Cx&top={{limit}}\nX-Taal: {{language}}\nHost: x\n\n{body}"
    )
    request = requests.bulk(api, "financials", [ACME, VAN_DAM], 5, 0)
    assert json.loads(request.body) == paged
    assert (request.path, request.query) == ("/v2/fin", (("fields", "all,x"), ("top", "5")))
    assert request.headers == (("X-Taal", "EN"),)
    assert json.loads(requests.bulk(api, "financials", [ACME, VAN_DAM]).body) == unpaged
    example = read_example("financials", api.requests.financials)
    assert read_example("financials", example.text) == example


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"companies": []}', "its first line is not a method and a path"),
        ("GET https://x/{number}", "its first line is not a method and a path"),
        ('POST /x\n\n{"a": "{number}"}', "{number} is not in the only element of one array"),
        ('POST /x\n\n["{number}", "{number}"]', "{number} is not in the only element of one array"),
        ('POST /x\n\n["0403227515"]', "it has no {number}"),
        ('POST /x\n\n["{siren}{number}"]', "{siren} is not a placeholder"),
        ('POST /x\n\n["{number}"', "its body is not JSON"),
        ("POST /x\nAuthorization: Bearer t0ps3cret", "it has a header Authorization, which may hold a secret"),
        ('POST /x\n["{number}"]', "its line 2 is not a header"),
    ],
)
def test_an_example_that_cannot_be_filled_says_what_is_wrong(text, wrong):
    with pytest.raises(SettingsError) as caught:
        read_example("lookalikes", text)
    assert caught.value.message.startswith(f"api.requests.lookalikes is not a request: {wrong}")
    assert "t0ps3cret" not in str(caught.value)
