import json
from typing import Any

import httpx
import pytest

from firmlake_sandbox import Sandbox

from .calls import Api

BULK = ("financials", "lookalikes", "relationships")
KBC = "BE0403227515"
UNKNOWN = "BE0403227516"  # the check digits are wrong


def error(answer: httpx.Response) -> tuple[int, str]:
    """Status and message of an error in the service's form."""
    content = answer.json()
    assert content.keys() == {"status", "message"}
    assert content["status"] == answer.status_code
    return answer.status_code, content["message"]


# Answers.


@pytest.mark.parametrize("dataset", BULK)
def test_single_and_bulk_answer_the_same(api: Api, companies: list[str], dataset: str) -> None:
    elements = api.bulk(dataset, companies[:10]).json()
    for company, element in zip(companies[:10], elements, strict=True):
        assert element.pop("message") is None
        assert api.single(dataset, company).json() == element


@pytest.mark.parametrize("dataset", BULK)
def test_a_bulk_request_is_answered_company_by_company_in_order(api: Api, companies: list[str], dataset: str) -> None:
    asked = [companies[1], "NL1", companies[0], companies[1], UNKNOWN]
    elements = api.bulk(dataset, asked).json()
    assert [
        element["identifier"]["companyNumber"].zfill(len(one) - 2) for one, element in zip(asked, elements, strict=True)
    ] == [one[2:] for one in asked]
    assert [element["message"] for element in elements] == [None, "Company not found", None, None, "Company not found"]
    missing = {"identifier": {"country": "NL", "companyNumber": "1"}, "data": None, "message": "Company not found"}
    assert elements[1] == (missing | {"pagination": None} if dataset == "financials" else missing)


def test_the_keys_are_those_of_the_specification(api: Api, companies: list[str]) -> None:
    element = api.bulk("financials", companies[:1]).json()[0]
    assert list(element) == ["identifier", "data", "pagination", "message"]
    assert list(element["identifier"]) == ["country", "companyNumber", "name", "place"]
    record = element["data"][0]
    assert list(record) == [
        "startDate", "endDate", "dateReceived", "healthIndicator", "jointCommitteeCodes",
        "profitability", "liquidity", "solvency", "people",
    ]  # fmt: skip
    assert list(record["solvency"]) == [
        "totalAssets", "equity", "capital", "retainedEarnings", "debt", "longTermDebt", "longTermDebtFinancial",
        "longTermDebtAccountsPayable", "shortTermDebt", "shortTermDebtFinancial", "shortTermDebtAccountsPayable",
    ]  # fmt: skip


def test_the_language_header_chooses_names_and_places(api: Api, companies: list[str]) -> None:
    def name(language: str) -> list[str]:
        elements = api.bulk("lookalikes", companies[:30], headers={"Accept-Language": language}).json()
        return [element["identifier"]["place"] for element in elements]

    assert name("NL") != name("FR") != name("EN")
    assert name("nl-BE,nl;q=0.9,en;q=0.8") == name("NL")
    assert name("*") == name("EN")


def test_belgian_numbers_are_read_in_both_spellings_and_answered_in_the_chosen_one(api: Api) -> None:
    for company in (KBC, "BE403227515"):
        assert api.single("financials", company).json()["identifier"]["companyNumber"] == "403227515"
    api.sandbox.set_options(leading_zero=True)
    for company in (KBC, "BE403227515"):
        assert api.single("financials", company).json()["identifier"]["companyNumber"] == "0403227515"


def test_the_world_moves_on_by_weeks_and_back(api: Api, companies: list[str]) -> None:
    before = api.bulk("relationships", companies[:100]).json()
    api.sandbox.set_world(week=20)
    assert api.bulk("relationships", companies[:100]).json() != before
    api.sandbox.set_world(week=0)
    assert api.bulk("relationships", companies[:100]).json() == before


# Paging.


def test_a_page_has_four_records_where_no_limit_is_given(api: Api, companies: list[str]) -> None:
    for element in api.bulk("financials", companies[:40]).json():
        pagination = element["pagination"]
        assert (pagination["limit"], pagination["offset"]) == (4, 0)
        assert len(element["data"]) == min(4, pagination["total"])


def test_limit_and_offset_hold_for_every_company(api: Api, companies: list[str]) -> None:
    whole = api.bulk("financials", companies[:20], limit=25).json()
    page = api.bulk("financials", companies[:20], limit=3, offset=2).json()
    assert [element["data"] for element in page] == [element["data"][2:5] for element in whole]
    assert page[0]["pagination"] == {"limit": 3, "offset": 2, "total": whole[0]["pagination"]["total"]}
    assert api.single("financials", companies[0], limit=3, offset=2).json()["data"] == page[0]["data"]


def test_beyond_the_end_a_page_is_empty(api: Api, companies: list[str]) -> None:
    assert api.single("financials", companies[0], offset=20).json()["data"] == []


