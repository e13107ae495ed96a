"""Services that fail, answer wrongly or run out of credits: what one run costs and loses then, and what heals it."""

from __future__ import annotations

import json
import math
import os
import time
from decimal import Decimal
from email.utils import formatdate
from itertools import product
from typing import Any, NamedTuple

import pytest

from lake import Lake
from support import lose_patience

from .support import assert_accounted, assert_whole, faults, name_of, sized

COUNT = 60
BODIES = ("cut", "html", "empty", "null", "error", "empty_object", "empty_list", "nested")
BOMB = {"kind": "gzip_bomb", "megabytes": 256}
HARMLESS, HARMFUL = ("doubled", "foreign", "reordered"), ("missing", "contradictory")
REFUSED = {"kind": "status", "status": 429}
ONE = object()
"""Stands in a rule for the company that is spoilt: one with several pages of periods."""


class Scene(NamedTuple):
    """Faults, a run, and what must come of it.

    Attributes:
        rules: The faults of the service while the run goes on.
        code: The exit code.
        failed: The dataset in which the spoilt company fails, alone; its neighbours have all their rows.
        cost: How many times the requests of an undisturbed run may be sent; 1: exactly one more for each fault.
        drift: Kinds of drift that are reported.
        says: Words on stderr.
        heal: The command that ends with 0 afterwards and brings the content of an undisturbed run.
        count: The number of companies.
    """

    rules: tuple[dict[str, Any], ...]
    code: int = 0
    failed: str = ""
    cost: float = 20
    drift: tuple[str, ...] = ()
    says: str = ""
    heal: str = "run"
    count: int = COUNT
    settings: dict[str, object] = {}  # noqa: RUF012 - it is never changed


def body(kind: str) -> dict[str, Any]:
    return BOMB if kind == "gzip_bomb" else {"kind": "wrong_body", "body": kind}


def elements(anomaly: str, **when: object) -> dict[str, Any]:
    return {"kind": "elements", "anomaly": anomaly, **when}


def of_one(rule: dict[str, Any], dataset: str) -> dict[str, Any]:
    return {**rule, "companies": [ONE], "endpoint": dataset}


STORMS = {
    "silent": REFUSED,
    "ratelimit": REFUSED | {"headers": {"RateLimit-Remaining": "0", "RateLimit-Reset": "0"}},
    **{f"Retry-After {when}": REFUSED | {"headers": {"Retry-After": when}} for when in ("0", "0.01", "soon, or -1")},
    "Retry-After a date": REFUSED | {"headers": {"Retry-After": formatdate(time.time(), usegmt=True)}},
}
BREAKS: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in ("reset", "lose", "truncate", "reset_body")}
BREAKS["status"] = {"kind": "status", "status": 503}
TOTALS = (
    {"kind": "totals", "by": 1, "times": 1},
    {"kind": "totals", "by": -1, "times": 2},
    {"kind": "small_pages", "limit": 2},
    {"kind": "small_pages", "limit": 2, "is_silent": True},
)
FOR_GOOD = list(range(4, 10_000))
TENTH = (
    {"kind": "status", "status": 500, "probability": 0.1, "seed": 1},
    {"kind": "reset", "probability": 0.02, "seed": 2},
)
WAITS = {"api__tries": 1, "api__retry_wait_max_seconds": 2}
DATASETS = ("financials", "lookalikes", "relationships")
SCENES: dict[str, Scene] = {
    # A fault that passes costs one request more, and nothing else.
    **{f"{name} at {n}": Scene(({**rule, "nth": [n]},), cost=1, count=120)
       for name, rule in BREAKS.items() for n in range(1, 11)},
    **{f"{name} at {n}": Scene(({**body(name), "nth": [n]},), cost=1)
       for name, n in (*product(BODIES, (1, 2, 3)), ("gzip_bomb", 2))},
    **{f"429 {name} {times} times": Scene(({**rule, "times": times},), cost=1, count=120, settings=WAITS)
       for name, rule in STORMS.items() for times in (6, 20)},
    **{f"a tenth fails, {count}": Scene(TENTH, cost=1.2, count=count) for count in (400, 2000, 5000)},
    # Elements that only look odd, that were wrong once, and pages that do not fit together.
    **{f"{anomaly}, {count}": Scene((elements(anomaly, count=count),)) for anomaly in HARMLESS for count in (0, 1)},
    "foreign": Scene((elements("foreign", count=0),), drift=("foreign_element",)),
    **{f"{anomaly} {times} times": Scene((elements(anomaly, count=3, times=times),))
       for anomaly in (*HARMLESS, *HARMFUL) for times in (1, 2)},
    "a message beside records": Scene((of_one(elements("message"), "financials"),), drift=("new_field",)),
    **{f"{' '.join(map(str, rule.values()))}, {count}": Scene((rule,), count=count)
       for rule in TOTALS for count in (12, 60)},
    "totals never agree": Scene(({"kind": "totals", "by": 1},), cost=12),
    # One company that always spoils its answers fails alone.
    **{f"one company's {kind}": Scene((of_one(body(kind), "lookalikes"),), 3, "lookalikes")
       for kind in (*BODIES, "gzip_bomb")},
    **{f"one company {anomaly}, {dataset}": Scene((of_one(elements(anomaly), dataset),), 3, dataset, heal="redrive")
       for anomaly in HARMFUL for dataset in DATASETS},
    # The run stops, and says when to go on.
    "a pause of hours": Scene(({**REFUSED, "headers": {"Retry-After": "7200"}, "nth": [3]},), 4, says="120 minutes",
                              settings={"api__threads": 1}),
    **{f"{name} for good, {count}": Scene(({**BREAKS[name], "nth": FOR_GOOD},), 1, says="run again", count=count)
       for name, count in (("reset", 200), ("reset", 2000), ("status", 2000))},
}  # fmt: skip


