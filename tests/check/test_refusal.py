"""What is understood of a refusal, in the forms that services give it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.exchange import Answer
from firmlake.api.judge import read_lines
from firmlake.api.requests import Request
from firmlake.check.examples import find_bounds, suggest_names
from firmlake.check.talk import pagination

OURS = {"companies": "companies", "country": "countryCode", "company_number": "companyNumber"}
PAGE = {"limit": "limit", "offset": "offset"}


def body(content: object) -> bytes:
    return json.dumps(content).encode()


REFUSALS: dict[str, tuple[object, dict[str, str]]] = {
    "in words": (
        {"message": "unknown property 'companyNumber', expected 'number'"},
        {"company_number": "number"},
    ),
    "as a question": ({"message": "Unknown field countryCode. Did you mean 'country'?"}, {"country": "country"}),
    "a name unlike ours": ({"message": "unknown 'companyNumber', expected 'ref'"}, {"company_number": "ref"}),
    "class-validator": (
        {"message": ["companies.0.property companyNumber should not exist", "companies.0.number must be a string"]},
        {"company_number": "number"},
    ),
    "pydantic": (
        {
            "detail": [
                {"type": "missing", "loc": ["body", "companies", 0, "country"], "msg": "Field required"},
                {"loc": ["body", "companies", 0, "countryCode"], "msg": "Extra inputs are not permitted"},
            ]
        },
        {"country": "country"},
    ),
    "ajv": (
        {"errors": [{"instancePath": "/companies/0", "message": "must have required property 'registrationNumber'"}]},
        {"company_number": "registrationNumber"},
    ),
    "ASP.NET": (
        {"title": "Validation errors", "errors": {"Identifiers": ["The Identifiers field is required."]}},
        {"companies": "Identifiers"},
    ),
    "Jackson": (
        {"message": 'Unrecognized field "companyNumber", not ignorable (2 known properties: "number", "country"])'},
        {"company_number": "number", "country": "country"},
    ),
    "Django REST": (
        {"companies": [{"country_code": ["This field is required."], "company_number": ["This field is required."]}]},
        {"country": "country_code", "company_number": "company_number"},
    ),
    "Django REST, the array": ({"identifiers": ["This field is required."]}, {"companies": "identifiers"}),
    "Elasticsearch": (
        {"error": {"reason": "Validation Failed: 1: no [ids] to get;"}, "status": 400},
        {"companies": "ids"},
    ),
    "the array of ids": ({"message": "companyIds: must not be null"}, {"companies": "companyIds"}),
    "no reason": ({"status": 400, "message": "Bad request"}, {}),
    "another reason": ({"message": "'companies' must not contain more than 20 entries"}, {}),
}


@pytest.mark.parametrize(("refusal", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_the_name_that_is_expected_is_found(refusal: object, expected: dict[str, str]) -> None:
    assert suggest_names(read_lines(body(refusal)), OURS) == expected


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ({"message": ["property limit should not exist", "property offset should not exist"]}, {}),
        ({"message": "parameter pageSize is required"}, {"limit": "pageSize"}),
        ({"detail": [{"loc": ["query", "skip"], "msg": "Field required"}]}, {"offset": "skip"}),
        ({"message": "page must be a number"}, {}),
    ],
)
def test_paging_names_are_found_where_a_number_of_a_page_is_not_taken_for_an_offset(
    refusal: object, expected: dict[str, str]
) -> None:
    assert suggest_names(read_lines(body(refusal)), PAGE) == expected


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("limit must not be greater than 100", 500, [100]),
        ("101 companies, but a request may have at most 100", 101, [100]),
        ("2 companies x limit 500 is more than 500 records: send fewer companies or a smaller limit", 1000, [500, 2]),
        ("Input should be less than or equal to 250 (v1.2, request 7f00-12ab)", 500, [250]),
        ("Bad request", 500, []),
    ],
)
def test_the_bound_is_the_largest_number_below_what_was_asked(text: str, asked: int, expected: list[int]) -> None:
    assert find_bounds(read_lines(body({"message": text})), asked) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON)
def test_any_body_can_be_read_and_never_suggests_a_name_of_ours(content: object) -> None:
    lines = read_lines(body(content))
    for role, name in suggest_names(lines, OURS | PAGE).items():
        assert name != (OURS | PAGE)[role]
    assert all(0 < bound < 500 for bound in find_bounds(lines, 500))


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(content: bytes) -> None:
    suggest_names(read_lines(content), OURS)


def test_a_word_of_a_megabyte_is_read_at_once_and_becomes_no_name():
    lines = read_lines(body({"message": f"unknown 'companyNumber', expected '{'number' * 200_000}'"}))
    assert suggest_names(lines, OURS) == {}


@pytest.mark.parametrize("path", ["companies[0].number", "$.companies[0].number", "[0].number", "0.number"])
def test_the_last_part_of_a_path_is_the_name(path):
    assert suggest_names([f"{path} must be a string"], OURS) == {"company_number": "number"}


@pytest.mark.parametrize("limit", [0, -5, "1" * 5_000])
def test_a_page_size_that_is_none_is_not_read_as_one(limit):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    content = body([{"identifier": {}, "pagination": {"limit": limit, "offset": 0}}])
    answer = Answer(Request("financials", "POST", "/"), 1, 200, "", {}, content, now, 0.1, len(content))
    assert not pagination(answer).get("limit")
