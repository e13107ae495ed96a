"""Reading records by their skeletons: whatever it takes, it reads as the exact path does."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.api.contract import DATASETS
from firmlake.tables import records
from firmlake.tables.records import read_records
from firmlake.tables.regular import read_regular, regular_shape
from firmlake_sandbox import sample_numbers
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.lookalikes import list_lookalikes
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.relationships import list_relationships
from firmlake_sandbox.world import World
from support import period

from . import odd_json

PERIOD = ("financials", "period")
SHAPE = regular_shape(DATASETS["financials"].groups["period"])


def raw(record):
    return Raw(msgspec.json.encode(record))


def read_three_ways(kind, raws):
    """By whatever path, by Arrow's JSON reader at best, and exactly."""
    yield read_records(*kind, raws)
    with patch.object(records, "_read_regularly", return_value=None):
        yield read_records(*kind, raws)
        with patch.object(records, "_read_fast", return_value=None):
            yield read_records(*kind, raws)


def said_by_the_sandbox(world, node):
    """All records of a company, by dataset and group."""
    relations = list_relationships(world, node, "EN")
    yield PERIOD, list_financials(world, node, 500, 0)[0]
    yield ("lookalikes", "lookalike"), list_lookalikes(world, node)
    yield ("relationships", "parent"), relations.parents
    yield ("relationships", "child"), relations.children


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), week=st.integers(0, 200), count=st.integers(1, 12))
def test_all_paths_read_what_the_sandbox_says_alike(seed, week, count):
    world = World(seed, week)
    said = {}
    for company in sample_numbers(count, seed):
        for kind, said_records in said_by_the_sandbox(world, parse_number(*company)):
            said.setdefault(kind, []).extend(map(raw, said_records))
    for kind, raws in said.items():
        first, *others = read_three_ways(kind, raws)
        assert first.frame.height == len(raws)
        for other in others:
            assert_frame_equal(first.frame, other.frame)
            assert first.observations == other.observations
    assert read_regular(SHAPE, said[PERIOD], 0) is not None


@settings(max_examples=150)
@given(texts=st.lists(odd_json.records(PERIOD, max_changes=2), min_size=1, max_size=4))
def test_what_is_read_by_skeletons_is_what_the_exact_path_reads(texts):
    raws = odd_json.raws(texts)
    frame = read_regular(SHAPE, raws, 7)
    if frame is not None:
        exact = records._read_exactly(records._SHAPES[PERIOD], raws, 7)
        assert not exact.rejects
        assert not exact.observations
        assert_frame_equal(frame, exact.frame.drop("extra_json"))


def test_amounts_nulls_and_codes_are_read():
    rows = [
        period(profitability__revenue=None),
        period(2023, jointCommitteeCodes=[]),
        period(2022, jointCommitteeCodes=["", "0200"]),
    ]
    assert read_regular(SHAPE, [raw(row) for row in rows], 0) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"revenue":', b'"revenue1":'),
        (b'"revenue":', b'"2revenue":'),
        (b'"revenue":', b'"rev.enue":'),
        (b'"healthIndicator":7', b'"healthIndicator":7.0'),
        (b'"healthIndicator":7', b'"healthIndicator":"7"'),
        (b'"2024-01-01"', b'"0000-01-01"'),
        (b'"2024-01-01"', b'"2024-02-30"'),
        (b'"2024-01-01"', b'""'),
        (b'"2024-01-01"', b"20240101"),
        (b'"jointCommitteeCodes":[', b'"jointCommitteeCodes":[null,'),
        (b'"jointCommitteeCodes":[', b'"jointCommitteeCodes":[5,'),
        (b'"people":{', b'"people":{"":1,'),
    ],
)
def test_what_only_looks_alike_is_left_to_the_other_paths(old, new):
    """The same skeleton, or nearly, but another record."""
    text = bytes(raw(period()))
    assert old in text
    good = Raw(text)
    assert read_regular(SHAPE, [good, Raw(text.replace(old, new, 1)), good], 0) is None


def test_one_empty_code_is_not_no_code():
    assert read_regular(SHAPE, [raw(period(jointCommitteeCodes=[""]))], 0) is None


def test_free_text_has_no_skeleton():
    assert regular_shape(DATASETS["lookalikes"].groups["lookalike"]) is None
    assert regular_shape(DATASETS["relationships"].groups["parent"]) is None
