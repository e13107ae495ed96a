"""Reading records: exact or rejected, by whichever path, and no record changes another's row."""

from __future__ import annotations

import json
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.api.contract import DATASETS
from firmlake.tables import records, strict
from firmlake.tables.records import read_records
from support import ACME, CIRC, lookalike, party, period

from . import odd_json

PERIOD, LOOKALIKE, PARENT = ("financials", "period"), ("lookalikes", "lookalike"), ("relationships", "parent")
GROUPS = [(dataset, group) for dataset, d in DATASETS.items() for group in d.groups]
CLEAN = {PERIOD: period(), LOOKALIKE: lookalike(), PARENT: party(), ("relationships", "child"): party(None)}


def raw(record, **literals):
    """A record as JSON text; literals replace the text of a value, for what Python cannot hold."""
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    for key, literal in literals.items():
        name, mark = json.dumps(key), '"@"'
        record = json.loads(text, parse_float=odd_json._Literal, parse_int=odd_json._Literal)
        text = odd_json._text(_put(record, key, odd_json._Literal(mark))).replace(f"{name}:{mark}", f"{name}:{literal}")
    return Raw(text.encode(errors="surrogateescape"))


def _put(record, key, value):
    for holder in (record, *(inner for inner in record.values() if isinstance(inner, dict))):
        if key in holder:
            holder[key] = value
    return record


def exactly(kind, raws):
    """Read down the exact path alone."""
    with (
        patch.object(records, "read_regular", return_value=None),
        patch.object(records, "read_strictly", return_value=None),
    ):
        return read_records(*kind, raws)


def is_fast(kind, raws):
    with patch.object(records, "read_exactly", side_effect=AssertionError):
        try:
            return read_records(*kind, raws).frame.height == len(raws)
        except AssertionError:
            return False


def tally(observations):
    """How many records each difference concerns, with its first example."""
    counts, examples = Counter(), {}
    for seen in observations:
        counts[seen.kind, seen.path] += seen.records
        examples.setdefault((seen.kind, seen.path), (seen.record, seen.example))
    return counts, examples


def one(kind, record, **literals):
    """What becomes of one record: its row, or why it is rejected; and what was observed."""
    read = read_records(*kind, [raw(record, **literals)])
    assert read.frame.height + len(read.rejects) == 1
    observed = {seen.kind: seen.path for seen in read.observations}
    return (read.rejects[0] if read.rejects else read.frame.row(0, named=True)), observed


# --- two paths, one result -------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(odd_json.batches())
def test_both_paths_read_everything_alike(batch):
    kind, raws = batch
    fast, exact = read_records(*kind, raws), exactly(kind, raws)
    assert_frame_equal(fast.frame, exact.frame)
    assert fast.rejects == exact.rejects
    assert tally(fast.observations) == tally(exact.observations)


@pytest.mark.parametrize("kind", GROUPS)
def test_clean_records_take_the_fast_path(kind):
    assert is_fast(kind, [raw(CLEAN[kind])] * 3)


def test_what_the_service_may_leave_out_takes_the_fast_path():
    anonymous, person = {"identifier": None}, party(None)
    bare = party()
    del bare["identifier"]["place"], bare["function"], bare["percentage"]
    assert is_fast(PARENT, [raw(anonymous), raw(person), raw(bare), raw(party())])
    assert is_fast(PERIOD, [raw(period(dateReceived=None, profitability__revenue=None, jointCommitteeCodes=[]))])


@pytest.mark.parametrize(
    "record",
    [
        {**period(jointCommitteeCodes=[None]), "people": {**period()["people"], "employees": 1}},
        period(jointCommitteeCodes=["a\\", "b\\"]),
        {key: value for key, value in period().items() if key != "healthIndicator"},
    ],
    ids=["null code", "backslashes", "missing key"],
)
def test_two_oddities_do_not_make_up_for_each_other(record):
    """A number in a string adds two quotation marks, each of these takes two away or adds two of its own."""
    record["profitability"]["revenue"] = "5.25"
    result, _ = one(PERIOD, record)
    assert result.reason in ("a number was expected, not a text", "a text was expected, not null")


