"""Read the message of a refusal, whatever its shape.

Services express a refusal in many ways: a sentence, a list of sentences, a map from field to sentences, a path of keys
with a sentence. All of these are flattened to lines of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from firmlake.api.exchange import Answer
from firmlake.core.text import one_line

__all__ = ["MESSAGE_KEYS", "MESSAGE_LENGTH_MAX", "read_lines", "read_message"]

MESSAGE_LENGTH_MAX = 200
MESSAGE_KEYS = ("message", "errors", "error", "detail", "msg", "reason", "title")
"""Keys of error messages, the most specific first. The first is in docs/service_gaps.md, "whole-request errors";
frameworks and gateways use the others."""
_BY_FIELD = (400, 422)
"""Statuses for which some frameworks send only a map from fields to sentences."""

_TAG = re.compile(r"<[^>]*>")
_PATHS = ("loc", "path", "field", "property", "instancePath", "pointer", "source", "param", "parameter")
_MAPS = ("errors", "fieldErrors", "violations", "fields")
_NO_FIELD = re.compile("messages?|msg|errors?|.*_errors|details?|reasons?|title|description|hints?|violations|fields")
"""Keys that hold sentences or the errors of fields, but are not fields themselves."""


def read_lines(body: bytes) -> list[str]:
    """Flatten the body of a refusal of any shape to lines of text.

    Example:
        >>> read_lines(b'{"detail": [{"loc": ["body", "limit"], "msg": "Field required"}]}')
        ['body.limit Field required']
        >>> read_lines(b'{"companies": [{"country": ["This field is required."]}]}')
        ['companies.country: This field is required.']
    """
    try:
        content = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = _TAG.sub(" ", body[:20_000].decode("utf-8", "replace"))
        return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]
    return list(_flatten(content))


def read_message(answer: Answer) -> str:
    """Return the service's error message as one printable line; empty if there is none."""
    try:
        content = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        is_text = answer.headers.get("content-type", "").startswith("text/plain")
        return one_line(answer.body.decode(errors="replace"), MESSAGE_LENGTH_MAX) if is_text else ""
    said = _choose(content)
    if said is None and answer.status in _BY_FIELD:
        said = content
    lines = list(_flatten(said))
    return one_line("; ".join(dict.fromkeys(lines)), MESSAGE_LENGTH_MAX)


# ---------------------------------------------------------------------------------------------------------------------


def _choose(content: Any) -> Any:
    """Return the part of a body that says what is wrong; None if no key says so."""
    if not isinstance(content, dict):
        return None
    key = next((key for key in MESSAGE_KEYS if isinstance(content.get(key), str | list | dict) and content[key]), None)
    if key is None:
        return None
    inner = _choose(content[key])
    return {key: content[key]} if inner is None else inner


def _flatten(value: Any, place: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the texts in a value.

    Args:
        value: Decoded JSON.
        place: The fields that lead to the value, joined by points.
        depth: How deep the value is nested.
    """
    if depth > 8:
        return
    if isinstance(value, str):
        yield " ".join(value.split())
    elif isinstance(value, list):
        for inner in value:
            yield from _flatten(inner, place, depth + 1)
    elif isinstance(value, dict):
        named = next((text for key in _PATHS if (text := _path(value.get(key)))), "")
        for key, inner in value.items():
            if key in _PATHS and _path(inner):
                continue
            field = place if _NO_FIELD.fullmatch(key) else f"{place}.{key}".removeprefix(".")
            prefix = f"{named} " if named else f"{field}: " if field != place and _are_texts(inner) else ""
            for text in _flatten(_by_field(inner) if key in _MAPS else inner, field, depth + 1):
                yield prefix + text


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(inner, str) for inner in value)


def _by_field(value: Any) -> Any:
    """Return a map from field to sentences with a list of sentences for each field."""
    if not isinstance(value, dict):
        return value
    return {key: [inner] if isinstance(inner, str) else inner for key, inner in value.items()}


def _path(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(part, str | int) for part in value):
        return ".".join(map(str, value))
    if isinstance(value, str) and re.fullmatch(r"[/$]?[\w./\[\]$-]+", value):
        return value.strip("/$.").replace("/", ".")
    return ""
