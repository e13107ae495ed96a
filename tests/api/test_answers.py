"""Splitting an answer into its elements: by company, whatever is wrong with the others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.answers import Element, read_answer
from firmlake.core.errors import UnusableAnswerError
from support import ACME, BOLT, DATASETS, body, examples, found, lookalike, not_found, party, period

IDENTIFIER = {"country": "BE", "companyNumber": "403227515"}
"""ACME's, as failed elements have it: without name and place."""


def read_one(element, dataset="financials"):
    [read] = read_answer(dataset, element if isinstance(element, bytes) else body(element))
    return read


AGAIN = [
    # datasets, the key, its second value in another spelling or not, the key before which that is written
    *((DATASETS, key, again, before) for key, again, before in [
        ("companyNumber", '"companyNumber": "0770493071"', "country"),
        ("country", '"country": "NL"', "country"),
        ("name", '"name": "Another"', "country"),
        ("country", '"c\\u006funtry": "NL"', "country"),
        ("companyNumber", '"company\\u004eumber": "0400378485"', "country"),
        ("name", '"n\\u0061me": "Another"', "country"),
        ("data", '"d\\u0061ta": null', "identifier"),
        ("message", '"message": null, "mess\\u0061ge": null', "identifier"),
        ("identifier", '"\\u0069dentifier": {"country": "BE", "companyNumber": "0400378485"}', "identifier"),
    ]),
    *((["financials"], key, f'"\\u{ord(key[0]):04x}{key[1:]}": 1', "limit") for key in ("limit", "offset", "total")),
    (["relationships"], "parents", '"p\\u0061rents": []', "parents"),
]  # fmt: skip


@pytest.mark.parametrize(("dataset", "key", "again", "before"), [(one, *row) for of, *row in AGAIN for one in of])
def test_an_element_with_a_key_twice_is_not_understood_and_costs_its_neighbour_nothing(dataset, key, again, before):
    """Of two values JSON readers keep the last; then one company's figures would be another's."""
    text = body(found(ACME, dataset)).replace(f'"{before}"'.encode(), f'{again}, "{before}"'.encode(), 1)
    element, neighbour = read_answer(dataset, b"[" + text[1:-1] + b"," + body(found(BOLT, dataset))[1:-1] + b"]")
    assert element.company is None
    assert element.problem.text == f"element not understood: {key} occurs twice"
    assert (neighbour.company, neighbour.problem) == (BOLT, None)
    assert neighbour.records


@pytest.mark.parametrize(
    "name", [rb"Acme \u0022:", rb"Acme \":\":", rb"\u005c\u0022\u003a", b"\xff"], ids=["a", "b", "c", "not UTF-8"]
)
def test_no_text_makes_up_for_a_key_twice(name):
    """A text that counts more once decoded, or an element that lacks a key, must not hide the repeated key."""
    again = b'"company\\u004eumber": "0400378485", "name": "%b", "country"' % name
    text = body({"identifier": IDENTIFIER, "message": "none"}).replace(b'"country"', again, 1)
    assert "companyNumber occurs twice" in read_answer("financials", text)[0].problem.text


def test_a_text_that_looks_like_a_key_is_no_key():
    element = found(ACME, "financials")
    element["identifier"]["name"] = '"country": "identifier"'
    assert read_one(element).name == '"country": "identifier"'
    assert read_one(element).company == ACME


@pytest.mark.parametrize("spelling", ["403227515", "0403227515"])
def test_a_belgian_company_is_known_in_both_spellings(spelling):
    element = found(ACME, "financials")
    element["identifier"]["companyNumber"] = spelling
    assert read_one(element).company == ACME


@pytest.mark.parametrize(
    ("dataset", "record", "group"),
    [
        ("financials", period(), "period"),
        ("lookalikes", lookalike(), "lookalike"),
        ("relationships", party(), "parent"),
    ],
)
def test_records_are_kept_byte_for_byte(dataset, record, group):
    text = body(record)[1:-1].replace(b'"', b' "')  # blanks, as a service might print them
    element = body(found(ACME, dataset, "HERE"))
    read = read_one(element.replace(b'"HERE"', text), dataset)
    assert [bytes(raw) for raw in read.records[group]] == [text.strip()]


def test_a_financial_element_tells_its_total_and_offset():
    read = read_one(found(ACME, "financials", period(), total=17, offset=5))
    assert (read.total, read.offset, read.problem) == (17, 5, None)


