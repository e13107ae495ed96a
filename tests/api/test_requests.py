"""What is sent for what is asked."""

import json

import msgspec
import pytest

from firmlake.api import requests
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings, NameSettings

API = ApiSettings()
ACME = Company("BE", "0770493071")
VAN_DAM = Company("NL", "01234567")
MANY = [Company("NL", f"{n:08}") for n in range(101)]


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
    assert requests.single(API, "financials", ACME).query == ()


def test_a_single_request_is_a_path_and_a_query():
    request = requests.single(API, "financials", ACME, 500, 0)
    assert (request.method, request.path) == ("GET", "/v1/companies/BE/770493071/financials")
    assert (request.query, request.body) == ((("limit", "500"), ("offset", "0")), b"")


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


def test_every_name_the_specification_leaves_open_is_a_setting():
    names = NameSettings(limit="size", offset="skip", companies="items", country="land", company_number="id")
    api = ApiSettings(names=names)
    assert json.loads(requests.bulk(api, "financials", [ACME], 5, 0).body) == {
        "items": [{"land": "BE", "id": "770493071"}],
        "size": 5,
        "skip": 0,
    }
    assert requests.single(api, "financials", ACME, 5, 0).query == (("size", "5"), ("skip", "0"))


@pytest.mark.parametrize(
    "plan",
    [
        lambda: requests.bulk(API, "turnover", [ACME]),
        lambda: requests.bulk(API, "lookalikes", []),
        lambda: requests.bulk(API, "lookalikes", MANY),
        lambda: requests.bulk(API, "lookalikes", [ACME, ACME]),
        lambda: requests.bulk(API, "lookalikes", [ACME], 5),
        lambda: requests.bulk(API, "relationships", [ACME], None, 5),
        lambda: requests.bulk(API, "financials", MANY[:100], 6),
        lambda: requests.bulk(API, "financials", [ACME], 501),
        lambda: requests.bulk(API, "financials", [ACME], 0),
        lambda: requests.single(API, "financials", ACME, 5, -1),
        lambda: requests.service_lists(API, "STATIC", 501),
        lambda: requests.add_contacts(API, 1, {}),
        lambda: requests.add_contacts(API, 1, {company: ["1"] for company in MANY}),
        lambda: requests.add_contacts(API, 1, {ACME: []}),
        lambda: requests.add_contacts(API, 1, {ACME: [str(n) for n in range(51)]}),
    ],
)
def test_what_the_service_would_refuse_is_never_built(plan):
    with pytest.raises(ValueError, match=r"\d|twice|pages|negative|not a dataset"):
        plan()


def test_limits_are_settings():
    lifted = msgspec.structs.replace(API, records_per_request=0, companies_per_request=101)
    assert len(requests.bulk(lifted, "financials", MANY, 500).companies) == 101
