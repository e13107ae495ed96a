"""The client against the embedded service: every endpoint, real faults, its rate limit and its ledger."""

import gzip

import msgspec
import pytest

import firmlake_sandbox
from firmlake.api import requests
from firmlake.api.authorization import Token
from firmlake.api.throttle.stores import FileStore
from firmlake.api.throttle.throttle import Throttle
from firmlake.core import errors
from firmlake.core.company import normal_form
from firmlake.core.settings import ApiSettings

API = ApiSettings()
COMPANIES = [normal_form(*pair) for pair in firmlake_sandbox.sample_numbers(300)]


def get_example_settings(dataset):
    example = f"GET /v1/companies/{{country}}/{{number}}/{dataset}?limit={{limit}}&offset={{offset}}"
    example = example if dataset == "financials" else example.partition("?")[0]
    return msgspec.structs.replace(API, requests=msgspec.structs.replace(API.requests, **{dataset: example}))


REQUEST = requests.bulk(API, "financials", COMPANIES[:100], 5)
ENDPOINTS = {
    **{
        f"{name} bulk": requests.bulk(API, name, COMPANIES[:3])
        for name in ("financials", "lookalikes", "relationships")
    },
    **{
        f"{name} single": requests.bulk(get_example_settings(name), name, COMPANIES[:1])
        for name in ("financials", "lookalikes", "relationships")
    },
    "lists": requests.service_lists(API, "OVERVIEW", 500, 0),
    "contacts": requests.add_contacts(API, 1002, {COMPANIES[0]: ["123"]}),
}


@pytest.fixture
def client(make_client, sandbox):
    return make_client(base_url=sandbox.base_url, token=Token(sandbox.token))


def is_json(body):
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise errors.UnusableAnswerError(f"no JSON: {error}") from None


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_takes_what_we_send(client, endpoint):
    answer = client.send(ENDPOINTS[endpoint], is_json)
    assert (answer.status, answer.attempt) == (200, 1)


def test_the_credits_headers_are_kept(client):
    headers = client.send(REQUEST).headers
    assert 0 < int(headers["x-credits-charged"]) <= 100
    assert int(headers["x-credits-remaining"]) + int(headers["x-credits-charged"]) == 1_000_000


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "reset"}, "broken"),
        ({"kind": "lose"}, "broken"),
        ({"kind": "reset_body", "bytes": 100}, "broken"),
        ({"kind": "truncate", "bytes": 100}, "broken"),
        ({"kind": "hang"}, "timeout"),
        ({"kind": "trickle", "bytes": 1, "seconds": 0.05}, "timeout"),
        ({"kind": "status", "status": 500}, ""),
        ({"kind": "status", "status": 429, "headers": {"Retry-After": "2"}}, ""),
        ({"kind": "wrong_body", "body": "html"}, ""),
        ({"kind": "wrong_body", "body": "cut"}, ""),
        ({"kind": "wrong_body", "body": "empty"}, ""),
    ],
    ids=lambda value: str(value.get("body") or value["kind"]) if isinstance(value, dict) else "",
)
def test_a_fault_that_passes_costs_one_more_attempt(make_client, sandbox, landed, fault, error):
    # Long enough for an honest answer of a busy machine.
    patience = {"total_timeout_seconds": 1.0, "read_timeout_seconds": 0.8} if error == "timeout" else {}
    client = make_client(base_url=sandbox.base_url, token=Token(sandbox.token), **patience)
    sandbox.set_faults([fault | {"nth": [1]}])
    assert client.send(REQUEST, is_json).attempt == 2
    assert landed[0].error.partition(":")[0] == error


def test_a_request_whose_answer_was_lost_is_not_paid_twice(client, sandbox):
    sandbox.set_faults([{"kind": "lose", "nth": [1]}])
    client.send(REQUEST)
    assert set(sandbox.ledger()["charges"].values()) == {1}


@pytest.fixture
def limited(make_client, sandbox, time, tmp_path):
    """Make a client for an allowance, for a service with one; their clocks are moved together."""

    def sleep(seconds):
        sandbox.advance(0, rate_seconds=seconds)
        time.now += seconds

    def make(ours, theirs, kind, headers):
        sandbox.set_options(requests_per_minute=theirs, rate_limit_kind=kind, rate_limit_headers=headers)
        throttle = Throttle(FileStore(tmp_path / "key", time.clock_ns), ours)
        return make_client(base_url=sandbox.base_url, token=Token(sandbox.token), throttle=throttle, sleep=sleep)

    return make


@pytest.mark.parametrize("kind", ["fixed-window", "sliding-window", "token-bucket"])
@pytest.mark.parametrize("headers", ["none", "all"])
def test_the_rate_limit_is_used_and_never_run_into(limited, sandbox, landed, time, kind, headers):
    client, began = limited(50, 50, kind, headers), time.now
    for _ in range(151):
        client.send(requests.service_lists(API, "STATIC", 1))
    assert {answer.status for answer in landed} == {200}
    assert sandbox.ledger()["summary"]["busiest_minute"] == 50
    assert 3 * 60 <= time.now - began <= 3 * 60 / 0.98


def test_without_headers_a_lower_limit_costs_some_refusals_and_no_request(limited, landed, time):
    client = limited(200, 50, "fixed-window", "retry-after")
    for _ in range(300):
        client.send(requests.service_lists(API, "STATIC", 1))
    assert [answer.status for answer in landed].count(429) < 15
    assert time.now < 1000 + 300 / 50 * 60 * 1.5


def test_answers_are_compressed_off_this_machine_only(make_client, sandbox, landed):
    assert (
        "content-encoding"
        not in make_client(base_url=sandbox.base_url, token=Token(sandbox.token)).send(REQUEST).headers
    )
    answer = landed[0]
    assert answer.wire_bytes == len(answer.body)
    assert len(gzip.compress(answer.body, 6)) * 4 < answer.wire_bytes
