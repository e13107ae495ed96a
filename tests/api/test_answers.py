"""Splitting an answer into its elements: by company, whatever is wrong with the others."""

import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.answers import Element, read_answer, repaired
from firmlake.core.errors import UnusableAnswerError
from support import ACME, BOLT, DATASETS, body, examples, found, lookalike, not_found, party, period, slow

IDENTIFIER = {"country": "BE", "companyNumber": "403227515"}
"""ACME's, as failed elements have it: without name and place."""
RECORDS = {"financials": (period(), "period"), "lookalikes": (lookalike(), "lookalike"),
           "relationships": (party(), "parent")}  # fmt: skip


def read_one(element, dataset="financials"):
    [read] = read_answer(dataset, element if isinstance(element, bytes) else body(element))
    return read


def element_of(dataset="financials", *records, **changes):
    """Give ACME's element with changes; `identifier__name=...` changes a member of an object, None removes it."""
    element = found(ACME, dataset, *records)
    for path, value in changes.items():
        *above, key = path.split("__")
        holder = element[above[0]] if above else element
        holder.pop(key, None)
        if value is not None:
            holder[key] = value
    return element


# --- a key twice -----------------------------------------------------------------------------------------------------

AGAIN = [
    # datasets, the key, its second value in another spelling or not, the key before which that is written
    *((DATASETS, key, again, before) for key, again, before in [
        ("companyNumber", '"companyNumber": "0770493071"', "country"),
        ("country", '"country": "NL"', "country"),
        ("name", '"name": "Another"', "country"),
        ("country", '"c\\u006funtry": "NL"', "country"),
        ("companyNumber", '"company\\u004eumber": "0400378485"', "country"),
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
    read = read_one(element_of(identifier__name='"country": "identifier"'))
    assert (read.name, read.company) == ('"country": "identifier"', ACME)


# --- one element -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS)
def test_records_are_kept_byte_for_byte(dataset):
    record, group = RECORDS[dataset]
    text = body(record)[1:-1].replace(b'"', b' "')  # blanks, as a service might print them
    read = read_one(body(found(ACME, dataset, "HERE")).replace(b'"HERE"', text), dataset)
    assert [bytes(raw) for raw in read.records[group]] == [text.strip()]


READ = {
    # an element of financials -> what is read of it
    "ten digits": (element_of(identifier__companyNumber="0403227515"), {"company": ACME}),
    "nine digits": (element_of(identifier__companyNumber="403227515"), {"company": ACME}),
    "a number": (element_of("financials", period(), identifier__companyNumber=403227515), {"company": ACME}),
    "total and offset": (found(ACME, "financials", period(), total=17, offset=5), {"total": 17, "offset": 5}),
    "a total as text": (element_of("financials", period(), pagination__total="1"), {"total": 1}),
    "a total with a point": (element_of("financials", period(), pagination__total=1.0), {"total": 1}),
    "no records": (element_of(), {"records": {"period": []}}),
    "no data": (not_found(ACME), {"records": None, "message": "Company not found"}),
    "a message beside an empty array": (element_of(message="OK"), {"records": {"period": []}, "message": "OK"}),
    "a field nobody knows": (element_of(unheardOf=1), {"unknown": ("unheardOf",)}),
    "one of the identifier": (element_of(identifier__unheardOf=1), {"unknown": ("identifier.unheardOf",)}),
    "one of the pagination": (element_of(pagination__unheardOf=1), {"unknown": ("pagination.unheardOf",)}),
    "one of a record": (element_of("financials", {**period(), "unheardOf": 1}), {"unknown": ()}),
    **{
        f"records and the message {message!r}": (
            element_of("financials", period(), message=message),
            {"count": 1, "message": None, "unknown": ("message",) if message else ()},
        )
        for message in ("OK", {"code": 0}, ["done"], 200, True)
    },
    **{
        f"no data and the message {message!r}": (
            {**not_found(ACME), "message": message}, {"message": json.dumps(message, separators=(",", ":"))},
        )
        for message in ({"code": 404}, ["gone"], 404, True)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_an_element_is_read_as_far_as_it_can_be(name):
    element, expected = READ[name]
    read = read_one(element)
    assert read.problem is None
    assert {key: getattr(read, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        ({"parents": [party()], "children": [party(), party(None)]}, (1, 2)),
        ({"children": [{}]}, (0, 1)),
        ({"parents": [{}, {}]}, (2, 0)),
        ({"parents": {"1": party(), "3": party()}}, (2, 0)),  # PHP writes an array so from which an entry was removed
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


def test_nothing_else_is_read_of_a_company_that_is_not_found():
    assert read_one(not_found(ACME)) == Element(ACME, message="Company not found")


@pytest.mark.parametrize(
    "change", [{}, {"data": None}, {"data": None, "message": None}], ids=["absent", "null", "both"]
)
@pytest.mark.parametrize("dataset", DATASETS)
def test_an_absent_array_of_a_company_with_a_name_is_empty(dataset, change):
    """Only successful results have name and place; some services leave out what is empty, others write null."""
    element = found(ACME, dataset)
    del element["data"], element["message"]
    element |= change
    read = read_one(element, dataset)
    assert (any(read.records.values()), read.problem) == (False, None)
    del element["identifier"]["name"], element["identifier"]["place"]
    assert (read_one(element, dataset).problem is None) == (dataset == "financials"), "there the total is 0"


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
    assert (read.company, read.records) == (ACME, None)
    assert problem in read.problem.text


@pytest.mark.parametrize("number", ["00555008200014", "14005550082", "unknown"])
def test_an_identifier_of_another_form_is_named(number):
    """SIRET and VAT number are none of the numbers of the specification."""
    element = read_one({"identifier": {"country": "FR", "companyNumber": number}, "data": [], "message": None})
    assert (element.company, element.problem.text) == (None, f"'FR {number}' is no company number of the specification")


@pytest.mark.parametrize(
    "literal", [b"1e1000000", b"9" * 5000, b"-1", b"1.5", b"null", b"{}", b'"many"', b"1e9999999999999"]
)
@pytest.mark.parametrize("key", [b"total", b"offset", b"limit"])
def test_a_count_of_any_size_crashes_nothing(key, literal):
    content = body(found(ACME, "financials", period()))
    before = b'"%b":%b' % (key, {b"total": b"1", b"offset": b"0", b"limit": b"5"}[key])
    assert before in content
    read = read_one(content.replace(before, b'"%b":%b' % (key, literal)))
    assert (read.company, read.problem) == (ACME, None)
    assert (read.total is None) == (key != b"limit"), "without an offset, a total tells nothing either"


def test_texts_of_the_service_cannot_draw_on_a_terminal_and_are_kept_as_far_as_they_can_be_read():
    read = read_one(not_found(ACME, message="\x1b[2J" + "x" * 1000 + "\n"))
    assert (read.message.isprintable(), len(read.message) <= 300) == (True, True)
    assert read_one(body(found(ACME, "financials")).replace(b"Gent", "Liège".encode("latin-1"))).place == "Li\ufffdge"


# --- a whole answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        "null", "5", "[]", "{}",
        '{"identifier":null,"data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":1e1000000},"data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":["0403227515"]},"data":[],"message":null}',
        '{"identifier":"0403227515","data":[],"message":null}',
        '{"identifier":{"country":"BE","companyNumber":"0403227515"},"data":null,"message":"x","\udcff":1}',
    ],
)  # fmt: skip
def test_a_broken_element_harms_no_other(broken):
    """Among them bytes that are not UTF-8, which are found out only when the text is wanted."""
    good = body(found(BOLT, "financials", period()))[1:-1]
    elements = read_answer("financials", b"[" + broken.encode(errors="surrogateescape") + b"," + good + b"]")
    assert [(one.company, bool(one.problem)) for one in elements] == [(None, True)] * (broken != "null") + [
        (BOLT, False)
    ]


NO_ARRAYS = {
    "empty": b"",
    "null": b"null",
    "object": b"{}",
    "error": b'{"status":500,"message":"Internal server error"}',
    "html": b"<!DOCTYPE html><html></html>",
    "utf-16": b"\xff\xfe[\0]\0",
    "nested": b"[" * 2_000_000 + b"]" * 2_000_000,
    "cut": body(found(ACME, "financials", period()))[:-40],
    "more": body(found(ACME, "financials", period())) + b"x",
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_a_body_that_is_no_array_is_refused_as_a_whole(name):
    with pytest.raises(UnusableAnswerError) as caught:
        read_answer("financials", NO_ARRAYS[name])
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(found(ACME, "financials"))), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(
    ("wrapped", "count"),
    [
        ('{"data": %s}', 2),
        ('\n{"success": true, "result": %s, "count": 2, "meta": {"identifier": 1}}', None),
        ('{"success": true, "result": %s, "count": 2, "meta": {"page": [1]}}', 2),
        ('{"success": true, "result": [], "count": 0}', 0),
        ('{"data": [], "message": "Quota exceeded"}', None),
        ('{"data": [], "error": {"code": 4}}', None),
        ('{"data": %s, "items": %s}', None),
        ('{"data": %s, "data": []}', None),
        ('{"status": "success", "data": {"items": %s, "page": {"size": 2}}}', 2),
        ('{"d": {"results": []}}', 0),
        ('{"data": {"items": [], "message": "Quota exceeded"}}', None),
        ('{"data": {"items": %s}, "more": %s}', None),
        ('{"data": {"result": {"items": %s}}}', None),
    ],
)
def test_what_is_wrapped_in_an_object_is_read_if_it_holds_no_other(dataset, wrapped, count):
    elements = body(found(ACME, dataset), found(BOLT, dataset)).decode()
    content = wrapped.replace("%s", elements).encode()
    if count is None:
        with pytest.raises(UnusableAnswerError):
            read_answer(dataset, content)
    else:
        assert [each.company for each in read_answer(dataset, content)] == [ACME, BOLT][:count]
        single = body(found(ACME, dataset)).decode()[1:-1]
        assert [each.company for each in read_answer(dataset, wrapped.replace("%s", single).encode())] == [ACME][:count]


@examples(60)
@given(dataset=st.sampled_from(DATASETS), parts=st.lists(JSON, max_size=4))
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


# --- values that JSON has none of ------------------------------------------------------------------------------------


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
    element = read_one(
        body(found(ACME, "relationships", party(name="NAME"))).replace(b"NAME", name.encode()), "relationships"
    )
    half = re.compile("[\ud800-\udfff]")
    [record] = element.records["parent"]
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
@pytest.mark.slow
def test_a_hostile_body_costs_no_more_memory_than_copies_of_it(hostile):
    text = b"[" + hostile * 50_000 + b"NaN]"
    tracemalloc.start()
    repaired(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * len(text)
