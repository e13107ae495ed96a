"""Change values of a JSON document and keep everything else: every digit, key and text, in the same order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from firmlake.core.text import plain_key

GONE = object()
"""Takes the place of a value that goes: an element leaves its array, and the value of a key becomes null."""

_TEXT = json.JSONEncoder(ensure_ascii=False).encode
_HALF_PAIR = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Half a surrogate pair, which JSON may spell and UTF-8 may not. The others stand for bytes that are not UTF-8."""


class Object(list[tuple[str, Any]]):
    """A JSON object as pairs, because a key may stand twice."""

    def get(self, *keys: str) -> Any:
        """Return the first value with one of these keys, in plain form; None if there is none."""
        return next((value for wanted in keys for key, value in self if plain_key(key) == wanted), None)


class Number(str):
    """A number, NaN or Infinity as it was spelled."""

    __slots__ = ()


class Place(NamedTuple):
    """A value, its key if an object holds it, and the place of the object or array around it."""

    value: Any
    key: str | None = None
    outer: Place | None = None

    def outwards(self) -> Iterator[Place]:
        """Yield this place, and then the places around it up to the whole document."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.outer

    @property
    def keys(self) -> list[str]:
        """The keys that lead to the value, the innermost first."""
        return [place.key for place in self.outwards() if place.key is not None]


def looks_like_json(body: bytes) -> bool:
    """Tell whether a document begins as a JSON object or array does."""
    return body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read(body: bytes) -> Any:
    """Read a JSON document into `Object`, list, str, `Number`, bool and None.

    Raises ValueError if it is no JSON, was cut off, or nests too deeply.
    """
    text = body.decode("utf-8-sig", "surrogateescape")
    try:
        return json.loads(
            text,
            strict=False,
            object_pairs_hook=Object,
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
        )
    except RecursionError:
        raise ValueError("The document nests too deeply") from None


def write(value: Any) -> bytes:
    """Write what `read` returns, without white space between the values."""
    if isinstance(value, Object):
        return b"{%b}" % b",".join(b"%b:%b" % (write(key), write(item)) for key, item in value)
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(write, value))
    if isinstance(value, Number):
        return value.encode()
    text = _HALF_PAIR.sub(
        lambda half: f"\\u{ord(half[0]):04x}", _TEXT(value) if isinstance(value, str) else json.dumps(value)
    )
    return text.encode("utf-8", "surrogateescape")


def rewrite(value: Any, change: Callable[[Place], Any], key: str | None = None, outer: Place | None = None) -> Any:
    """Change each value of a document, or of the part of one with a key and a place around it, the outermost first.

    `change` returns what takes the place of a value: the same value, another one, or `GONE`. The values inside what it
    returns are changed next.
    """
    value = change(Place(value, key, outer))
    place = Place(value, key, outer)
    if isinstance(value, Object):
        items = [(name, rewrite(item, change, name, place)) for name, item in value]
        return Object((name, None if item is GONE else item) for name, item in items)
    if isinstance(value, list):
        return [item for old in value if (item := rewrite(old, change, None, place)) is not GONE]
    return value


def edit(body: bytes, change: Callable[[Place], Any]) -> bytes:
    """Change the values of an encoded document, as `rewrite` does; one that was cut off is emptied.

    What is not JSON, and a document in which nothing changes, stays as it is, byte for byte.
    """
    try:
        document = read(body)
    except ValueError:
        return b"" if looks_like_json(body) else body
    changed = rewrite(document, change)
    return body if changed == document else write(changed)


def objects_in(value: Any) -> Iterator[Object]:
    """Yield the objects of a document, the outermost first."""
    if isinstance(value, Object):
        yield value
    if isinstance(value, list):
        for item in value:
            yield from objects_in(item[1] if isinstance(value, Object) else item)
