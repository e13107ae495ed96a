"""Replace the maker of a list, which is personal data, before an answer lands.

Only the value is replaced, whatever its shape; the rest of the answer lands byte for byte. If addresses remain anywhere
except in list names, or the answer cannot be read, everything that looks like an address is replaced too. If a list
lacks the field, the service may have renamed it. Then all texts whose unknown key suggests a person are replaced: a
renamed field would otherwise land addresses, and landed answers are never rewritten. The landed answers can be read
without the secret key.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from firmlake.api.contract import CREATED_BY, LIST_NAME, ListEntry
from firmlake.core.folders import Folders
from firmlake.core.settings import ListSettings
from firmlake.privacy.key import read_key
from firmlake.privacy.persons import speaks_of_person, words_of

__all__ = ["concealer"]

_FIELD = re.compile(rb'"%b"\s*:\s*' % CREATED_BY.encode())
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{\[]|[}\]]|[^\s"{}\[\],:]+', re.DOTALL)
"""A text, even if the answer was cut inside it; a bracket; or any other value."""
_LETTER = rb"(?:[^\s\"\\@<>(),;:\[\]{}]|\\u(?!0040)[0-9a-fA-F]{4})"
_ADDRESS = re.compile(rb"((?:\\[^u])?)(%b{1,320}+(?:@|\\u0040)%b{1,320}+)" % (_LETTER, _LETTER))
"""Something that looks like an e-mail address inside JSON, and an escape before it, which is not part of it."""
_KNOWN = {field.encode_name for field in msgspec.structs.fields(ListEntry)}
_HASH_DIGITS = 32


def concealer(settings: ListSettings, folders: Folders) -> Callable[[bytes], bytes]:
    """Return a function that replaces the makers' addresses in an answer, as set by `lists.created_by`.

    The keyed hash (HMAC-SHA256, cut to 128 bits) of a person is the same in every answer, whatever the case of the
    address. Without the key, nobody can compare it with a list of addresses. The key is created when first needed,
    readable only by its owner.

    Raises:
        SettingsError: The key cannot be read or made.
    """
    if settings.created_by == "as_is":
        return lambda body: body
    if settings.created_by == "omit":
        return partial(_conceal, in_field=lambda value: b"null", elsewhere=lambda address: b"omitted")
    key = read_key(Path(settings.created_by_key_file or folders.state / "created_by.key"), "lists.created_by_key_file")
    return partial(
        _conceal,
        in_field=lambda value: b'"%b"' % _hash(key, value),
        elsewhere=lambda address: _hash(key, b'"%b"' % address),
    )


def _conceal(body: bytes, in_field: Callable[[bytes], bytes], elsewhere: Callable[[bytes], bytes]) -> bytes:
    parts, position = [], 0
    for found in _FIELD.finditer(body):
        if found.start() >= position:
            end = _value_end(body, found.end())
            value = body[found.end() : end]
            parts += [body[position : found.end()], value if value in (b"", b"null") else in_field(value)]
            position = end
    concealed = b"".join([*parts, body[position:]])
    page = _read_page(concealed)
    if page is None or any(CREATED_BY not in one for one in page["data"]):
        concealed = _conceal_persons(concealed, in_field)
    if page is not None and not _has_address_beside_names(page):
        return concealed
    return _ADDRESS.sub(lambda found: found[1] + elsewhere(found[2]), concealed)


def _value_end(body: bytes, start: int) -> int:
    """Find where a JSON value ends; if the answer was cut inside the value, return the end of the answer."""
    depth = 0
    for token in _TOKEN.finditer(body, start):
        depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
        if depth <= 0:
            return token.end() if depth == 0 else token.start()
    return len(body)


def _read_page(body: bytes) -> dict[str, Any] | None:
    try:
        page = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    data = page.get("data")
    return page if isinstance(data, list) and all(isinstance(one, dict) for one in data) else None


def _has_address_beside_names(page: dict[str, Any]) -> bool:
    lists = [{**one, LIST_NAME: None} for one in page["data"]]
    return _ADDRESS.search(msgspec.json.encode({**page, "data": lists})) is not None


def _conceal_persons(body: bytes, in_field: Callable[[bytes], bytes]) -> bytes:
    parts, position = [], 0
    for keys, start, end in _texts(body):
        if _is_about_person(keys):
            parts += [body[position:start], in_field(body[start:end])]
            position = end
    return b"".join([*parts, body[position:]])


def _texts(body: bytes) -> Iterator[tuple[list[str], int, int]]:
    """Yield each text value of a JSON document: the keys that lead to it, its start and its end."""
    stack: list[str | None] = []  # current key of each open object, "" before its first key; None for an array
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in (b"{", b"["):
            stack.append("" if text == b"{" else None)
            continue
        if text in (b"}", b"]"):
            del stack[-1:]
        elif stack and stack[-1] == "":
            stack[-1] = _read_text(text) or "?"
            continue
        elif text.startswith(b'"'):
            yield [key for key in stack if key], token.start(), token.end()
        if stack and stack[-1] is not None:
            stack[-1] = ""


def _is_about_person(keys: list[str]) -> bool:
    """Return whether an unknown key suggests a person, or the text is a name inside an unknown object of a list."""
    unknown = [key for key in keys if key not in _KNOWN]
    if any(speaks_of_person(key, even_by_id=True) for key in unknown):
        return True
    return keys[:1] == ["data"] and "name" in words_of(keys[-1]) and any(key in unknown for key in keys[1:-1])


def _read_text(value: bytes) -> str:
    try:
        return msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return value.decode("utf-8", "replace")


def _hash(key: bytes, value: bytes) -> bytes:
    return hmac.new(key, _read_text(value).strip().casefold().encode(), "sha256").hexdigest()[:_HASH_DIGITS].encode()