def test_companies_times_limit_is_capped_unless_lifted(api: Api, companies: list[str]) -> None:
    assert api.bulk("financials", companies[:100], limit=5).status_code == 200
    status, message = error(api.bulk("financials", companies[:100], limit=6))
    assert (status, "500 records" in message) == (400, True)
    api.sandbox.set_options(records_per_request=0)
    assert api.bulk("financials", companies[:100], limit=500).status_code == 200


@pytest.mark.parametrize("limit", [0, -1, 501, "5", 1.5, None, True, 10**30])
def test_a_limit_that_is_no_page_size_is_refused(api: Api, limit: object) -> None:
    assert error(api.bulk("financials", [KBC], limit=limit))[0] == 400


# Requests that are not as they should be.


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "object"),
        ("null", "object"),
        ("{}", "companies"),
        ('{"companies": []}', "length"),
        ('{"companies": {}}', "array"),
        ('{"companies": [{"countryCode": "BE"}]}', "companyNumber"),
        ('{"companies": [{"countryCode": "DE", "companyNumber": "1"}]}', "DE"),
        ('{"companies": [{"countryCode": "BE", "companyNumber": 403227515}]}', "companyNumber"),
        ('{"companies": [{"countryCode": "BE", "companyNumber": "0403.227.515"}]}', "companyNumber"),
        ('{"companies": [{"countryCode": "BE", "companyNumber": "12\\n"}]}', "companyNumber"),
        ('{"companies": [{"country": "BE", "companyNumber": "403227515"}]}', "country"),
        ('{"companies": [{"countryCode": "BE", "companyNumber": "403227515"}], "page": 2}', "page"),
        (b'{"companies": "\xff"}', ""),
        # Named, because the environment of a process that the test starts has no room for so long a name.
        pytest.param('{"companies":' * 20_000, "", id="deep"),
    ],
)
@pytest.mark.parametrize("dataset", BULK)
def test_a_body_out_of_contract_is_refused_with_a_hint(api: Api, dataset: str, body: str | bytes, hint: str) -> None:
    status, message = error(api.call("POST", f"/v1/companies/{dataset}", content=body))
    assert status == 400
    assert hint in message


def test_lookalikes_and_relationships_take_companies_alone(api: Api) -> None:
    for dataset in ("lookalikes", "relationships"):
        assert "limit" in error(api.bulk(dataset, [KBC], limit=5))[1]


def test_more_than_a_hundred_companies_are_refused(api: Api) -> None:
    for dataset in BULK:
        assert api.bulk(dataset, [KBC] * 100).status_code == 200
        assert error(api.bulk(dataset, [KBC] * 101)) == (400, "101 companies, but a request may have at most 100")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/companies/XX/403227515/financials", 400),
        ("/v1/companies/BE/0403.227.515/financials", 400),
        ("/v1/companies/BE/403227516/financials", 404),
        ("/v1/companies/BE/403227515/financials?limit=501", 400),
        ("/v1/companies/BE/403227515/financials?limit=five", 400),
        ("/v1/companies/BE/403227515/financials?limit=1&limit=2", 400),
        ("/v1/companies/BE/403227515/financials?page=1", 400),
        ("/v1/companies/BE/403227515/lookalikes?limit=1", 400),
        ("/v1/companies/BE/403227515/owners", 404),
        ("/v1/companies/BE/403227515/financials/", 404),
        ("/v2/lists", 404),
        ("/", 404),
        ("/v1/lists?type=ALL", 400),
        ("/v1/lists?offset=-1", 400),
        ("/v1/lists?%ff", 400),
    ],
)
def test_addresses_and_parameters_out_of_contract_are_refused(api: Api, path: str, status: int) -> None:
    assert error(api.call("GET", path))[0] == status


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/companies/financials", "POST"), ("POST", "/v1/lists", "GET"), ("DELETE", "/v1/lists", "GET")],
)
def test_other_methods_are_refused(api: Api, method: str, path: str, allowed: str) -> None:
    answer = api.call(method, path)
    assert error(answer)[0] == 405
    assert answer.headers["allow"] == allowed


# Who may come in.


@pytest.mark.parametrize("header", ["", "Bearer", "Basic secret", "Bearer wrong", "secret"])
def test_without_a_valid_token_nothing_is_answered(api: Api, header: str) -> None:
    answer = api.call("GET", "/v1/lists", headers={"Authorization": header})
    assert error(answer)[0] == 401


def test_a_token_without_permission_is_forbidden(api: Api) -> None:
    answer = api.call("GET", "/v1/lists", headers={"Authorization": "Bearer secret-forbidden"})
    assert error(answer)[0] == 403


def test_control_takes_the_first_token_alone(api: Api) -> None:
    for token in ("second", "wrong", "secret-forbidden"):
        answer = api.call("GET", "/_sandbox/ledger", headers={"Authorization": f"Bearer {token}"})
        assert error(answer)[0] == 401


