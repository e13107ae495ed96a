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


@pytest.mark.parametrize(
    ("amounts", "verdict", "settings"),
    [
        (["1234.50", "5"], "covered", {"contract.decimal_mark": "."}),
        (["1234,50", "591.240"], "covered", {"contract.decimal_mark": ","}),
        (["1.591.240", "591.240"], "covered", {"contract.decimal_mark": ","}),
        (["5", ""], "covered", {}),
        (["591.240"], "needs_you", {}),
        (["12.5", "12,5", "591.240"], "needs_you", {}),
        (["12,5", "much"], "needs_you", {"contract.decimal_mark": ","}),
    ],
)
def test_the_mark_before_decimals_is_found_where_a_text_has_one_reading(amounts, verdict, settings):
    finding = examined("types", *(period(profitability__revenue=amount) for amount in amounts))
    assert (finding.verdict, finding.settings) == (verdict, settings)
    assert finding.verdict != "needs_you" or finding.next_step


def test_midnights_differ_and_are_read():
    finding = examined("types", period(dateReceived="2024-06-30T00:00:00"))
    assert finding.verdict == "covered"
    assert (
        finding.seen
        == "dates with a time: financials dateReceived (2024-06-30T00:00:00, 1 times); midnights are read as dates"
    )


def test_a_date_that_cannot_be_read_costs_its_record_if_it_is_part_of_the_key():
    """Other fields only lose their value."""
    assert "records are rejected without them" in examined("types", period(endDate=1735603200000)).seen
    assert "discarded, and kept in extra_json" in examined("types", period(dateReceived=1735603200000)).seen


def test_amounts_a_float_away_from_a_cent_are_covered():
    assert examined("decimals", period(profitability__revenue=8109058.519999999)).verdict == "covered"


def test_scales_and_decimals_of_numbers_in_texts_are_seen_too():
    assert examined("scale of fractions", period(people__employeeMaleRatio="45")).verdict == "covered"
    assert examined("decimals", period(profitability__revenue="1.2345")).verdict == "needs_you"
    assert examined("integers", period(people__employees="12.5")).settings