def test_parents_in_an_object_whose_keys_are_numbers_are_an_array_with_gaps():
    """PHP writes an array so from which an entry was removed."""
    element = read_one(
        found(ACME, "relationships") | {"data": {"parents": {"1": party(), "3": party()}}}, "relationships"
    )
    assert element.count == 2
    assert not element.problem


def test_parents_and_children_are_kept_apart():
    element = found(ACME, "relationships", party())
    element["data"]["children"] = [party(), party(None)]
    read = read_one(element, "relationships")
    assert {name: len(raws) for name, raws in read.records.items()} == {"parent": 1, "child": 2}


def test_no_records_are_not_no_data():
    assert read_one(found(ACME, "lookalikes"), "lookalikes").records == {"lookalike": []}
    assert read_one(not_found(ACME, "lookalikes"), "lookalikes").records is None


@pytest.mark.parametrize(
    "change", [{}, {"data": None}, {"data": None, "message": None}], ids=["absent", "null", "both"]
)
@pytest.mark.parametrize("dataset", ["financials", "lookalikes", "relationships"])
def test_an_absent_array_of_a_company_with_a_name_is_empty(dataset, change):
    """Only successful results have name and place; some services leave out what is empty, others write null."""
    element = found(ACME, dataset)
    del element["data"], element["message"]
    element |= change
    read = read_one(element, dataset)
    assert (any(read.records.values()), read.problem) == (False, None)
    del element["identifier"]["name"], element["identifier"]["place"]
    read = read_one(element, dataset)
    assert (read.problem is None) == (dataset == "financials"), "there the total says that there is none"


def test_a_name_in_an_untold_charset_is_kept_as_far_as_it_can_be_read():
    text = body(found(ACME, "financials", period())).replace(b"Gent", "Liège".encode("latin-1"))
    assert read_one(text).place == "Li\ufffdge"


def test_a_message_beside_an_empty_array_is_passed_on_with_it():
    read = read_one({**found(ACME, "lookalikes"), "message": "OK"}, "lookalikes")
    assert (read.records, read.message) == ({"lookalike": []}, "OK")


def test_a_message_in_place_of_data_is_passed_on():
    read = read_one(not_found(ACME))
    assert read == Element(ACME, message="Company not found")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"data": None, "identifier": IDENTIFIER}, "neither data nor message"),
        ({"data": None, "identifier": IDENTIFIER, "message": ""}, "neither data nor message"),
        ({"data": {}}, "data not understood"),
        ({"data": "x"}, "data not understood"),
    ],
)
def test_an_element_that_says_nothing_usable_says_why(change, problem):
    read = read_one({**found(ACME, "financials", period()), **change})
    assert read.company == ACME
    assert problem in read.problem.text
    assert read.records is None


@pytest.mark.parametrize("message", ["OK", {"code": 0}, ["done"], 200, True, ""])
def test_a_message_beside_records_costs_nothing_and_is_told(message):
    read = read_one({**found(ACME, "financials", period()), "message": message})
    assert len(read.records["period"]) == 1
    assert read.unknown == (("message",) if message else ())


@pytest.mark.parametrize("message", [{"code": 404}, ["gone"], 404, True])
def test_a_message_in_place_of_data_is_passed_on_whatever_it_is(message):
    assert read_one({**not_found(ACME), "message": message}).message == json.dumps(message, separators=(",", ":"))


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        ({"children": [{}]}, (0, 1)),
        ({"parents": [{}, {}]}, (2, 0)),
        ({"parents": None, "children": None}, (0, 0)),
        ({}, (0, 0)),
        ([], (0, 0)),
        ({"parents": [], "children": [], "siblings": [{}]}, (0, 0)),
        ({"parents": [], "children": {"a": 1}}, (0, 1)),
        ({"parents": [], "children": "none"}, (0, 1)),
    ],
)
def test_relationships_are_read_with_the_arrays_there_are(data, counts):
    """One of an unknown shape is kept as a record of an unknown shape."""
    read = read_one({**found(ACME, "relationships"), "data": data}, "relationships")
    assert read.problem is None
    assert tuple(len(read.records[group]) for group in ("parent", "child")) == counts
    assert read.unknown == (("data.siblings",) if "siblings" in data else ())


@pytest.mark.parametrize("literal", [b"1", b"1.0", b'"1"'])
def test_a_count_is_read_however_it_is_written(literal):
    content = body(found(ACME, "financials", period()))
    read = read_answer("financials", content.replace(b'"total":1', b'"total":' + literal))
    assert (read[0].total, read[0].problem) == (1, None)


