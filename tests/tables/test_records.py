"""Reading records: a value is exact or discarded, by whichever path, and no record changes another's row."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from polars.testing import assert_frame_equal

from firmlake.api.contract import DATASETS
from firmlake.core.settings import ContractSettings
from firmlake.tables import records
from firmlake.tables.columns import ReadColumn
from firmlake.tables.records import read_records
from support import ACME, CIRC, examples, lookalike, party, period

from . import odd_json

PERIOD, LOOKALIKE, PARENT = ("financials", "period"), ("lookalikes", "lookalike"), ("relationships", "parent")
GROUPS = [(dataset, group) for dataset, d in DATASETS.items() for group in d.groups]
CLEAN = {PERIOD: period(), LOOKALIKE: lookalike(), PARENT: party(), ("relationships", "child"): party(None)}


def brief(literal):
    """A long literal as the id of a test."""
    return literal if len(literal) <= 40 else f"{literal[:4]}..., {len(literal)} characters"


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


def read_nothing(cells):
    """What `read_columns` returns if no value is plain."""
    return {leaf: ReadColumn(pl.Series(), rest=range(len(values))) for leaf, values in cells.items()}


def exactly(kind, raws, *contract):
    """Read value by value alone."""
    with (
        patch.object(records, "read_regular", return_value=None),
        patch.object(records, "read_columns", side_effect=read_nothing),
    ):
        return read_records(*kind, raws, *contract)


def is_fast(kind, raws):
    """Tell whether no value had to be read by itself."""
    with patch.object(records, "read_cell", side_effect=AssertionError):
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
    """What becomes of one record: its row or None, why values were discarded, and what was observed."""
    read = read_records(*kind, [raw(record, **literals)])
    lost = [reject for reject in read.rejects if reject.effect == "record"]
    assert read.frame.height + len(lost) == 1
    row = None if lost else read.frame.row(0, named=True)
    return (
        row,
        {reject.path: reject.reason for reject in read.rejects},
        {seen.kind: seen.path for seen in read.observations},
    )


def assert_discarded(kind, record, path, column, **literals):
    """The value is null, it is kept as it came, and it is listed."""
    [text] = literals.values()
    row, reasons, _ = one(kind, record, **literals)
    assert row[column] is None
    assert list(reasons) == [path]
    assert row["extra_json"] == f'{{"{path}":{text}}}'
    [reject] = read_records(*kind, [raw(record, **literals)]).rejects
    assert (reject.effect, reject.value) == ("value", text[:200])
    rest, _, _ = one(kind, record)
    assert {**row, column: rest[column], "extra_json": None} == rest, "nothing else is lost"
    return reject.reason


# --- three paths, one result -----------------------------------------------------------------------------------------


@examples(400)
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


@pytest.mark.parametrize("kind", [PERIOD, LOOKALIKE, PARENT])
@pytest.mark.parametrize("odd", [{}, {"one": 1}, {"one": [1], "two": {"a": "b"}}, {"one": "a\\nb"}])
def test_nothing_that_was_read_is_kept(kind, odd):
    """What is kept of each thousand records would grow a run of a million companies by hundreds of megabytes."""

    def read():
        some = [{**CLEAN[kind], **(odd if number % 3 else {}), "long": "x" * 5_000} for number in range(60)]
        read_records(*kind, [raw(record) for record in some])

    read()  # what is worked out once is kept
    tracemalloc.start()
    try:
        read()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            read()
        assert tracemalloc.get_traced_memory()[0] - before < 60 * 5_000
    finally:
        tracemalloc.stop()


def test_a_text_does_not_make_up_for_a_repeated_key():
    """It holds what looks like the end of a key."""
    text = bytes(raw(period(jointCommitteeCodes=['":"'])))
    read = read_records(*PERIOD, [Raw(text.replace(b'"newHires":', b'"newHires":1,"newHires":'))])
    assert read.frame["new_hire_count"].to_list() == [None]
    assert read.frame["joint_committee_codes"].to_list() == [['":"']]


@pytest.mark.parametrize("blank", [b"", b" ", b"\n\t"])
@pytest.mark.parametrize("old", [b'"healthIndicator":', b'"revenue":', b'"jointCommitteeCodes":', b'"people":'])
def test_a_value_given_twice_is_none(old, blank):
    """Parsers take the first or the last; which was meant, nobody knows."""
    text = bytes(raw(period(jointCommitteeCodes="x", people="x", profitability__revenue=5)))
    key = old[:-1]
    twice = text.replace(old, key + b":" + b"1," + key + blank + b":", 1)
    read = read_records(*PERIOD, [Raw(twice)])
    path = {b'"revenue"': "profitability.revenue"}.get(key, key.decode().strip('"'))
    [reject] = [reject for reject in read.rejects if reject.path == path]
    assert reject.effect == "value"
    assert reject.value.startswith("[[1,")
    assert read.frame.height == 1


@pytest.mark.parametrize(
    ("kind", "key", "column"),
    [
        (PERIOD, "profitability.revenue", "revenue"),
        (PERIOD, "liquidity.currentRatio", "current_ratio"),
        (PERIOD, "people.employeeMaleRatio", "employee_male_fraction"),
        (PERIOD, "people.employees", "employee_count"),
        (LOOKALIKE, "score", "score"),
        (PARENT, "percentage", "stake_fraction"),
    ],
)
def test_a_number_in_a_string_is_that_number_and_it_is_said(kind, key, column):
    literals = {key.split(".")[-1]: '"1"'}
    row, reasons, seen = one(kind, CLEAN[kind], **literals)
    assert (row[column], reasons, seen) == (1, {}, {"text_for_number": key})
    assert row["extra_json"] is None


@pytest.mark.parametrize(("key", "column"), [("profitability.revenue", "revenue"), ("dateReceived", "date_received")])
def test_an_empty_text_in_place_of_a_number_or_a_date_is_no_value_and_it_is_said(key, column):
    row, reasons, seen = one(PERIOD, period(), **{key.split(".")[-1]: '""'})
    assert (row[column], row["extra_json"], reasons, seen) == (None, None, {}, {"empty_text": key})


@pytest.mark.parametrize("text", [" 1", "1 ", "+1", "01", "1.", ".5", "1,", "1 00", "0x1", "NaN", "one", "1\\n"])
def test_a_text_that_is_no_number_is_discarded(text):
    reason = assert_discarded(PERIOD, period(), "profitability.revenue", "revenue", revenue=f'"{text}"')
    assert reason == "a number was expected, not a text"


@pytest.mark.parametrize("text", ["591.240", "591,240", "-1.000"])
def test_an_amount_that_may_be_a_thousand_times_as_much_is_discarded(text):
    reason = assert_discarded(PERIOD, period(), "profitability.revenue", "revenue", revenue=f'"{text}"')
    assert reason == "it may be decimals or thousands"


@pytest.mark.parametrize(("mark", "value"), [(".", "591.24"), (",", "591240")])
def test_a_setting_tells_decimals_from_thousands(mark, value):
    read = read_records(*PERIOD, [raw(period(), revenue='"591.240"')], ContractSettings(decimal_mark=mark))
    assert (read.frame["revenue"][0], read.rejects) == (Decimal(value), [])


@pytest.mark.parametrize(("mark", "text"), [(".", "5,5"), (",", "5.5")])
def test_another_mark_than_the_one_of_the_setting_is_none(mark, text):
    read = read_records(*PERIOD, [raw(period(), revenue=f'"{text}"')], ContractSettings(decimal_mark=mark))
    assert [reject.path for reject in read.rejects] == ["profitability.revenue"]


@pytest.mark.parametrize("literal", ["8109058.5200000000000000000001", "0.1" + "0" * 20 + "1"])
def test_what_a_wide_decimal_cannot_hold_is_rounded_by_the_exact_rule_and_that_is_told(literal):
    amount, reasons, seen = _rounded(literal)
    assert (amount, reasons, seen) == (
        Decimal(literal[:10]).quantize(Decimal("0.01")),
        [],
        {"rounded_value": "profitability.revenue"},
    )


@pytest.mark.parametrize(
    ("kind", "name"), [(LOOKALIKE, "lookalike_company_number"), (PARENT, "related_company_number")]
)
def test_a_company_number_may_be_an_integer(kind, name):
    row, reasons, seen = one(kind, CLEAN[kind], companyNumber="403227515")
    assert (row[name], reasons, list(seen)) == ("403227515", {}, ["number_for_text"])


# --- amounts ---------------------------------------------------------------------------------------------------------

AMOUNTS = (
    st.decimals(-(10**17), 10**17, allow_nan=False).map(str)
    | st.builds(
        "{}{}.{:03}".format, st.sampled_from(["", "-"]), st.integers(0, 10**17), st.sampled_from([0, 5, 10, 990])
    )
    | st.sampled_from([literal for literal in odd_json.NUMBERS if "999999" not in literal.partition("e")[2]])
)


@examples(150)
@given(st.lists(AMOUNTS, min_size=1, max_size=5))
def test_an_amount_is_exact_to_the_cent_or_discarded(literals):
    read = read_records(*PERIOD, [raw(period(), revenue=literal) for literal in literals])
    amounts = dict(read.frame.select("record", "revenue").rows())
    for number, literal in enumerate(literals):
        value = Fraction(literal)
        cents = Fraction(round(value * 100), 100)
        if abs(value - cents) < Fraction(1, 10_000) and abs(value) < 10**16:
            assert Fraction(amounts[number]) == cents
        else:
            assert amounts[number] is None
            assert (number, "profitability.revenue") in [(reject.record, reject.path) for reject in read.rejects]
    assert len(amounts) == len(literals)


def _rounded(literal):
    row, reasons, seen = one(PERIOD, period(), revenue=literal)
    return row["revenue"], [*reasons], seen


@pytest.mark.parametrize(
    "literal",
    ["8109058.519999", "8109058.520000001", "8109058.519999999552965164184570312500", '"8109058.520000001"'],
)
def test_an_amount_less_than_a_hundredth_of_a_cent_from_a_cent_is_that_cent_and_that_is_told(literal):
    """A service that computes with floats sends such amounts."""
    amount, reasons, seen = _rounded(literal)
    assert (amount, reasons, seen["rounded_value"]) == (Decimal("8109058.52"), [], "profitability.revenue")


@pytest.mark.parametrize("literal", ["8109058.5199", "8109058.5201", "8109058.525"])
def test_an_amount_with_a_hundredth_of_a_cent_is_discarded(literal):
    assert _rounded(literal)[:2] == (None, ["profitability.revenue"])


@pytest.mark.parametrize(
    "literal",
    ["9999999999999999.99", "-9999999999999999.99", "1e15", "-0", "0.10", "7.000", "1E+2", "1.5e1", "0e999999"],
)
def test_an_amount_of_up_to_16_digits_before_the_point_is_exact(literal):
    row, _, _ = one(PERIOD, period(), revenue=literal)
    assert row["revenue"] == Decimal(literal)


@pytest.mark.parametrize(
    "literal",
    [
        "10000000000000000", "-10000000000000000", "99999999999999999", "1e16", "0.001", "1e1000000", "-1e1000000",
        "1e99999999999999999999", "1e-99999999999999999999", "9" * 4000, "0.0001" + "0" * 4000 + "1",
    ],
    ids=brief,
)  # fmt: skip
def test_an_amount_that_does_not_fit_is_discarded(literal):
    reason = assert_discarded(PERIOD, period(), "profitability.revenue", "revenue", revenue=literal)
    assert len(reason) < 200


@examples(100)
@given(st.integers(-(2**65), 2**65) | st.integers(-(10**40), 10**40))
def test_an_integer_is_exact_or_discarded(value):
    row, reasons, _ = one(PERIOD, period(), employees=str(value))
    is_int64 = -(2**63) <= value < 2**63
    assert row["employee_count"] == (value if is_int64 else None)
    assert list(reasons) == ([] if is_int64 else ["people.employees"])


@pytest.mark.parametrize(
    "literal", ["12.5", "1e400", '"5x"', "true", "[5]", "9" * 5000, "1e1000000", "1e-5", "{}"], ids=brief
)
def test_what_is_no_whole_number_is_no_integer(literal):
    assert_discarded(PERIOD, period(), "people.employees", "employee_count", employees=literal)


@pytest.mark.parametrize(("literal", "value"), [("12.0", 12), ("1e2", 100), ("-0", 0), ("-0.0", 0), ("12.50e1", 125)])
def test_a_whole_number_is_an_integer_however_it_is_written(literal, value):
    row, reasons, _ = one(PERIOD, period(), employees=literal)
    assert (row["employee_count"], reasons) == (value, {})


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
    row, _, observed = one(PERIOD, period(), currentRatio=literal)
    assert row["current_ratio"] == Decimal(value)
    assert observed == ({"rounded_value": "liquidity.currentRatio"} if is_rounded else {})


@pytest.mark.parametrize("literal", ["99999999.99995", "1e8", "1e20", "1" * 30, "340282366920938463463374607431.5"])
def test_a_ratio_too_big_is_discarded(literal):
    reason = assert_discarded(PERIOD, period(), "liquidity.currentRatio", "current_ratio", currentRatio=literal)
    assert "8 digits before the point" in reason


@pytest.mark.parametrize("literal", ["2.000001", "45.0", "100", "1e2"])
def test_a_share_of_more_than_twice_the_whole_is_discarded(literal):
    """A service that states per cent would make every group a hundredfold."""
    reason = assert_discarded(PARENT, party(), "percentage", "stake_fraction", percentage=literal)
    assert "more than 2" in reason


@pytest.mark.parametrize("literal", ["1.000001", "1.2", "2", '"1,2"'])
def test_a_share_a_little_above_the_whole_is_kept(literal):
    """It is an error of rounding or typing, which a check finds; without it the company would lose its owner."""
    row, rejected, _ = one(PARENT, party(), percentage=literal)
    assert (row["stake_fraction"], rejected) == (Decimal(literal.strip('"').replace(",", ".")), {})


@pytest.mark.parametrize("literal", ['"25%"', '"25 %"', '"25,0%"'])
@pytest.mark.parametrize("scale", [1, 100])
def test_a_share_with_a_sign_of_per_cent_has_one_reading(literal, scale):
    contract = ContractSettings(scales={"relationships.stake_fraction": scale})
    read = read_records(*PARENT, [raw(party(), percentage=literal)], contract)
    assert read.frame["stake_fraction"].to_list() == [Decimal("0.25")]


def test_an_example_of_rounding_does_not_fill_the_memory():
    read = read_records(*PARENT, [raw(party(), percentage="1e-999999")] * 50)
    assert all(len(seen.example) < 100 for seen in read.observations)


@examples(100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_score_is_the_nearest_float(value):
    row, _, _ = one(LOOKALIKE, lookalike(), score=repr(value))
    assert row["score"] == value
    assert math.copysign(1, row["score"]) == math.copysign(1, value)


@pytest.mark.parametrize("literal", ["1e400", "-1e400", '"x"', "true", "{}", "9" * 4000], ids=brief)
def test_a_score_that_is_no_number_is_discarded(literal):
    assert_discarded(LOOKALIKE, lookalike(), "score", "score", score=literal)


# --- dates, texts, codes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "literal", ['"2023-02-29"', '"2024-2-3"', '"0000-01-01"', '"2024-01-01T07:30:00Z"', "20240101", "true", '"x"']
)
@pytest.mark.parametrize(("key", "column"), [("endDate", None), ("dateReceived", "date_received")])
def test_a_date_that_is_none_is_discarded_with_its_record_where_it_names_the_period(key, column, literal):
    if column:
        assert_discarded(PERIOD, period(), key, column, **{key: literal})
    else:
        row, reasons, _ = one(PERIOD, period(), **{key: literal})
        assert (row, list(reasons)) == (None, [key])


@pytest.mark.parametrize("literal", ['"0001-01-01"', '"2024-02-29"', '"9999-12-31"'])
def test_a_date_is_a_date(literal):
    row, _, _ = one(PERIOD, period(), endDate=literal)
    assert row["end_date"].isoformat() == json.loads(literal)


@pytest.mark.parametrize("time", ["T00:00:00", "T00:00:00Z", " 00:00:00.000", "T00:00:00.000+02:00", " 17:45"])
def test_a_time_on_a_date_is_the_date(time):
    """Libraries that have no type for dates write them so. With a zone, only midnight is clear."""
    row, reasons, _ = one(PERIOD, period(), endDate=json.dumps(f"2024-02-29{time}"))
    assert (row["end_date"].isoformat(), reasons) == ("2024-02-29", {})


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (PERIOD, "startDate"), (PERIOD, "endDate"), (LOOKALIKE, "country"), (LOOKALIKE, "companyNumber"),
        (LOOKALIKE, "companyId"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_missing", [True, False])
def test_without_what_identifies_it_a_record_says_nothing(kind, key, is_missing):
    record = json.loads(bytes(raw(CLEAN[kind], **{key: "null"})))
    if is_missing:
        for holder in (record, record.get("companyId") or {}):
            holder.pop(key, None)
    row, reasons, _ = one(kind, record)
    assert row is None
    assert "a record without it says nothing" in next(iter(reasons.values()))


@pytest.mark.parametrize("text", ["", " ", "\0", "\n", "é\u2028\U0001f600", 'a"b\\', "x" * 100_000, "null"])
def test_a_text_is_kept_as_it_is(text):
    row, _, _ = one(PARENT, party(name=text))
    assert row["related_name"] == text


def test_codes_keep_their_order_their_zeros_and_their_doubles():
    row, _, _ = one(PERIOD, period(jointCommitteeCodes=["0200", "100", "0200"] + ["7"] * 1000))
    assert row["joint_committee_codes"] == ["0200", "100", "0200"] + ["7"] * 1000


@pytest.mark.parametrize("literal", ["[null]", '["a",null]', "[1]", '"0200"', "{}", '[["0200"]]'])
def test_codes_that_are_no_texts_are_discarded(literal):
    path, column = "jointCommitteeCodes", "joint_committee_codes"
    assert_discarded(PERIOD, period(), path, column, jointCommitteeCodes=literal)


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("literal", ["null", "5", "[]", '"x"', "true"])
def test_a_record_that_is_no_object_is_kept_where_its_shape_is_open(kind, literal):
    read = read_records(*kind, [raw(CLEAN[kind]), Raw(literal.encode())])
    [reject] = read.rejects
    assert (reject.record, reject.path, reject.reason) == (1, "", "an object was expected")
    if DATASETS[kind[0]].groups[kind[1]].is_open:
        assert reject.effect == "value"
        assert read.frame["extra_json"].to_list() == [None, f'{{"value":{literal}}}']
    else:
        assert (reject.effect, read.frame.height) == ("record", 1)


def test_an_object_that_is_none_costs_its_values_alone():
    row, reasons, _ = one(PERIOD, period(), people='"many"')
    assert reasons == {"people": "an object was expected"}
    assert (row["employee_count"], row["revenue"] is not None) == (None, True)
    assert row["extra_json"] == '{"people":"many"}'


@pytest.mark.parametrize("others", [0, 30])
def test_an_empty_array_in_place_of_an_object_is_an_empty_object(others):
    """Some JSON libraries write [] for an object without keys."""
    read = read_records(*PERIOD, [raw(period(), people="[]"), *[raw(period())] * others])
    assert (read.rejects, read.frame["extra_json"].null_count()) == ([], 1 + others)
    assert read.frame["employee_count"].to_list() == [None, *[12] * others]


def test_bytes_that_are_no_text_are_discarded():
    row, reasons, _ = one(PARENT, party(name="\udcff"))
    assert row["related_name"] is None
    assert list(reasons) == ["name"]
    assert json.loads(row["extra_json"])["name"] == '"\ufffd"'


@pytest.mark.parametrize(
    "literal", ['"\\ud800"', '"\\u0000"', "1e1000000", "9" * 4000, "[" * 300 + "]" * 300], ids=brief
)
def test_what_is_kept_is_json_to_a_database(literal):
    """DuckDB refuses half a character, and with it a whole load."""
    row, _, _ = one(PARENT, {**party(), "x": 0}, x=literal, name=literal)
    assert duckdb.sql("SELECT json_valid($1)", params=[row["extra_json"]]).fetchall() == [(True,)]


# --- absent, unknown and elsewhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [field.path for field in DATASETS["financials"].fields.values()])
def test_an_absent_key_is_null(path):
    record, null = period(), period()
    *branches, leaf = path.split(".")
    del (record[branches[0]] if branches else record)[leaf]
    (null[branches[0]] if branches else null)[leaf] = None
    assert one(PERIOD, record) == one(PERIOD, null)
    assert one(PERIOD, record)[2] == {}


@pytest.mark.parametrize("people", [None, {}])
def test_an_object_may_be_null_or_empty_or_absent(people):
    absent = period()
    del absent["people"]
    assert one(PERIOD, period(people=people)) == one(PERIOD, absent)


def test_records_that_leave_out_nulls_or_have_unknown_fields_are_read_together():
    """They cost two to three times what plain ones do; value by value it would be twenty times."""
    sparse = {key: value for key, value in period().items() if key not in ("dateReceived", "liquidity")}
    assert is_fast(PERIOD, [raw(period()), raw(sparse), raw({**period(), "unheardOf": {"a": 1}}), raw(period())])


def test_a_field_nobody_knows_is_kept_as_it_came():
    row, _, observed = one(PERIOD, {**period(people__unheardOf=0), "x": True}, unheardOf='{"a":[1.50,null]}')
    assert row["extra_json"] == '{"x":true,"people.unheardOf":{"a":[1.50,null]}}'
    assert list(observed) == ["new_field"]


@pytest.mark.parametrize(
    "literal", [str(10**30), "1e400", "1e-999999", "9" * 5000, "[" * 300 + "]" * 300, '"\\u0000"'], ids=brief
)
def test_whatever_a_field_nobody_knows_holds_the_record_is_read(literal):
    row, _, observed = one(PARENT, {**party(), "unheardOf": 0}, unheardOf=literal)
    assert observed == {"new_field": "unheardOf"}
    assert row["related_name"] == "Somebody"
    assert row["extra_json"] == f'{{"unheardOf":{literal}}}'


COMPANY = {"country": "BE", "companyNumber": "403227515"}


@pytest.mark.parametrize("kind", [PARENT, ("relationships", "child")])
@pytest.mark.parametrize(
    ("record", "extra"),
    [
        ({"identifier": COMPANY}, None),
        ({"identifier": {"countryCode": "BE", "companyNumber": "403227515"}}, None),
        ({"companyId": COMPANY}, None),
        ({"identifier": None, "companyId": COMPANY}, None),
        ({"companyId": {**COMPANY, "city": "Gent"}}, {"companyId.city": "Gent"}),
        (COMPANY, None),
        ({"countryCode": "BE", "number": "403227515"}, None),
        ({"countryCode": "BE", "companyNumber": "403227515", "since": 2020}, {"since": 2020}),
    ],
)
def test_a_related_company_is_read_wherever_it_stands(kind, record, extra):
    row, reasons, _ = one(kind, record)
    assert (row["related_country"], row["related_company_number"], reasons) == ("BE", "403227515", {})
    assert (row["extra_json"] and json.loads(row["extra_json"])) == extra


def test_an_identifier_goes_before_what_stands_elsewhere():
    row, _, _ = one(PARENT, {**party(), "country": "FR", "number": "5"})
    assert row["related_country"] == party()["identifier"]["country"]
    assert json.loads(row["extra_json"]) == {"country": "FR", "number": "5"}


# --- neighbours ------------------------------------------------------------------------------------------------------


@examples(100)
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
