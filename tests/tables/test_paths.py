"""Whether records are read by their skeletons or value by value, they give the same rows and rejects."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.core.company import Company
from firmlake.tables import records
from firmlake.tables.records import read_records
from firmlake_sandbox import sample_numbers
from firmlake_sandbox.dialects import DIALECTS
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.twists import rewrite_body
from firmlake_sandbox.wire import read_json, write_json
from firmlake_sandbox.world import World
from support import ACME, examples, lookalike, period

from . import odd_json
from .test_records import exactly, tally

RANDOM = st.randoms(use_true_random=False)
PERIOD, LOOKALIKE = ("financials", "period"), ("lookalikes", "lookalike")


def raw(record):
    return Raw(msgspec.json.encode(record))


def assert_alike(kind, raws):
    read, exact = read_records(*kind, raws), exactly(kind, raws)
    assert_frame_equal(read.frame, exact.frame)
    assert read.rejects == exact.rejects
    assert tally(read.observations)[0] == tally(exact.observations)[0]
    return read


def changed_digits(batch, random):
    """Add records that differ from those of a batch in digits anywhere, also in keys."""
    kind, raws = batch

    def change(match):
        return random.choice([match[0]] * 30 + [b"", b"1", b"22", b"-", b"."])

    others = odd_json.raws([re.sub(rb"[0-9.-]", change, bytes(each)) for each in raws for _ in range(3)])
    return kind, raws + others


@pytest.mark.parametrize("batches", [odd_json.batches(), st.builds(changed_digits, odd_json.batches(3), RANDOM)])
@pytest.mark.slow
def test_both_ways_read_records_alike(batches):
    @examples(300)
    @given(batches.filter(lambda batch: batch[1]))
    def read(batch):
        assert_alike(*batch)

    read()


@pytest.mark.parametrize("blank", [" ", "\t", "\r", "\n"])
@pytest.mark.parametrize("mark", list("{:,}"))
@pytest.mark.parametrize("kind", [PERIOD, LOOKALIKE])
def test_blanks_between_keys_and_values_are_part_of_none(kind, mark, blank):
    text = bytes(raw({PERIOD: period(), LOOKALIKE: lookalike()}[kind])).decode()
    apart = Raw(text.replace(mark, f"{blank}{mark}{blank}").strip().encode())
    assert_alike(kind, [apart])
    assert_frame_equal(read_records(*kind, [apart]).frame, read_records(*kind, [Raw(text.encode())]).frame)


@examples(15)
@given(seed=st.integers(0, 10**6), week=st.integers(0, 200), count=st.integers(1, 12))
def test_what_the_sandbox_says_is_read_by_skeletons(seed, week, count):
    world, said = World(seed, week), {}
    for company in sample_numbers(count, seed):
        node = parse_number(*company)
        relations = list_relationships(world, node, "EN")
        for kind, found in (
            (PERIOD, list_financials(world, node, 500, 0)[0]),
            (LOOKALIKE, list_lookalikes(world, node)),
            (("relationships", "parent"), relations["parents"]),
            (("relationships", "child"), relations["children"]),
        ):
            said.setdefault(kind, []).extend(map(raw, found))
    for kind, raws in said.items():
        assert assert_alike(kind, raws).frame.height == len(raws)
    for kind in (PERIOD, LOOKALIKE):
        assert kind not in said or is_by_skeleton(kind, said[kind])


def is_by_skeleton(kind, raws):
    """Tell whether no value had to be read by itself."""
    with patch.object(records, "read_cell", side_effect=AssertionError):
        try:
            return read_records(*kind, raws).frame.height == len(raws)
        except AssertionError:
            return False


PLAIN, SIMILAR = bytes(raw(period())), bytes(raw(lookalike(ACME, 0.9)))


@pytest.mark.parametrize(
    ("kind", "usual", "old", "new"),
    [
        *(
            (PERIOD, PLAIN, old, new)
            for old, news in {
                b'"revenue":': (b'"revenue1":', b'"2revenue":', b'"rev.enue":'),
                b'"healthIndicator":7': (b'"healthIndicator":7.5', b'"healthIndicator":"07"'),
                b'"2024-01-01"': (b'"0000-01-01"', b'"2024-02-30"', b'""', b"20240101"),
                b'"jointCommitteeCodes":[': (b'"jointCommitteeCodes":[null,', b'"jointCommitteeCodes":[5,'),
                b'["200","0124"]': (b'[""]', b"[]", b'["","0200"]', b'[":",","]'),
                b'"people":{': (b'"people":null,"x":{', b'"people":{"unheardOf":[1,{"a":2}],'),
            }.items()
            for new in news
        ),
        *(
            (LOOKALIKE, SIMILAR, old, new)
            for old, news in {
                b'"score":': (
                    b'"score1":', b'"-score":', b'"score":0.5,"score":', b'"score" :0.5,"score":',
                    b'"companyId":{},"score":',
                    b'"unheardOf":1,"unheardOf":2,"score":', b'"unheardOf":"1\\u0000","score":', b'"line1":1,"score":',
                ),
                b'"score":0.9': (b'"score":"0,9"', b'"score":' + b"9" * 400, b'"score": 0.9'),
                b'"companyId":': (b'"company.Id":',),
                b'"companyNumber":': (b'"companyNumber":"1","companyNumber":',),
                b'"BE"': (
                    b"null", b'"B,E"', b'"B:E"', b'"B\\"E"', b'"B\\u0045"', b'"B\xc3\x89"', b"12", b'"null"',
                    b'"score"', b'""', b'"-1.5"', b'"true"', b'"NaN"',
                ),
            }.items()
            for new in news
        ),
    ],
)  # fmt: skip
def test_a_record_that_only_looks_like_the_others_is_read_as_what_it_is(kind, usual, old, new):
    assert old in usual
    odd = Raw(usual.replace(old, new, 1))
    for raws in ([Raw(usual), odd, Raw(usual)], [odd, odd], [odd, Raw(usual.replace(b"1", b"2"))]):
        assert_alike(kind, raws)


def test_a_text_is_a_text_whatever_it_spells():
    rows = [raw(lookalike(Company("null", "0770"), 1)), raw(lookalike(ACME, 0.123456789012345678))]
    read = assert_alike(LOOKALIKE, rows)
    assert read.frame.select("lookalike_country", "score").rows() == [("null", 1.0), ("BE", 0.123456789012345678)]


def test_unknown_keys_may_differ_in_digits_alone():
    many = {f"line{number}": number for number in range(40)}
    read = assert_alike(LOOKALIKE, [raw({**lookalike(), **many}), raw({**lookalike(score=0.5), **many})])
    assert read.frame["extra_json"].to_list() == [json.dumps(many, separators=(",", ":"), sort_keys=True)] * 2


# --- dialects: how a service may write the same records --------------------------------------------------------------


def periods(change):
    """Periods of the sandbox in a dialect, or changed."""
    nodes = [parse_number(*company) for company in sample_numbers(30)]
    element = {"data": [record for node in nodes for record in list_financials(World(), node, 500, 0)[0]]}
    body = write_json(element)
    if isinstance(change, str):
        body = rewrite_body([(twist, 0) for twist in DIALECTS[change].twists], body)
    element = read_json(body)
    if not isinstance(change, str):
        change(element)
    return msgspec.json.decode(write_json(element["data"]), type=list[Raw])


def spaced(_element):
    """Blanks as Python writes them."""


@pytest.mark.parametrize("change", ["nulls-omitted", "fields-added", spaced])
def test_records_that_omit_nulls_add_fields_or_have_blanks_are_read_by_skeletons(change):
    raws = periods(change)
    if change is spaced:
        raws = [Raw(json.dumps(json.loads(bytes(each), parse_float=Decimal), default=float).encode()) for each in raws]
    assert is_by_skeleton(PERIOD, raws)
    assert_alike(PERIOD, raws)
