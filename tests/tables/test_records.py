"""Reading records: a value is exact or discarded, and no record changes another's row."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections import Counter
from datetime import date
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
from firmlake.tables.records import read_records
from support import ACME, CIRC, examples, lookalike, party, period, slow

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


def exactly(kind, raws, *contract):
    """Read value by value alone."""
    with patch.object(records, "may_be_regular", return_value=False):
        return read_records(*kind, raws, *contract)


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


# --- memory and repeated keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PERIOD, *slow((LOOKALIKE,), (PARENT,))])
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


@pytest.mark.parametrize(("mark", "number"), [(".", "591.240"), (",", "591.240"), (".", "5.5"), (",", "5.5")])
def test_a_setting_tells_decimals_from_thousands(mark, number):
    """A text with the other mark is no number."""
    texts = [number.replace(".", each) for each in (mark, *{".", ","} - {mark})]
    records = [raw(period(), revenue=f'"{text}"') for text in texts]
    read = read_records(*PERIOD, records, ContractSettings(decimal_mark=mark))
    assert read.frame["revenue"].to_list() == [Decimal(number), None]
    assert [(reject.record, reject.path) for reject in read.rejects] == [(1, "profitability.revenue")]


# --- single values ---------------------------------------------------------------------------------------------------

REVENUE, RATIO = (PERIOD, "profitability.revenue", "revenue"), (PERIOD, "liquidity.currentRatio", "current_ratio")
EMPLOYEES, RECEIVED = (PERIOD, "people.employees", "employee_count"), (PERIOD, "dateReceived", "date_received")
ENDED, CODES = (PERIOD, "endDate", "end_date"), (PERIOD, "jointCommitteeCodes", "joint_committee_codes")
MEN = (PERIOD, "people.employeeMaleRatio", "employee_male_fraction")
SCORE, STAKE, NAME = (
    (LOOKALIKE, "score", "score"),
    (PARENT, "percentage", "stake_fraction"),
    (PARENT, "name", "related_name"),
)
LEAP = date(2024, 2, 29)
LONG = "8109058.5200000000000000000001"

# The field, the literal, its value, and what is said of it.
KEPT = [
    *((field, '"1"', 1, "text_for_number") for field in (REVENUE, RATIO, MEN, EMPLOYEES, SCORE, STAKE)),
    *((field, '""', None, "empty_text") for field in (REVENUE, RECEIVED)),
    *(
        (REVENUE, json.dumps(text), Decimal(number), "text_for_number")
        for text, number in {
            "8109058,52": "8109058.52", "-0,5": "-0.5", "1000.500": "1000.500", "1.234E+6": "1.234E+6",
        }.items()
    ),
    # Where thousands are hardly ever reached, a point stands before decimals; of shares a comma too.
    *((field, '"1.234"', Decimal("1.234"), "text_for_number") for field in (RATIO, STAKE)),
    (STAKE, '"1,234"', Decimal("1.234"), "text_for_number"),
    (SCORE, '"1.234"', 1.234, "text_for_number"),
    *(
        (REVENUE, literal, Decimal(literal), None)
        for literal in (
            "9999999999999999.99", "-9999999999999999.99", "1e15", "-0", "0.10", "7.000", "1E+2", "1.5e1", "0e999999",
        )
    ),
    # A service that computes with floats sends amounts less than a hundredth of a cent from a cent.
    *(
        (REVENUE, literal, Decimal("8109058.52"), "rounded_value")
        for literal in (
            "8109058.519999", "8109058.520000001", "8109058.519999999552965164184570312500", LONG,
        )
    ),
    (REVENUE, "0.1" + "0" * 20 + "1", Decimal("0.10"), "rounded_value"),
    (REVENUE, '"8109058.520000001"', Decimal("8109058.52"), "rounded_value"),
    *((EMPLOYEES, *whole, None) for whole in (("12.0", 12), ("1e2", 100), ("-0.0", 0), ("12.50e1", 125))),
    *((RATIO, literal, Decimal("1.2345"), None) for literal in ("1.2345", "1.23450")),
    *(
        (RATIO, literal, Decimal(value), "rounded_value")
        for literal, value in {
            "1.00005": "1.0000", "1.00015": "1.0002", "-1.00015": "-1.0002", "0.30000000000000004": "0.3",
            "1e-999999": "0", "99999999.99994": "99999999.9999",
        }.items()
    ),
    *((RECEIVED, f'"{text}"', date(2024, 12, 31), None) for text in ("31.12.2024", "31/12/2024", "12-31-2024")),
    # The same day in UTC, in Brussels and before 1970, as OData 2 writes times.
    (RECEIVED, '"/Date(1735603200000)/"', date(2024, 12, 31), None),
    (RECEIVED, r'"\/Date(1735599600000+0100)\/"', date(2024, 12, 31), None),
    (RECEIVED, '"/Date(-86400000)/"', date(1969, 12, 31), None),
    (RECEIVED, '"5/05/2024"', date(2024, 5, 5), None),
    # A share a little above the whole is an error of rounding or typing, which a check finds.
    *((STAKE, literal, Decimal(literal), None) for literal in ("1.000001", "1.2", "2")),
    (STAKE, '"1,2"', Decimal("1.2"), "text_for_number"),
    *((STAKE, literal, Decimal("0.25"), "text_for_number") for literal in ('"25%"', '"25 %"', '"25,0%"')),
    *((ENDED, f'"{day}"', date.fromisoformat(day), None) for day in ("0001-01-01", "2024-02-29", "9999-12-31")),
    *((ENDED, f'"{day}"', LEAP, None) for day in ("29.02.2024", "2024/02/29", "2024.02.29", "20240229")),
    # Libraries that have no type for dates write a time.
    *(
        (ENDED, f'"2024-02-29{time}"', LEAP, None)
        for time in (
            "T00:00:00", "T00:00:00Z", " 00:00:00.000", "T00:00:00.000+02:00", " 17:45", "T10:33:21.123Z",
            "t23:59:59z", "T22:30:00Z", "T23:00:00+01:00", "T08:15:00-0500",
        )
    ),
    *(
        (NAME, json.dumps(text), text, None)
        for text in ("", " ", "\0", "\n", "\u00e9\u2028\U0001f600", 'a"b\\', "x" * 100_000, "null")
    ),
    (CODES, json.dumps(["0200", "100", "0200"] + ["7"] * 1000), ["0200", "100", "0200"] + ["7"] * 1000, None),
]  # fmt: skip

NUMBER, WHOLE = "a number was expected", "whole number"
# The field, the literals that are discarded, and why.
DISCARDED = [
    (
        REVENUE, NUMBER,
        [f'"{text}"' for text in (" 1", "1 ", "+1", "01", "1.", ".5", "1,", "1 00", "0x1", "NaN", "one", "1\\n")],
    ),
    (REVENUE, "it may be decimals or thousands", [f'"{text}"' for text in ("591.240", "591,240", "1.000", "-1.000")]),
    (
        REVENUE, NUMBER,
        [f'"{text}"' for text in ("591,240.50", "591.240,50", "1.591.240", "1 234,5", "1'234.50", "01,5", "1,5E3")],
    ),
    *((field, "", ['"1,234"']) for field in (RATIO, SCORE)),
    (REVENUE, "", ["8109058.5199", "8109058.5201", "8109058.525", "0.001", "10000000000000000", "-10000000000000000",
                   "99999999999999999", "1e16", "1e1000000", "-1e1000000", "1e99999999999999999999",
                   "1e-99999999999999999999", "9" * 4000, "0.0001" + "0" * 4000 + "1"]),
    (EMPLOYEES, "", ["12.5", "1e400", '"5x"', "true", "[5]", "9" * 5000, "1e1000000", "1e-5", "{}"]),
    (RATIO, "8 digits before the point",
     ["99999999.99995", "1e8", "1e20", "1" * 30, "340282366920938463463374607431.5"]),
    (STAKE, "more than 2", ["2.000001", "45.0", "100", "1e2"]),  # else every group would be a hundredfold
    (SCORE, "", ["1e400", "-1e400", '"x"', "true", "{}", "9" * 4000]),
    (RECEIVED, "", ['"2023-02-29"', '"2024-2-3"', '"0000-01-01"', '"2024-01-01T23:00:00Z"',
                    '"2024-06-01T22:00:00.000+00:00"', "20240101", "true", '"x"', '"31/13/2024"', '"03/04-2024"',
                    '"2024/02-29"', '"12.31.2024"', '"31122024"', '"/Date(1735596000000)/"',
                    '"/Date(17355960000000)/"', '"/Date()/"',
                    '"/Date(1735603200000+9900)/"', '"/Date(1735603200000+0199)/"']),
    (RECEIVED, "day or with the month", ['"03/04/2024"', '"03-04-2024"', '"3/4/2024"', '"12/11/2024"']),
    (CODES, "", ["[null]", '["a",null]', "[1]", '"0200"', "{}", '[["0200"]]']),
]  # fmt: skip


@pytest.mark.parametrize(("field", "literal", "value", "said"), KEPT)
def test_a_value_that_has_one_reading_is_kept_and_an_odd_spelling_is_said(field, literal, value, said):
    kind, path, column = field
    row, reasons, seen = one(kind, CLEAN[kind], **{path.rpartition(".")[2]: literal})
    assert (row[column], reasons, row["extra_json"]) == (value, {}, None)
    assert said is None or seen[said] == path
    assert said is not None or seen == {}


@pytest.mark.parametrize(
    ("field", "reason", "literal"),
    [(field, why, literal) for field, why, literals in DISCARDED for literal in literals],
)
def test_a_value_with_two_readings_or_none_is_discarded_alone_and_kept_as_it_came(field, reason, literal):
    kind, path, column = field
    told = assert_discarded(kind, CLEAN[kind], path, column, **{path.rpartition(".")[2]: literal})
    assert reason in told
    assert len(told) < 200


@pytest.mark.parametrize("literal", ['"2023-02-29"', "20240101", "true"])
def test_a_date_that_names_the_period_takes_its_record_along(literal):
    row, reasons, _ = one(PERIOD, period(), endDate=literal)
    assert (row, list(reasons)) == (None, ["endDate"])


@pytest.mark.parametrize("kind", [LOOKALIKE, PARENT])
def test_a_company_number_may_be_an_integer(kind):
    row, reasons, seen = one(kind, CLEAN[kind], companyNumber="403227515")
    column = "lookalike_company_number" if kind is LOOKALIKE else "related_company_number"
    assert (row[column], reasons, list(seen)) == ("403227515", {}, ["number_for_text"])


def test_a_share_with_a_sign_of_per_cent_is_not_scaled_again():
    contract = ContractSettings(scales={"relationships.stake_fraction": 100})
    assert read_records(*PARENT, [raw(party(), percentage='"25%"')], contract).frame["stake_fraction"][0] == Decimal(
        "0.25"
    )


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


@examples(100)
@given(st.integers(-(2**65), 2**65) | st.integers(-(10**40), 10**40))
def test_an_integer_is_exact_or_discarded(value):
    row, reasons, _ = one(PERIOD, period(), employees=str(value))
    is_int64 = -(2**63) <= value < 2**63
    assert row["employee_count"] == (value if is_int64 else None)
    assert list(reasons) == ([] if is_int64 else ["people.employees"])


def test_an_example_of_rounding_does_not_fill_the_memory():
    read = read_records(*PARENT, [raw(party(), percentage="1e-999999")] * 50)
    assert all(len(seen.example) < 100 for seen in read.observations)


@examples(100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_score_is_the_nearest_float(value):
    row, _, _ = one(LOOKALIKE, lookalike(), score=repr(value))
    assert row["score"] == value
    assert math.copysign(1, row["score"]) == math.copysign(1, value)


# --- dates, texts, codes ---------------------------------------------------------------------------------------------


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


def test_a_field_nobody_knows_is_kept_as_it_came():
    row, _, observed = one(PERIOD, {**period(people__unheardOf=0), "x": True}, unheardOf='{"a":[1.50,null]}')
    assert row["extra_json"] == '{"x":true,"people.unheardOf":{"a":[1.50,null]}}'
    assert list(observed) == ["new_field"]


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
    assert (row["related_country"], row["related_company_number"].zfill(10), reasons) == ("BE", "0403227515", {})
    assert (row["extra_json"] and json.loads(row["extra_json"])) == extra


@pytest.mark.parametrize(("order", "read"), [("day", ["2024-04-03", None]), ("month", ["2024-03-04", "2024-12-31"])])
def test_a_setting_says_what_comes_first_in_dates(order, read):
    records = [raw(CLEAN[PERIOD], dateReceived=f'"{day}"') for day in ("03/04/2024", "12/31/2024")]
    frame = read_records(*PERIOD, records, ContractSettings(date_order=order)).frame
    assert [day and str(day) for day in frame["date_received"]] == read


@pytest.mark.parametrize(
    ("company", "moved", "extra"),
    [
        ({"country": "BE", "number": "403227515"}, "number", None),
        ({"country": "be", "nr": 403227515, "since": "2020"}, "nr", {"companyId.since": "2020"}),
        ({"land": "BE", "kbo": "0403.227.515", "name": "Acme"}, "land, companyId.kbo", {"companyId.name": "Acme"}),
        ({"id": "BE0403227515"}, "id", None),
        ({"country": "NL", "old": "26123581", "new": "26123582"}, "", None),
        ({"country": "NL", "phone": "+31 20 123"}, "", None),
    ],
)
def test_a_company_under_other_keys_is_read_if_its_values_name_one_company_only(company, moved, extra):
    read = read_records("lookalikes", "lookalike", [Raw(json.dumps({"companyId": company, "score": 0.5}).encode())])
    row = {"lookalike_country": "BE", "lookalike_company_number": "0403227515"}
    assert [each.items() >= row.items() for each in read.frame.to_dicts()] == [True] * bool(moved)
    assert [each.path for each in read.observations if each.kind == "other_place"] == [f"companyId.{moved}"] * bool(
        moved
    )
    assert [json.loads(each["extra_json"] or "null") for each in read.frame.to_dicts()] == [extra] * bool(moved)
    assert [reject.reason_code for reject in read.rejects] == ["missing"] * (not moved)


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


@pytest.mark.parametrize("bad", [[], [0], [1023], [1024], [127, 128], [2000], list(range(1000, 2000))])
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
