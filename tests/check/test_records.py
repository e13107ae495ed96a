"""What `firmlake check` says of records: a difference is covered only if no value is lost by it."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from firmlake.check.records import examine_records
from support import period


def examined(row, *records):
    parsed = json.loads(json.dumps(records), parse_float=Decimal)
    (finding,) = (each for each in examine_records({"financials": {"period": parsed}}) if each.assumption == row)
    return finding


def renamed():
    record = period()
    record["profitability"]["turnover"] = record["profitability"].pop("revenue")
    return record


def test_a_field_in_no_record_beside_an_unknown_one_may_have_been_renamed():
    finding = examined("absent keys", renamed(), renamed())
    assert (finding.verdict, "financials profitability.revenue (2)" in finding.seen) == ("needs_you", True)
    assert finding.next_step
    without = period()
    del without["profitability"]["revenue"]
    assert examined("absent keys", without, without).verdict == "covered", "a service that leaves out nulls"
    assert examined("absent keys", renamed(), period()).verdict == "covered"


@pytest.mark.parametrize(("value", "verdict"), [(1.25, "as_assumed"), (1.251, "needs_you")])
def test_amounts_with_more_than_cents_are_lost_so_somebody_must_know(value, verdict):
    assert examined("decimals", period(profitability__revenue=value)).verdict == verdict