@pytest.mark.parametrize("name", sized([], SCENES))
def test_a_fault_costs_what_it_must_and_the_next_run_heals_it(
    name, sandbox, make_lake, undisturbed, monkeypatch, record_property
):
    scene = SCENES[name]
    lose_patience(monkeypatch, 0.05, 0.2, 2.0)
    expected = undisturbed(scene.count)
    lake, began = make_lake(scene.count, **scene.settings), time.monotonic()
    rules = [
        {**rule, **({"companies": [name_of(expected.company)]} if "companies" in rule else {})} for rule in scene.rules
    ]
    with faults(sandbox, *rules):
        result = lake.run()
        sent, hits = lake.ledger()["requests"], sum(lake.ledger()["faults"].values())
    record_property("requests", f"{sent} for {expected.requests}, {hits} faults")
    assert (result.code, time.monotonic() - began < 60) == (scene.code, True), result.err
    assert scene.says in result.err
    if scene.code == 1:
        assert sent <= 60
        assert result.error_line
    else:
        if scene.cost == 1:
            assert sent == expected.requests + hits
        assert sent <= math.ceil(scene.cost * expected.requests) + 1 + hits
        assert_accounted(result.content)
        letters = lake.query("SELECT country, company_number, dataset FROM dead_letters")
        assert letters == ([(*expected.company, scene.failed)] if scene.failed else [])
        if scene.code in (0, 3):
            assert lake.content(without=expected.company) == expected.neighbours
        assert set(scene.drift) <= {kind for (kind,) in lake.query("SELECT kind FROM drift")}
    if scene.code:
        assert lake.call("redrive").code == 0 if scene.heal == "redrive" else lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("case", sized([], [(100, 1), (100, 3), (500, 5), (1000, 10)], timeout=100))
def test_exactly_the_poison_companies_fail_and_redrive_heals_them(case, sandbox, make_lake, undisturbed):
    count, poisoned = case
    expected = undisturbed(count)
    lake = make_lake(count)
    step, most = count // poisoned, poisoned * (2 * math.log2(100) + 2)
    poison = [name_of(lake.numbers[step * place + 17 * place % step]) for place in range(poisoned)]
    with faults(sandbox, {"kind": "status", "status": 500, "endpoint": "lookalikes", "companies": poison}):
        result = lake.run("--set", "api.tries=1")
        assert result.code == 3, result.err
        assert_accounted(result.content)
        assert sorted(lake.query("SELECT country || company_number, dataset FROM dead_letters")) == [
            (one, "lookalikes") for one in sorted(poison)
        ]
        first = lake.ledger()["requests"]
        assert first - expected.requests <= most
        assert lake.run().code == 3
        assert lake.ledger()["requests"] - first <= most
    assert lake.call("redrive", "--json").code == 0
    assert_whole(lake, expected)


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


DRIFTS, FIELDS = ("vanished", "renamed", "unknown", "text"), ("revenue", "endDate", "employees", "score", "percentage")


@pytest.mark.parametrize("case", sized([], product(DRIFTS, FIELDS)))
def test_a_field_that_drifts_in_one_company_harms_no_other_and_is_reported(case, sandbox, make_lake, undisturbed):
    """A number in quotes is read as that number, or its record is rejected."""
    change, field = case
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT, run__vanished_share_max=1)
    rule = {"kind": "drift", "field": field, "change": change, "companies": [name_of(expected.company)]}
    with faults(sandbox, rule):
        result = lake.run()
    assert lake.content(without=expected.company) == expected.neighbours
    reported = lake.query("SELECT kind FROM drift WHERE kind IN ('new_field', 'vanished_field')")
    assert result.code == (3 if result.content["reject_count"] else 0)
    if change in ("renamed", "unknown") and (result.content["reject_count"] or reported):
        assert reported
    if change == "text":
        where = f"WHERE (country, company_number) = {expected.company!r}"
        periods = f"SELECT start_date, end_date, revenue, employee_count FROM financials {where}"
        rows, right = set(lake.query(periods)), set(expected.lake.query(periods))
        assert rows <= right
        rejected = lake.query(f"SELECT count(*) FROM rejects {where} AND dataset = 'financials'")[0][0]
        assert len(rows) + rejected >= len(right)