def test_a_text_does_not_make_up_for_a_missing_key():
    """It holds what looks like the end of a key, and as many quotation marks."""
    record = period(jointCommitteeCodes=['":"'])
    del record["people"]["newHires"]
    assert one(PERIOD, record)[1] == {"vanished_field": "people.newHires"}


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (PERIOD, "revenue"), (PERIOD, "currentRatio"), (PERIOD, "employeeMaleRatio"), (PERIOD, "employees"),
        (LOOKALIKE, "score"), (PARENT, "percentage"),
    ],
)  # fmt: skip
def test_a_number_in_a_string_is_no_number(kind, key):
    result, _ = one(kind, CLEAN[kind], **{key: '"1"'})
    assert result.reason == "a number was expected, not a text"


@pytest.mark.parametrize("literal", ["1e5", "1E-5", "1e-999999", "1" * 18, "0." + "0" * 60])
def test_arrow_is_not_given_decimals_it_cannot_be_trusted_with(literal):
    """pyarrow 26.0 reads beyond its tables for large exponents, which sometimes ends the process, and wraps around."""
    with patch.object(strict.pyarrow.json, "read_json", side_effect=AssertionError):
        for kind, key in ((PERIOD, "revenue"), (PERIOD, "currentRatio"), (PARENT, "percentage")):
            read_records(*kind, [raw(CLEAN[kind], **{key: literal})])


# --- amounts ---------------------------------------------------------------------------------------------------------

AMOUNTS = (
    st.decimals(-(10**17), 10**17, allow_nan=False).map(str)
    | st.builds(
        "{}{}.{:03}".format, st.sampled_from(["", "-"]), st.integers(0, 10**17), st.sampled_from([0, 5, 10, 990])
    )
    | st.sampled_from([literal for literal in odd_json.NUMBERS if "e999" not in literal and "e-999" not in literal])
)


@settings(max_examples=150)
@given(st.lists(AMOUNTS, min_size=1, max_size=5))
def test_an_amount_is_exact_to_the_cent_or_rejected(literals):
    read = read_records(*PERIOD, [raw(period(), revenue=literal) for literal in literals])
    amounts = dict(read.frame.select("record", "revenue").rows())
    for number, literal in enumerate(literals):
        value = Fraction(literal)
        if (value * 100).denominator == 1 and abs(value) < 10**16:
            assert Fraction(amounts[number]) == value
        else:
            assert (number, "profitability.revenue") in [(reject.record, reject.path) for reject in read.rejects]
    assert len(amounts) + len(read.rejects) == len(literals)


@pytest.mark.parametrize("literal", ["9999999999999999.99", "-9999999999999999.99", "1e15", "-0", "0.10", "7.000"])
def test_an_amount_of_up_to_16_digits_before_the_point_is_exact(literal):
    row, _ = one(PERIOD, period(), revenue=literal)
    assert row["revenue"] == Decimal(literal)


@pytest.mark.parametrize("literal", ["10000000000000000", "-10000000000000000", "99999999999999999", "1e16", "0.001"])
def test_an_amount_that_does_not_fit_is_rejected(literal):
    result, _ = one(PERIOD, period(), revenue=literal)
    assert result.path == "profitability.revenue"


@settings(max_examples=100)
@given(st.integers(-(2**65), 2**65) | st.integers(-(10**40), 10**40))
def test_an_integer_is_exact_or_rejected(value):
    result, _ = one(PERIOD, period(), employees=str(value))
    if -(2**63) <= value < 2**63:
        assert result["employee_count"] == value
    else:
        assert result.path == "people.employees"


@pytest.mark.parametrize("literal", ["5.0", "1e5", "1e400", '"5"', "true", "[5]", "9" * 5000])
def test_what_is_not_written_as_an_integer_is_none(literal):
    result, _ = one(PERIOD, period(), employees=literal)
    assert result.path == "people.employees"


@pytest.mark.parametrize(
    ("literal", "value", "is_rounded"),
    [
        ("1.2345", "1.2345", False),
        ("1.23450", "1.2345", False),
        ("1.00005", "1.0000", True),
        ("1.00015", "1.0002", True),
        ("-1.00015", "-1.0002", True),
        ("0.30000000000000004", "0.3000", True),
        ("1e-999999", "0.0000", True),
        ("99999999.99994", "99999999.9999", True),
    ],
)
def test_a_ratio_is_rounded_half_to_even_and_that_is_told(literal, value, is_rounded):
    row, observed = one(PERIOD, period(), currentRatio=literal)
    assert row["current_ratio"] == Decimal(value)
    assert observed == ({"rounded_value": "liquidity.currentRatio"} if is_rounded else {})


