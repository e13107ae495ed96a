"""Answers of status 200 that are wrong: recognised, named, and no neighbour loses anything."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from .support import Lake, assert_accounted, assert_whole, faults, name_of, sized

COUNT = 60
PLACE = 23
"""Of the company that is spoilt."""
BODIES = ("cut", "html", "empty", "null", "error", "empty_object", "empty_list", "nested")
HARMLESS = ("doubled", "foreign", "reordered")
HARMFUL = ("missing", "contradictory")
BOMB = {"kind": "gzip_bomb", "megabytes": 256}
NESTED = {"kind": "wrong_body", "body": "nested", "depth": 2_000_000}


def spoilt(lake: Lake) -> tuple[str, str]:
    """A company that exists and has several pages of periods."""
    return next(company for company in lake.numbers[PLACE:] if _periods(lake, company) > 6)


DRIFTS = ("vanished", "renamed", "unknown", "text")
FIELDS = ("revenue", "endDate", "employees", "score", "percentage")


def others(lake: Lake, table: str, company: tuple[str, str]) -> list[Any]:
    """The rows of everybody else."""
    columns = "COLUMNS(lambda name: name NOT IN ('run_id', 'valid_from_run', 'request_id', 'fetched_at'))"
    return lake.query(f"SELECT {columns} FROM {table} WHERE (country, company_number) != {company!r} ORDER BY ALL")


@pytest.mark.parametrize("body", sized([], [*((b, n) for b in BODIES for n in (1, 2, 3)), ("gzip_bomb", 2)]))
def test_a_wrong_body_that_passes_is_asked_for_again(body, sandbox, make_lake, undisturbed):
    kind, n = body
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, _body(kind) | {"nth": [n]}):
        assert lake.run().code == 0
    assert lake.ledger()["requests"] == expected.requests + 1
    assert_whole(lake, expected)


@pytest.mark.parametrize("kind", sized([], [*BODIES, "gzip_bomb"]))
def test_a_wrong_body_that_one_company_causes_costs_that_company_alone(kind, sandbox, make_lake, undisturbed):
    undisturbed(COUNT)
    lake = _finished(make_lake, sandbox)
    company = spoilt(lake)
    before = {table: others(lake, table, company) for table in ("financials", "lookalikes")}
    sandbox.reset()
    again = make_lake(COUNT, "again")
    rule = _body(kind) | {"companies": [name_of(company)], "endpoint": "lookalikes"}
    with faults(sandbox, rule):
        result = again.run()
    assert result.code == 3, result.err
    assert_accounted(result.content)
    assert again.query("SELECT country, company_number, dataset FROM dead_letters") == [(*company, "lookalikes")]
    assert {table: others(again, table, company) for table in before} == before
    assert again.run().code == 0
    assert again.content() == lake.content()


@pytest.mark.parametrize("anomaly", HARMLESS)
@pytest.mark.parametrize("count", sized([], [0, 1]))
def test_elements_that_only_look_odd_change_nothing(anomaly, count, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "elements", "anomaly": anomaly, "count": count}):
        assert lake.run().code == 0
    assert_whole(lake, expected)
    if anomaly == "foreign":
        assert lake.query("SELECT DISTINCT kind FROM drift WHERE kind = 'foreign_element'")


@pytest.mark.reliability
def test_a_message_beside_records_changes_nothing(sandbox, make_lake):
    lake = _finished(make_lake, sandbox)
    companies = [name_of(spoilt(lake))]
    sandbox.reset()
    again = make_lake(COUNT, "again")
    with faults(sandbox, {"kind": "elements", "anomaly": "message", "companies": companies, "endpoint": "financials"}):
        assert again.run().code == 0
    assert again.content() == lake.content()
    assert again.query("SELECT path FROM drift WHERE kind = 'new_field'") == [("[].message",)]


@pytest.mark.parametrize("anomaly", HARMFUL)
@pytest.mark.parametrize("dataset", sized([], ["financials", "lookalikes", "relationships"]))
def test_elements_that_say_nothing_usable_cost_their_company_alone(anomaly, dataset, sandbox, make_lake, undisturbed):
    undisturbed(COUNT)
    lake = _finished(make_lake, sandbox)
    company, table = spoilt(lake), dataset
    before = others(lake, table, company)
    sandbox.reset()
    again = make_lake(COUNT, "again")
    with faults(
        sandbox,
        {"kind": "elements", "anomaly": anomaly, "companies": [name_of(company)], "endpoint": dataset},
    ):
        result = again.run()
    assert result.code == 3, result.err
    assert again.query("SELECT country, company_number, dataset FROM dead_letters") == [(*company, dataset)]
    assert others(again, table, company) == before
    assert again.call("redrive").code == 0
    assert again.content() == lake.content()
    assert again.ledger()["companies_charged_again"] == 0


@pytest.mark.parametrize("anomaly", [*HARMLESS, *HARMFUL])
@pytest.mark.parametrize("times", sized([], [1, 2]))
def test_elements_that_were_wrong_only_once_are_asked_for_again(anomaly, times, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "elements", "anomaly": anomaly, "count": 3, "times": times}):
        assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "totals", "by": 1, "times": 1},
        {"kind": "totals", "by": -1, "times": 2},
        {"kind": "small_pages", "limit": 2},
        {"kind": "small_pages", "limit": 2, "is_silent": True},
    ],
    ids=lambda rule: "-".join(map(str, rule.values())),
)
@pytest.mark.parametrize("count", sized([], [12, 60]))
def test_pages_that_do_not_fit_together_are_fetched_until_they_do(rule, count, sandbox, make_lake, undisturbed):
    expected = undisturbed(count)
    lake = make_lake(count)
    with faults(sandbox, rule):
        result = lake.run()
    assert result.code == 0, result.err
    assert_whole(lake, expected)


@pytest.mark.reliability
def test_where_totals_never_agree_between_pages_one_page_holds_all(sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "totals", "by": 1}):
        result = lake.run()
    assert result.code == 0
    assert_accounted(result.content)
    assert lake.ledger()["requests"] < 12 * expected.requests
    assert lake.content() == expected.content


@pytest.mark.parametrize("case", sized([], product(DRIFTS, FIELDS)))
def test_a_field_that_drifts_in_one_company_harms_no_other_and_is_reported(case, sandbox, make_lake, undisturbed):
    change, field = case
    undisturbed(COUNT)
    lake = _finished(make_lake, sandbox)
    company = spoilt(lake)
    before = {table: others(lake, table, company) for table in ("financials", "lookalikes", "relationships")}
    sandbox.reset()
    again = make_lake(COUNT, "again", run__vanished_share_max=1)
    rule = {"kind": "drift", "field": field, "change": change, "companies": [name_of(company)]}
    with faults(sandbox, rule):
        result = again.run()
    assert {table: others(again, table, company) for table in before} == before
    reported = again.query("SELECT kind FROM drift WHERE kind IN ('new_field', 'vanished_field')")
    touched = bool(result.content["reject_count"] or reported)
    assert result.code == (3 if result.content["reject_count"] else 0)
    if change in ("renamed", "unknown") and touched:
        assert reported
    if change == "text":
        assert_exact_or_rejected(again, lake, company)


def assert_exact_or_rejected(again: Lake, lake: Lake, company: tuple[str, str]) -> None:
    """A number in quotes is read as that number, or its record is rejected."""
    where = f"WHERE (country, company_number) = {company!r}"
    columns = "start_date, end_date, revenue, employee_count"
    rows = set(again.query(f"SELECT {columns} FROM financials {where}"))
    assert rows <= set(lake.query(f"SELECT {columns} FROM financials {where}"))
    rejected = again.query(f"SELECT count(*) FROM rejects {where} AND dataset = 'financials'")[0][0]
    assert len(rows) + rejected >= len(set(lake.query(f"SELECT {columns} FROM financials {where}")))


LITERALS = [
    *(str(10**power + 1) for power in range(0, 31, 3)), str(-(10**30)), "9999999999999999.99", "9007199254740993.01",
    "1e30", "1e2", "0.1", "0.30000000000000004", "12.345", "1e-9", "123456789012345.67", "-0.0", "1e400",
    "null", "true", '"12,5"', "[]", "{}", '""',
]  # fmt: skip


@pytest.mark.parametrize("literal", sized(["9007199254740993.01"], [str(10**30), *LITERALS]))
def test_a_number_is_exact_or_discarded(literal, sandbox, make_lake):
    """And costs neither its record nor the run."""
    lake = make_lake(8, run__datasets="financials")
    company = next(c for c in lake.numbers)
    with faults(
        sandbox,
        {"kind": "drift", "field": "revenue", "change": "literal", "literal": literal, "companies": [name_of(company)]},
    ):
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


def _body(kind: str) -> dict[str, Any]:
    return BOMB if kind == "gzip_bomb" else {"kind": "wrong_body", "body": kind}


def _finished(make_lake: Any, sandbox: Any) -> Lake:
    lake = make_lake(COUNT, "finished")
    assert lake.run().code == 0
    return lake


def _periods(lake: Lake, company: tuple[str, str]) -> int:
    return lake.query(f"SELECT count(*) FROM financials WHERE (country, company_number) = {company!r}")[0][0]