LITERALS = [
    *(str(10**power + 1) for power in range(0, 31, 3)), str(-(10**30)), "9999999999999999.99",
    "1e30", "1e2", "0.1", "0.30000000000000004", "12.345", "1e-9", "123456789012345.67", "-0.0", "1e400",
    "null", "true", '"12,5"', "[]", "{}", '""', str(10**30),
]  # fmt: skip


@pytest.mark.parametrize("literal", sized(["9007199254740993.01"], LITERALS))
def test_a_number_is_exact_or_discarded(literal, sandbox, make_lake):
    """And costs neither its record nor the run."""
    lake = make_lake(8, run__datasets="financials")
    company = lake.numbers[0]
    rule = {"kind": "drift", "field": "revenue", "change": "literal", "literal": literal}
    with faults(sandbox, {**rule, "companies": [name_of(company)]}):
        result = lake.run("--set", "run.vanished_share_max=1")
    where = f"WHERE (country, company_number) = {company!r}"
    values = {value for (value,) in lake.query(f"SELECT DISTINCT revenue FROM financials {where}")}
    effects = {effect for (effect,) in lake.query(f"SELECT DISTINCT effect FROM rejects {where}")}
    rounded = lake.query("SELECT count(*) FROM drift WHERE kind = 'rounded_value'")[0][0]
    if effects or literal in ("null", '""'):
        assert (values, effects - {"value"}) == ({None}, set())
    else:
        number = str(json.loads(literal, parse_int=str, parse_float=str)).replace(",", ".")  # a decimal comma is read
        assert values == {Decimal(number)} or rounded, values
    assert result.code == 0
    assert_accounted(result.content)


NESTED = {"kind": "wrong_body", "body": "nested", "depth": 2_000_000}


@pytest.mark.parametrize("rule", [BOMB, NESTED], ids=["bomb", "nested"])
@pytest.mark.parametrize("times", sized([], [1, 8]))
def test_a_hostile_body_takes_at_most_150_megabytes(rule, times, sandbox, make_lake, undisturbed, record_property):
    expected = undisturbed(COUNT)
    calm = _peak_memory(make_lake(COUNT, "calm"))
    sandbox.reset()
    lake = make_lake(COUNT)
    with faults(sandbox, rule | {"times": times}):
        peak = _peak_memory(lake)
    record_property("megabytes", f"{peak:.0f} against {calm:.0f}")
    assert peak - calm <= 150
    assert lake.run().code == 0
    assert lake.content() == expected.content


def _peak_memory(lake: Lake) -> float:
    """Of a run in a process of its own, in megabytes."""
    process = lake.start("run", str(lake.list))
    lake.said += [process.stdout.read(), process.stderr.read()]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return usage.ru_maxrss / 1024


@pytest.mark.parametrize("case", sized([], [(300, 130), *((1000, share) for share in (0, 1, 99, 250, 500, 750, 970))]))
def test_when_credits_run_out_the_rest_waits_and_nobody_pays_twice(case, sandbox, make_lake, undisturbed):
    count, credits = case
    expected = undisturbed(count)
    lake = make_lake(count, run__shard_companies=200)
    sandbox.set_options(credits=credits)
    result = lake.run()
    charged = lake.ledger()["credits_charged"]
    assert result.code == 4, result.err
    assert_accounted(result.content)
    bought = lake.query("SELECT count(*) FROM companies WHERE paid_at IS NOT NULL")[0][0]
    assert credits >= charged == result.content["expected_credit_count"] == bought
    half = lake.query(
        "SELECT count(*) FROM companies c JOIN company_state s USING (country, company_number) "
        "WHERE c.paid_at IS NOT NULL AND s.status = 'waiting'"
    )
    assert half == [(0,)], "a company that is paid for has all its datasets"
    sandbox.set_options(credits=100_000)
    assert lake.run().code == 0
    assert lake.query("SELECT sum(expected_credit_count)::INT FROM runs") == [(expected.charged,)]
    assert_whole(lake, expected)


@pytest.mark.parametrize("budget", sized([], [1, 2, 3, 5, 8, 12]))
def test_a_budget_of_requests_is_kept_the_next_run_goes_on_and_a_third_sends_nothing(budget, make_lake, undisturbed):
    expected = undisturbed(300)
    lake = make_lake(300)
    assert lake.run("--max-requests", str(budget)).code == 4
    assert lake.ledger()["requests"] == budget
    assert lake.run().code == 0
    sent = lake.ledger()["requests"]
    assert lake.run().code == 0
    assert lake.ledger()["requests"] == sent
    assert_whole(lake, expected)