def test_there_is_no_limit_on_control(api: Api) -> None:
    api.sandbox.set_options(requests_per_minute=1)
    assert [api.call("GET", "/_sandbox/options").status_code for _ in range(5)] == [200] * 5


# How often.


@pytest.mark.parametrize("kind", ["fixed-window", "sliding-window", "token-bucket"])
def test_beyond_the_allowance_requests_are_refused_until_a_minute_later(api: Api, kind: str) -> None:
    api.sandbox.set_options(requests_per_minute=5, rate_limit_kind=kind)
    api.sandbox.advance(0, rate_seconds=60 - api.sandbox.control("POST", "clock", {"seconds": 0})["ticks"] % 60)
    statuses = [api.call("GET", "/v1/lists").status_code for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    api.sandbox.advance(60)
    assert api.call("GET", "/v1/lists").status_code == 200


@pytest.mark.parametrize(("kind", "allowed"), [("fixed-window", 10), ("sliding-window", 0), ("token-bucket", 5)])
def test_each_kind_of_limit_counts_in_its_own_way(api: Api, kind: str, allowed: int) -> None:
    """After a full burst in second 50 of a minute: what is let in 30 s later, in the next minute."""
    api.sandbox.set_options(requests_per_minute=10, rate_limit_kind=kind)
    ticks = api.sandbox.control("POST", "clock", {"seconds": 0})["ticks"]
    api.sandbox.advance(0, rate_seconds=50 - ticks % 60 + 60)
    assert [api.call("GET", "/v1/lists").status_code for _ in range(10)] == [200] * 10
    api.sandbox.advance(0, rate_seconds=30)
    assert [api.call("GET", "/v1/lists").status_code for _ in range(12)].count(200) == allowed


def test_each_token_has_an_allowance_of_its_own(api: Api) -> None:
    api.sandbox.set_options(requests_per_minute=1, rate_limit_kind="sliding-window")
    tokens = ("secret", "secret", "second", "second")
    headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    assert [api.call("GET", "/v1/lists", headers=one).status_code for one in headers] == [200, 429, 200, 429]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("none", set()),
        ("retry-after", {"retry-after"}),
        ("ratelimit", {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}),
        ("all", {"retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}),
    ],
)
def test_headers_about_the_limit_are_an_option(api: Api, choice: str, names: set[str]) -> None:
    api.sandbox.set_options(requests_per_minute=1, rate_limit_kind="sliding-window", rate_limit_headers=choice)
    first, second = (api.call("GET", "/v1/lists").headers for _ in range(2))
    about = {"retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
    assert about & set(first) == names - {"retry-after"}
    assert about & set(second) == names
    assert all(0 < int(second[name]) <= 60 for name in names & {"retry-after", "ratelimit-reset"})


# The control endpoints.


def test_the_ledger_counts_by_endpoint_and_outcome(api: Api, companies: list[str]) -> None:
    api.bulk("financials", companies[:3])
    api.bulk("financials", [])
    api.single("lookalikes", UNKNOWN)
    api.call("GET", "/nowhere")
    ledger = api.sandbox.ledger()
    assert ledger["summary"]["by_endpoint"] == {
        "financials.bulk": {"200": 1, "400": 1},
        "lookalikes.single": {"404": 1},
        "unknown": {"404": 1},
    }
    assert ledger["summary"]["requests"] == ledger["summary"]["busiest_minute"] == len(ledger["times"]) == 4
    assert ledger["times"] == sorted(ledger["times"])


def test_the_busiest_minute_is_that_of_the_rate_clock(api: Api) -> None:
    for _ in range(3):
        api.call("GET", "/v1/lists")
        api.sandbox.advance(59)
    api.sandbox.advance(120)
    api.call("GET", "/v1/lists")
    assert api.summary()["busiest_minute"] == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("options", {"nonsense": 1}),
        ("options", {"credits": -1}),
        ("options", {"rate_limit_kind": "guess"}),
        ("options", []),
        ("world", {"week": -1}),
        ("clock", {}),
        ("clock", {"seconds": "1"}),
        ("faults", {}),
        ("faults", [{"kind": "nonsense"}]),
        ("faults", [{"kind": "status", "colour": 1}]),
        ("faults", [{"kind": "status", "companies": ["BE1"]}]),
    ],
)
def test_control_refuses_what_it_does_not_know(api: Api, path: str, body: object) -> None:
    assert error(api.call("POST", f"/_sandbox/{path}", content=json.dumps(body)))[0] == 400


def test_options_not_named_stay(sandbox: Sandbox) -> None:
    before: dict[str, Any] = sandbox.control("GET", "options")
    sandbox.set_options(week=3)
    assert sandbox.control("GET", "options") == before | {"week": 3}
