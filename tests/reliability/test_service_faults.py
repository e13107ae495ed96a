"""A service that fails in part or as a whole: few requests too many, all accounted for, an end in time."""

from __future__ import annotations

import math
import time
from email.utils import formatdate

import pytest

from .support import assert_accounted, assert_whole, faults, name_of, sized

BREAKS = ("reset", "lose", "truncate", "reset_body", "status")
COUNT, SHARD = 120, 60


@pytest.mark.reliability
@pytest.mark.parametrize(
    "case",
    sized([("status", 2)], [(k, n) for k in BREAKS for n in range(1, 11)]),
)
def test_whichever_network_call_fails_costs_one_request_more_and_nothing_else(case, sandbox, make_lake, undisturbed):
    kind, n = case
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": kind, "nth": [n]} | _status(kind)):
        assert lake.run().code == 0
        hit = lake.ledger()["faults"].get(kind, 0)
    assert lake.ledger()["requests"] == expected.requests + hit
    assert_whole(lake, expected)


@pytest.mark.parametrize("count", sized([], [400, 2000, 5000]))
def test_a_tenth_of_5xx_and_a_fiftieth_of_resets_cost_at_most_a_fifth_more(
    count, sandbox, make_lake, undisturbed, record_property
):
    expected = undisturbed(count)
    lake = make_lake(count)
    with faults(
        sandbox,
        {"kind": "status", "status": 500, "probability": 0.1, "seed": 1},
        {"kind": "reset", "probability": 0.02, "seed": 2},
    ):
        result = lake.run()
    assert result.code == 0, result.err
    assert_accounted(result.content)
    sent = lake.ledger()["requests"]
    record_property("requests", f"{sent} for {expected.requests}, {lake.ledger()['faults']}")
    assert sent <= math.ceil(1.2 * expected.requests) + 1
    assert_whole(lake, expected)


@pytest.mark.parametrize("case", sized([], [("reset", 200), ("reset", 2000), ("status", 2000)]))
def test_a_service_that_dies_gets_few_requests_and_the_run_ends_resumable(
    case, sandbox, make_lake, undisturbed, monkeypatch, record_property
):
    monkeypatch.setattr("firmlake.api.retry.CircuitBreaker.__init__.__defaults__", (8, 0.05, 0.2, 2.0))
    kind, count = case
    expected = undisturbed(count)
    lake = make_lake(count)
    began = time.monotonic()
    with faults(sandbox, {"kind": kind, "nth": list(range(4, 10_000))} | _status(kind)):
        result = lake.run()
        sent = lake.ledger()["requests"]
    seconds = time.monotonic() - began
    record_property("ended", f"{sent} requests, {seconds:.1f} s")
    assert result.code == 1, result.err
    assert "run again" in result.error_line
    assert sent <= 60
    assert seconds < 30
    assert lake.run().code == 0
    assert_whole(lake, expected)


STORMS = {
    "silent": {"kind": "status", "status": 429},
    "seconds": {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
    "fraction": {"kind": "status", "status": 429, "headers": {"Retry-After": "0.01"}},
    "date": {"kind": "status", "status": 429, "headers": {}},
    "nonsense": {"kind": "status", "status": 429, "headers": {"Retry-After": "soon, or -1"}},
    "ratelimit": {"kind": "status", "status": 429, "headers": {"RateLimit-Remaining": "0", "RateLimit-Reset": "0"}},
}


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("refusals", sized([], [6, 20]))
def test_a_storm_of_429_uses_up_no_try(storm, refusals, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake, rule = make_lake(COUNT, api__tries=1), STORMS[storm] | {"times": refusals}
    if storm == "date":
        rule["headers"] = {"Retry-After": formatdate(usegmt=True)}
        lake.set("api__retry_wait_max_seconds", 2)  # dates have no fractions of seconds
    with faults(sandbox, rule):
        result = lake.run()
        refused = lake.ledger()["by_outcome"]["429"]
    assert (result.code, refused) == (0, refusals), result.err
    assert lake.ledger()["requests"] == expected.requests + refusals
    assert_whole(lake, expected)


@pytest.mark.reliability
def test_a_pause_of_hours_stops_the_run_after_one_refusal_and_it_is_continued(sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT, api__threads=1)
    with faults(sandbox, {"kind": "status", "status": 429, "headers": {"Retry-After": "7200"}, "nth": [3]}):
        result = lake.run()
    assert result.code == 4, result.err
    assert "120 minutes" in result.err
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("case", sized([], [(100, 1), (100, 3), (500, 5), (1000, 10)], timeout=100))
def test_exactly_the_poison_companies_fail_and_redrive_heals_them(
    case, sandbox, make_lake, undisturbed, record_property
):
    count, poisoned = case
    expected = undisturbed(count)
    lake = make_lake(count)
    step = count // poisoned
    poison = [name_of(lake.numbers[step * place + 17 * place % step]) for place in range(poisoned)]
    rule = {"kind": "status", "status": 500, "endpoint": "lookalikes", "companies": poison}
    with faults(sandbox, rule):
        result = lake.run("--set", "api.tries=1")
        assert result.code == 3, result.err
        assert_accounted(result.content)
        named = lake.query("SELECT country || company_number FROM dead_letters WHERE dataset = 'lookalikes'")
        assert sorted(company for (company,) in named) == sorted(poison)
        assert result.content["datasets"]["lookalikes"]["failed"] == poisoned
        assert result.content["datasets"]["financials"].get("failed", 0) == 0
        extra = lake.ledger()["requests"] - expected.requests
        record_property("extra_requests", f"{extra} for {poisoned} of {count}")
        assert extra <= poisoned * (2 * math.log2(100) + 2)
        before = lake.ledger()["requests"]
        assert lake.run().code == 3
        assert lake.ledger()["requests"] - before <= poisoned * (2 * math.log2(100) + 2)
    redriven = lake.call("redrive", "--json")
    assert redriven.code == 0, redriven.err
    assert lake.query("SELECT count(*) FROM company_state WHERE status = 'failed'") == [(0,)]
    assert lake.ledger()["companies_charged_again"] == 0
    assert lake.content()["lookalikes"] == expected.content["lookalikes"]
    assert lake.content()["company_state"] == expected.content["company_state"]


@pytest.mark.parametrize("poisoned", sized([], [2, 3, 30], timeout=300))
def test_poison_in_every_request_is_no_outage_and_the_next_run_ends_soon(poisoned, sandbox, make_lake, undisturbed):
    count = 10 * poisoned if poisoned > 3 else 100 * poisoned
    expected = undisturbed(count)
    lake = make_lake(count)
    poison = [name_of(company) for company in lake.numbers[7 :: count // poisoned]]
    with faults(sandbox, {"kind": "status", "status": 500, "companies": poison}):
        assert lake.run().code == 3
        named = lake.query("SELECT DISTINCT country || company_number FROM dead_letters")
        assert sorted(company for (company,) in named) == sorted(poison)
        before = lake.ledger()["requests"]
        assert lake.run().code == 3
        assert lake.ledger()["requests"] - before <= 2 * poisoned * 3 * 2
    assert lake.run().code == 0
    assert_whole(lake, expected)


def _status(kind: str) -> dict[str, int]:
    return {"status": 503} if kind == "status" else {}
