"""Dialects: records that lack keys, have unknown ones, or spell values otherwise are read fast, and exactly."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.core.settings import ContractSettings
from firmlake.tables import records
from firmlake.tables.objects import shape_of
from firmlake.tables.records import read_records, read_tolerantly
from firmlake.tables.regular import read_regular
from firmlake_sandbox import rewrites, sample_numbers
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.related import list_lookalikes
from firmlake_sandbox.world import World
from support import examples, lookalike, period, slow

from . import odd_json
from .test_records import exactly, read_nothing

PERIOD, LOOKALIKE = ("financials", "period"), ("lookalikes", "lookalike")
SHAPES = {kind: shape_of(*kind) for kind in (PERIOD, LOOKALIKE)}


def raw(record):
    return Raw(msgspec.json.encode(record))


def fast(kind, raws):
    """Read records by their skeletons; None where one is odd."""
    return read_regular(SHAPES[kind], raws, 7)


def assert_exact(kind, raws, read):
    exact = read_tolerantly(SHAPES[kind], raws, 7)
    assert not exact.rejects
    assert_frame_equal(read.frame, exact.frame)
    assert Counter(read.observations) == Counter(exact.observations)


@pytest.mark.parametrize("kind", SHAPES)
@examples(150)
@given(data=st.data())
def test_what_is_read_is_what_the_exact_path_reads(kind, data):
    """Of records with keys added, left out, repeated, reordered, and values of any kind."""
    raws = odd_json.raws(data.draw(st.lists(odd_json.records(kind, max_changes=2), min_size=1, max_size=4)))
    read = fast(kind, raws)
    if read is not None:
        assert_exact(kind, raws, read)


@examples(200)
@given(odd_json.dialects())
def test_a_dialect_is_read_as_record_by_record(batch):
    """In a dialect all records have the same unknown keys, with values of any kind, and leave out the same nulls."""
    kind, raws = batch
    read = read_records(*kind, raws)
    with patch.object(records, "read_regular", return_value=None):
        together = read_records(*kind, raws)
        with patch.object(records, "_take_together", side_effect=ValueError):
            singly = read_records(*kind, raws)
    for other in (together, singly):
        assert_frame_equal(read.frame, other.frame)
        assert read.rejects == other.rejects
        assert sorted(read.observations) == sorted(other.observations)


def periods(change):
    """Periods of the sandbox, with a dialect."""
    nodes = [parse_number(*company) for company in sample_numbers(30)]
    element = {"data": [record for node in nodes for record in list_financials(World(), node, 500, 0)[0]]}
    element = rewrites.read_json(msgspec.json.encode(element))
    change("financials", element)
    return msgspec.json.decode(rewrites.write_json(element["data"]), type=list[Raw])


@pytest.mark.parametrize("change", [rewrites.omit_nulls, rewrites.add_fields])
def test_a_service_that_omits_nulls_or_adds_fields_is_read_by_skeletons(change):
    element = {
        "data": [record for number in sample_numbers(30) for record in list_lookalikes(World(), parse_number(*number))]
    }
    change("lookalikes", element)
    for kind, raws in ((PERIOD, periods(change)), (LOOKALIKE, [raw(record) for record in element["data"]])):
        read = fast(kind, raws)
        assert read is not None
        assert_exact(kind, raws, read)


@pytest.mark.parametrize("mark", ["", *slow(".", ",")])
@pytest.mark.parametrize("scale", [1, *slow(100)])
@examples(200)
@given(odd_json.mixtures().filter(lambda batch: batch[1]))
def test_a_mixture_of_dialects_is_read_as_value_by_value(mark, scale, batch):
    """To the last reject, example and index, in the same order."""
    kind, raws = batch
    scaled = dict.fromkeys(("financials.*ratio", "financials.*fraction", "lookalikes.score", "*.stake_fraction"), scale)
    shape = shape_of(*kind, ContractSettings(decimal_mark=mark, scales=scaled))
    together = read_tolerantly(shape, raws, 7)
    with patch.object(records, "read_columns", side_effect=read_nothing):
        singly = read_tolerantly(shape, raws, 7)
    assert_frame_equal(together.frame, singly.frame)
    assert together.rejects == singly.rejects
    assert together.observations == singly.observations
    read = read_records(*kind, raws, ContractSettings(decimal_mark=mark, scales=scaled))
    assert_frame_equal(read.frame.drop("record"), singly.frame.drop("record"))


def each_number(change):
    """Change the numbers of periods, which are given as texts, empty for null."""

    def changed(_dataset, element):
        for record in element["data"]:
            for holder in (record, *(value for value in record.values() if isinstance(value, dict))):
                for key, value in holder.items():
                    if value is None or isinstance(value, (Decimal, int)):
                        holder[key] = change("" if value is None else str(value))

    return changed


def at_midnight(_dataset, element):
    for record in element["data"]:
        for key in ("startDate", "endDate", "dateReceived"):
            record[key] = record[key] and record[key] + "T00:00:00Z"


@pytest.mark.parametrize(
    "change",
    [
        rewrites.quote_numbers,
        at_midnight,
        each_number(str),
        each_number(lambda text: text.replace(".", ",")),
        each_number(lambda text: text and f"{Decimal(text):,}"),
        each_number(lambda text: Decimal(text if "." in text else f"{text}.0") if text else None),
        each_number(lambda text: Decimal(text).normalize() if text else None),
    ],
    ids=["texts", "midnight", "empty texts", "commas", "thousands", "12.0", "1.2E+3"],
)
def test_values_that_a_dialect_spells_otherwise_are_read_together(change):
    """Reading them one by one costs up to thirty times as much. Only the few that are odd in it are read so."""
    raws = periods(change)
    with patch.object(records, "read_cell", side_effect=records.read_cell) as one_by_one:
        read = read_records(*PERIOD, raws)
    assert one_by_one.call_count < len(raws)
    exact = exactly(PERIOD, raws)
    assert_frame_equal(read.frame, exact.frame)
    assert (read.rejects, read.observations) == (exact.rejects, exact.observations)


NUMBERS = [leaf for leaf in SHAPES[PERIOD].leaves if leaf.kind not in ("date", "codes")]
_PLAIN = ["0", "-0", "-12.5", "12.50", "0.1234", "1.2345", "591.24", "591240"]
_ODD = [
    "591.240",
    "1.234",
    "-1.000",
    "007",
    "5.",
    ".5",
    "1.2.3",
    "--1",
    "-",
    "",
    " 5",
    "+5",
    "1e3",
    "1,5",
    "1 234,5",
    "9" * 40,
    "12.345",
]


def with_text(leaf, value, year):
    """A record whose numbers are texts, one of them this."""
    record = period(year)
    for each in NUMBERS:
        *outer, key = each.path.split(".")
        inner = record[outer[0]] if outer else record
        if each == leaf:
            inner[key] = value
        elif inner[key] is not None:
            inner[key] = str(inner[key])
    return raw(record)


@pytest.mark.parametrize("mark", ["", *slow(".", ",")])
@examples(150)
@given(st.data(), st.sampled_from(NUMBERS), st.sampled_from([*_PLAIN, *_ODD]) | st.none() | st.floats(-9, 9).map(str))
def test_numbers_in_texts_are_read_as_one_by_one(mark, data, leaf, text):
    contract = ContractSettings(decimal_mark=mark)
    values = data.draw(st.permutations([text, text, "12", None, 12]))
    raws = [with_text(leaf, value, year) for year, value in enumerate(values, 2015)]
    read = read_records(*PERIOD, raws, contract)
    exact = exactly(PERIOD, raws, contract)
    assert_frame_equal(read.frame, exact.frame)
    assert read.rejects == exact.rejects
    assert Counter(read.observations) == Counter(exact.observations)


@examples(200)
@given(batch=odd_json.dialects(3), random=st.randoms(use_true_random=False))
def test_records_that_differ_in_digits_anywhere_are_read_as_the_exact_path_reads_them(batch, random):
    """Also in keys: they have the same skeleton, and one of them tells what its records are."""

    def change(match):
        return random.choice([match[0]] * 30 + [b"", b"1", b"22", b"-", b"."])

    kind, raws = batch
    others = odd_json.raws([re.sub(rb"[0-9.-]", change, bytes(each)) for each in raws for _ in range(3)])
    for some in (raws + others, raws[:1] + others[:1], others[:1] + raws[:1]):
        if kind in SHAPES and some and (read := fast(kind, some)):
            assert_exact(kind, some, read)


def test_unknown_keys_may_differ_in_digits_alone():
    many = {f"line{number}": number for number in range(40)}
    raws = [raw({**lookalike(), **many}), raw({**lookalike(score=0.5), **many})]
    read = fast(LOOKALIKE, raws)
    assert_exact(LOOKALIKE, raws, read)
    assert read.frame["extra_json"].to_list() == [json.dumps(many, separators=(",", ":"), sort_keys=True)] * 2


def test_a_record_whose_unknown_keys_have_other_digits_is_left_to_the_other_ways():
    one, other = raw({**lookalike(), "line1": 1}), raw({**lookalike(), "line2": 1})
    assert fast(LOOKALIKE, [one, one]) is not None
    assert fast(LOOKALIKE, [one, other]) is None


def test_blanks_as_python_writes_them_cost_nothing():
    for kind, usual in ((PERIOD, period(jointCommitteeCodes=["0200", "100"])), (LOOKALIKE, lookalike())):
        raws = [Raw(json.dumps({**usual, "meta": {"a": [1, "b c"]}}).encode())] * 2
        read = fast(kind, raws)
        assert read is not None
        assert_exact(kind, raws, read)


@pytest.mark.parametrize("people", [None, {}, {"employees": 3}])
def test_an_object_without_values_is_read_together_with_others(people):
    raws = [raw(period()), raw(period(people=people)), raw(period(2023))]
    assert_exact(PERIOD, raws, fast(PERIOD, raws))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"score":', b'"score":0.5,"score":'),
        (b'"score":', b'"score" :0.5,"score":'),
        (b'"score":', b'"unheardOf":1,"unheardOf":2,"score":'),
        (b'"score":', b'"unheardOf":"1\\u0000","score":'),
        (b'"companyNumber":', b'"companyNumber":"1","companyNumber":'),
        (b'"score":', b'"companyId":{},"score":'),
    ],
)
def test_a_key_that_stands_twice_or_a_text_no_database_takes_is_left_to_the_other_ways(old, new):
    usual = bytes(raw(lookalike()))
    assert old in usual
    sparse = raw({**lookalike(), "unheardOf": 1})
    assert fast(LOOKALIKE, [sparse, raw(lookalike())]) is not None
    assert fast(LOOKALIKE, [sparse, Raw(usual.replace(old, new))]) is None