@pytest.mark.parametrize("literal", ["99999999.99995", "1e8", "1e20", "1" * 30, "340282366920938463463374607431.5"])
def test_a_ratio_too_big_is_rejected(literal):
    result, _ = one(PERIOD, period(), currentRatio=literal)
    assert "8 digits before the point" in result.reason


def test_an_example_of_rounding_does_not_fill_the_memory():
    read = read_records(*PARENT, [raw(party(), percentage="1e-999999")] * 50)
    assert all(len(seen.example) < 100 for seen in read.observations)
    result, _ = one(PERIOD, period(), revenue="1e-999999999")
    assert len(result.reason) < 200


@settings(max_examples=100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_score_is_the_nearest_float(value):
    row, _ = one(LOOKALIKE, lookalike(), score=repr(value))
    assert row["score"] == value
    assert math.copysign(1, row["score"]) == math.copysign(1, value)


@pytest.mark.parametrize("literal", ["1e400", "-1e400", '"0.5"', "null", "true", "{}"])
def test_a_score_that_is_no_number_is_rejected(literal):
    result, _ = one(LOOKALIKE, lookalike(), score=literal)
    assert result.path == "score"


# --- dates, texts, codes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "literal", ['"2023-02-29"', '"2024-2-3"', '"0000-01-01"', '"2024-01-01T00:00:00"', '""', "20240101", "true", '"x"']
)
@pytest.mark.parametrize("key", ["endDate", "dateReceived"])
def test_a_date_that_is_none_is_rejected_and_never_null(key, literal):
    result, _ = one(PERIOD, period(), **{key: literal})
    assert result.path == key


