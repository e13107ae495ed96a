"""Reading records by their skeletons: whatever it takes, it reads as the exact path does."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.core.company import Company
from firmlake.tables import records
from firmlake.tables.objects import shape_of
from firmlake.tables.records import read_records
from firmlake.tables.regular import read_regular
from firmlake_sandbox import sample_numbers
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.world import World
from support import ACME, examples, lookalike, party, period

from .test_records import read_nothing

PERIOD, LOOKALIKE = ("financials", "period"), ("lookalikes", "lookalike")
SHAPES = {kind: shape_of(*kind) for kind in (PERIOD, LOOKALIKE)}
SHAPE = SHAPES[PERIOD]


def raw(record):
    return Raw(msgspec.json.encode(record))


def read_three_ways(kind, raws):
    """By whatever path, field by field, and value by value."""
    yield read_records(*kind, raws)
    with patch.object(records, "read_regular", return_value=None):
        yield read_records(*kind, raws)
        with patch.object(records, "read_columns", side_effect=read_nothing):
            yield read_records(*kind, raws)


def said_by_the_sandbox(world, node):
    """All records of a company, by dataset and group."""
    relations = list_relationships(world, node, "EN")
    yield PERIOD, list_financials(world, node, 500, 0)[0]
    yield ("lookalikes", "lookalike"), list_lookalikes(world, node)
    yield ("relationships", "parent"), relations.parents
    yield ("relationships", "child"), relations.children


@examples(15)
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
    for kind, shape in SHAPES.items():
        assert kind not in said or read_regular(shape, said[kind], 0) is not None


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
        (b'"healthIndicator":7', b'"healthIndicator":7.5'),
        (b'"healthIndicator":7', b'"healthIndicator":"07"'),
        (b'"2024-01-01"', b'"0000-01-01"'),
        (b'"2024-01-01"', b'"2024-02-30"'),
        (b'"2024-01-01"', b'""'),
        (b'"2024-01-01"', b"20240101"),
        (b'"jointCommitteeCodes":[', b'"jointCommitteeCodes":[null,'),
        (b'"jointCommitteeCodes":[', b'"jointCommitteeCodes":[5,'),
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"score":', b'"score1":'),
        (b'"score":', b'"-score":'),
        (b'"companyId":', b'"company.Id":'),
        (b'"score":0.9', b'"score":"0,9"'),
        (b'"score":0.9', b'"score":' + b"9" * 400),
        (b'"BE"', b"null"),
        (b'"BE"', b'"B,E"'),
        (b'"BE"', b'"B:E"'),
        (b'"BE"', b'"B\\"E"'),
        (b'"BE"', b'"B\\u0045"'),
        (b'"BE"', b'"B\xc3\x89"'),
        (b'"BE"', b"12"),
    ],
)
def test_texts_that_are_more_than_letters_and_digits_are_left_to_the_other_paths(old, new):
    text = bytes(raw(lookalike(ACME, 0.9)))
    assert old in text
    assert read_regular(SHAPES[LOOKALIKE], [Raw(text), Raw(text.replace(old, new, 1)), Raw(text)], 0) is None


@pytest.mark.parametrize("text", ["null", "score", "country", "", "0", "-1.5", "true", "NaN"])
def test_a_text_is_a_text_whatever_it_spells(text):
    rows = [raw(lookalike(Company(text, "0770"), 1)), raw(lookalike(ACME, 0.123456789012345678))]
    read = read_regular(SHAPES[LOOKALIKE], rows, 0)
    assert read is not None
    assert read.frame["lookalike_country"].to_list() == [text, "BE"]
    assert read.frame["score"].to_list() == [1.0, 0.123456789012345678]


def test_records_of_any_shape_have_no_skeleton():
    assert read_regular(shape_of("relationships", "parent"), [raw(party())], 0) is None
