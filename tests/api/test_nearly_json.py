"""Repairing values that JSON has none of: they cost themselves alone, and nothing else changes."""

import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.answers import read_answer, repaired
from support import ACME, BOLT, DATASETS, body, examples, found, party, period, slow


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_is_none_costs_no_company_its_records(dataset, value):
    text = body(found(BOLT, dataset, {"score": 1}), found(ACME, dataset, {"score": 2})).replace(b":2}", b":%b}" % value)
    first, second = read_answer(dataset, text)
    assert [first.company, second.company] == [BOLT, ACME]
    [[record]] = [records for records in second.records.values() if records]
    assert bytes(record) == b'{"score":"%b"}' % value


@pytest.mark.parametrize("name", [r"\ud83d", r"\uDFE2 x", r"\ud83d\ud83d", r"\\\ud83d"])
def test_half_a_character_costs_itself_alone(name):
    text = body(found(ACME, "relationships", party(name="NAME"))).replace(b"NAME", name.encode())
    [element] = read_answer("relationships", text)
    [record] = element.records["parent"]
    half = re.compile("[\ud800-\udfff]")
    assert json.loads(bytes(record))["name"] == half.sub("\ufffd", json.loads(f'"{name}"'))


@pytest.mark.parametrize(
    "text", [rb'"NaN"', rb'"a\"NaN"', rb'"\ud83c\udfe2 NaN"', rb'"\\ud83d NaN"', b"[NaNa]", b"<p>Infinityx</p>"]
)
def test_what_is_in_order_stays_as_it_is(text):
    assert repaired(text) == text


@examples(100)
@given(content=st.recursive(st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_all_that_python_writes_can_be_read(content):
    text = repaired(json.dumps(content).encode())
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    text.decode().encode()


@pytest.mark.parametrize("hostile", [*slow(b"NaN,", b'"",'), rb'"\ud800",'])
def test_a_hostile_body_costs_no_more_memory_than_copies_of_it(hostile):
    text = b"[" + hostile * 200_000 + b"NaN]"
    tracemalloc.start()
    repaired(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * len(text)


def test_a_period_with_a_number_that_is_none_is_read_beside_others():
    text = body(found(ACME, "financials", period(), period(2023))).replace(b"-12.34", b"NaN", 1)
    [element] = read_answer("financials", text)
    assert b'"ebitda":"NaN"' in bytes(element.records["period"][0])
    assert len(element.records["period"]) == 2