@pytest.mark.parametrize("literal", ['"0001-01-01"', '"2024-02-29"', '"9999-12-31"'])
def test_a_date_is_a_date(literal):
    row, _ = one(PERIOD, period(), endDate=literal)
    assert row["end_date"].isoformat() == json.loads(literal)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (PERIOD, "startDate"), (PERIOD, "endDate"), (LOOKALIKE, "country"), (LOOKALIKE, "companyNumber"),
        (LOOKALIKE, "companyId"), (LOOKALIKE, "score"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_missing", [True, False])
def test_without_a_required_value_a_record_says_nothing(kind, key, is_missing):
    record = json.loads(bytes(raw(CLEAN[kind], **{key: "null"})))
    if is_missing:
        for holder in (record, record.get("companyId") or {}):
            holder.pop(key, None)
    result, _ = one(kind, record)
    assert result.reason in ("the key is missing", "null, but a record without it says nothing")


@pytest.mark.parametrize("text", ["", " ", "\0", "\n", "é\u2028\U0001f600", 'a"b\\', "x" * 100_000, "null"])
def test_a_text_is_kept_as_it_is(text):
    row, _ = one(PARENT, party(name=text))
    assert row["related_name"] == text


def test_codes_keep_their_order_their_zeros_and_their_doubles():
    row, _ = one(PERIOD, period(jointCommitteeCodes=["0200", "100", "0200"] + ["7"] * 1000))
    assert row["joint_committee_codes"] == ["0200", "100", "0200"] + ["7"] * 1000


@pytest.mark.parametrize("literal", ["[null]", '["a",null]', "[1]", '"0200"', "{}", '[["0200"]]'])
def test_codes_that_are_no_texts_are_rejected(literal):
    result, _ = one(PERIOD, period(), jointCommitteeCodes=literal)
    assert result.path == "jointCommitteeCodes"


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("literal", ["null", "5", "[]", '"x"', "true"])
def test_a_record_that_is_no_object_is_rejected(kind, literal):
    read = read_records(*kind, [raw(CLEAN[kind]), Raw(literal.encode())])
    assert [reject.record for reject in read.rejects] == [1]
    assert "an object was expected" in read.rejects[0].reason


def test_bytes_that_are_no_text_are_rejected():
    result, _ = one(PARENT, party(name="\udcff"))
    assert "not readable" in result.reason


# --- drift -----------------------------------------------------------------------------------------------------------


def test_a_field_nobody_knows_is_kept_and_told():
    row, observed = one(PERIOD, {**period(people__unheardOf={"a": [1.50, None]}), "x": 10**30})
    assert json.loads(row["extra_json"], parse_float=Decimal) == {"people.unheardOf": {"a": [1.5, None]}, "x": 10**30}
    assert observed == {"new_field": "people.unheardOf"} or observed == {"new_field": "x"}


@pytest.mark.parametrize("literal", [str(10**30), "1e400", "1e-999999", "9" * 5000, "[" * 300 + "]" * 300, '"\\u0000"'])
def test_whatever_a_field_nobody_knows_holds_the_record_is_read(literal):
    row, observed = one(PARENT, {**party(), "unheardOf": 0}, unheardOf=literal)
    assert observed == {"new_field": "unheardOf"}
    assert row["related_name"] == "Somebody"
    assert Decimal(row["extra_json"][13:-1]) == Decimal(literal) if literal[0] in "19" else row["extra_json"]


@pytest.mark.parametrize("path", [field.path for field in DATASETS["financials"].groups["period"].fields.values()])
def test_a_known_field_that_is_absent_is_told(path):
    record = period()
    *branches, leaf = path.split(".")
    del (record[branches[0]] if branches else record)[leaf]
    result, observed = one(PERIOD, record)
    if leaf in ("startDate", "endDate"):
        assert result.path == path
    else:
        assert observed == {"vanished_field": path}


def test_a_related_company_without_number_is_told():
    record = party()
    del record["identifier"]["companyNumber"]
    assert one(PARENT, record)[1] == {"vanished_field": "identifier.companyNumber"}
    assert one(PARENT, {"name": "x"})[1] == {"vanished_field": "identifier.companyNumber"}


def test_a_party_without_identifier_is_no_drift_beside_a_bad_record():
    """The specification allows `identifier: null`; the exact path must know that too."""
    read = read_records(*PARENT, [raw({"identifier": None}), raw(party(None)), Raw(b"5")])
    assert (read.frame.height, len(read.rejects), read.observations) == (2, 1, [])


def test_an_object_of_values_that_is_null_is_told_value_by_value():
    read = read_records(*PERIOD, [raw(period(people=None))])
    assert {seen.path for seen in read.observations} == {
        "people.employees", "people.newHires", "people.employeeMaleRatio", "people.employeeFemaleRatio",
    }  # fmt: skip


# --- neighbours ------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(data=st.data(), kind=st.sampled_from(GROUPS))
def test_an_odd_record_changes_no_other_row(data, kind):
    clean = [raw(CLEAN[kind])] * 4
    odd = odd_json.raws([data.draw(odd_json.records(kind, max_changes=4))])
    place = data.draw(st.integers(0, 4))
    read = read_records(*kind, clean[:place] + odd + clean[place:])
    others = read.frame.filter(~pl.col("record").is_between(place, place + len(odd) - 1)).drop("record")
    assert_frame_equal(others, read_records(*kind, clean).frame.drop("record"))
    assert {reject.record for reject in read.rejects} <= {place}


@pytest.mark.parametrize("bad", [[], [0], [999], [1000], [999, 1000], [2000], list(range(1000, 2000))])
def test_batches_do_not_show(bad):
    """Records go through by the thousand; numbering, rejects and order are those of the whole."""
    raws = [raw(lookalike(ACME, number / 4096)) for number in range(2001)]
    for place in bad:
        raws[place] = Raw(b'{"score":1}')
    read = read_records(*LOOKALIKE, raws)
    good = [number for number in range(2001) if number not in bad]
    assert read.frame["record"].to_list() == good
    assert read.frame["score"].to_list() == [number / 4096 for number in good]
    assert [reject.record for reject in read.rejects] == bad


def test_no_records_give_an_empty_frame_of_the_same_shape():
    for kind in GROUPS:
        assert read_records(*kind, []).frame.schema == read_records(*kind, [raw(CLEAN[kind])]).frame.schema


def test_observations_name_the_record_of_the_whole():
    raws = [raw(lookalike(CIRC))] * 1500 + [raw({**lookalike(), "x": 1})]
    assert [seen.record for seen in read_records(*LOOKALIKE, raws).observations] == [1500]