@pytest.mark.parametrize(
    "literal", [b"1e1000000", b"9" * 5000, b"-1", b"1.5", b"null", b"{}", b'"many"', b"1e9999999999999"]
)
@pytest.mark.parametrize("key", [b"total", b"offset", b"limit"])
def test_a_count_of_any_size_crashes_nothing(key, literal):
    content = body(found(ACME, "financials", period()))
    value = {b"total": b"1", b"offset": b"0", b"limit": b"5"}[key]
    assert b'"%b":%b' % (key, value) in content
    (read,) = read_answer("financials", content.replace(b'"%b":%b' % (key, value), b'"%b":%b' % (key, literal)))
    assert read.company == ACME
    assert not read.problem
    assert (read.total is None) == (key != b"limit"), "without an offset, a total tells nothing either"


def test_a_company_number_may_be_a_number():
    content = body(found(ACME, "financials", period())).replace(b'"403227515"', b"403227515")
    assert [element.company for element in read_answer("financials", content)] == [ACME]


@pytest.mark.parametrize(
    "broken",
    [
        "null",
        "5",
        "[]",
        "{}",
        '{"identifier":null,"data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":1e1000000},"data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":["0403227515"]},"data":[],"message":null}',
        '{"identifier":"0403227515","data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":"0403227515"},"data":null,"message":"x","\udcff":1}',
    ],
)
def test_a_broken_element_harms_no_other(broken):
    """Among them bytes that are not UTF-8, which are found out only when the text is wanted."""
    good = body(found(BOLT, "financials", period()))[1:-1]
    elements = read_answer("financials", b"[" + broken.encode(errors="surrogateescape") + b"," + good + b"]")
    assert [element.company for element in elements] == [None, BOLT]
    assert elements[0].problem
    assert not elements[1].problem


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"{}",
        b'{"status":500,"message":"Internal server error"}',
        b"<!DOCTYPE html><html></html>",
        b"\xff\xfe[\0]\0",
        b"[" * 2_000_000 + b"]" * 2_000_000,
        body(found(ACME, "financials", period()))[:-40],
        body(found(ACME, "financials", period())) + b"x",
    ],
    ids=["empty", "null", "object", "error", "html", "utf-16", "nested", "cut", "more"],
)
def test_a_body_that_is_no_array_is_refused_as_a_whole(content):
    with pytest.raises(UnusableAnswerError) as caught:
        read_answer("financials", content)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500


def test_a_message_of_the_service_cannot_draw_on_a_terminal():
    read = read_one(not_found(ACME, message="\x1b[2J" + "x" * 1000 + "\n"))
    assert read.message.isprintable()
    assert len(read.message) <= 300


@pytest.mark.parametrize("place", ["", "identifier", "pagination"])
def test_a_field_nobody_knows_is_told_with_its_place(place):
    element = found(ACME, "financials", period())
    (element[place] if place else element)["unheardOf"] = 1
    assert read_one(element).unknown == (f"{place}.unheardOf" if place else "unheardOf",)


def test_an_array_nobody_knows_beside_parents_and_children_is_told():
    element = found(ACME, "relationships")
    element["data"]["siblings"] = []
    assert read_one(element, "relationships").unknown == ("data.siblings",)


def test_fields_inside_records_are_left_to_the_tables():
    assert read_one(found(ACME, "financials", {**period(), "unheardOf": 1})).unknown == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(found(ACME, "financials"))), inner)
    ),
    max_leaves=8,
)


@examples(60)
@given(dataset=st.sampled_from(["financials", "lookalikes", "relationships"]), parts=st.lists(JSON, max_size=4))
def test_any_array_is_split_into_as_many_elements(dataset, parts):
    assert len(read_answer(dataset, json.dumps(parts).encode())) == len(parts)


@examples(100)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_an_answer_or_refused(content):
    try:
        read_answer("relationships", content)
    except UnusableAnswerError:
        return
    assert content.strip().startswith(b"[")


@pytest.mark.parametrize("number", ["00555008200014", "14005550082", "unknown"])
def test_an_identifier_of_another_form_is_named(number):
    """SIRET and VAT number are none of the numbers of the specification."""
    text = json.dumps([{"identifier": {"country": "FR", "companyNumber": number}, "data": [], "message": None}])
    [element] = read_answer("lookalikes", text.encode())
    assert (element.company, element.problem.text) == (None, f"'FR {number}' is no company number of the specification")
