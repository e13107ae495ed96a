"""The words of a refusal are found in whatever shape a service gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api import requests
from firmlake.api.exchange import Answer
from firmlake.api.judge import read_lines, read_message
from firmlake.core.settings import ApiSettings
from support import ACME, NOON

REQUEST = requests.bulk(ApiSettings(), "lookalikes", [ACME])


def answer(content: Any, status: int = 400, kind: str = "application/json") -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Answer(REQUEST, 1, status, "", {"content-type": kind}, body, NOON, 0.1, len(body))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"status": 400, "message": "too many", "error": "Bad Request"}, "too many"),
        ({"message": ["a must be text", "b is missing"], "error": "Bad Request"}, "a must be text; b is missing"),
        ({"error": {"code": "E7", "message": "limit is required"}}, "limit is required"),
        ({"status": "error", "errors": ["no such year", "no such year"]}, "no such year"),
        ({"errors": [{"code": 7, "message": "too many"}, {"message": "too old"}]}, "too many; too old"),
        ({"errors": [{"path": "/limit", "message": "must be number"}]}, "limit must be number"),
        ({"error": {"type": "parse", "reason": "no [ids]"}, "status": 400}, "no [ids]"),
        ({"title": "Validation", "errors": {"Items": ["Items is required."]}}, "Items: Items is required."),
        ({"detail": [{"loc": ["query", "limit"], "msg": "Field required"}]}, "query.limit Field required"),
        ({"limit": ["A number is required."]}, "limit: A number is required."),
        ({"error": {}, "detail": "gone"}, "gone"),
        ([], ""),
        (7, ""),
    ],
)
def test_the_message_is_found_in_lists_and_objects(content: object, message: str) -> None:
    assert read_message(answer(content)) == message


def test_a_body_without_a_known_key_is_a_message_only_where_frameworks_list_wrong_fields() -> None:
    """Anywhere else it would make a bare 404, which means a wrong address, a refusal of the request."""
    assert read_message(answer({"path": "/v1/x", "trace": "7f"}, status=404)) == ""
    assert read_message(answer({"fout": "te veel"}, status=400)) == "te veel"


def test_text_is_a_message_and_a_page_is_none() -> None:
    assert read_message(answer(b"slow down\r\n", kind="text/plain; charset=utf-8")) == "slow down"
    assert read_message(answer(b"<h1>Bad</h1>", kind="text/html")) == ""


def test_a_map_from_field_to_sentences_names_the_field() -> None:
    refused = {"companies": [{"country_code": ["This field is required."]}], "limit": ["Too large."]}
    assert read_lines(json.dumps(refused).encode()) == [
        "companies.country_code: This field is required.",
        "limit: Too large.",
    ]
    assert read_lines(b'{"errors": {"limit": "must be at most 50"}}') == ["limit: must be at most 50"]
    assert read_lines(b'{"message": ["limit is too large"], "error": "Bad Request"}') == [
        "limit is too large",
        "Bad Request",
    ]


def test_a_page_of_html_and_a_plain_text_are_read_as_lines() -> None:
    assert read_lines(b"<html><title>400</title><p>limit must be at most 50</p></html>") == [
        "400 limit must be at most 50"
    ]
    assert read_lines(b"Bad Request\r\n\r\nunknown field 'limit'") == ["Bad Request", "unknown field 'limit'"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["errors", "message", "path"]), inner),
)


@given(_JSON)
def test_any_body_is_read_as_one_short_line(content: object) -> None:
    message = read_message(answer(content))
    assert len(message) <= 201
    assert message.isprintable()
