"""A JSON tree that records where each value stands in the bytes, so that single values can be replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["NULL", "Node", "as_json", "parse", "read_text", "replaced", "walk"]

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
"""A text, which may be cut off at the end of the document; a punctuation mark; or any other value."""
_DEPTH_MAX = 64
"""Answers nest a few levels. A document with more levels than this is cleaned as plain text."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_TEXT = msgspec.json.Decoder(str)
_ENCODE = msgspec.json.Encoder().encode
_CLOSING = {"object": b"}", "array": b"]"}
NULL = b"null"


class Node:
    """A value of a JSON document.

    Attributes:
        kind: "object", "array", "text" or "other".
        key: The key of the value, if an object holds it.
        text: The decoded text, or the JSON of a number, boolean or null.
        start: Where the value begins in the bytes.
        end: Where it ends.
        key_span: Start and end of the key, if there is one.
    """

    __slots__ = ("end", "items", "key", "key_span", "kind", "parent", "start", "text")

    def __init__(self, kind: str, start: int, end: int, parent: Node | None, text: str = "") -> None:
        self.kind, self.start, self.end, self.parent, self.text = kind, start, end, parent, text
        self.key: str | None = None
        self.key_span: tuple[int, int] | None = None
        self.items: list[Node] = []

    def child(self, *keys: str) -> Node | None:
        """Return the value of the first of these keys that the object has."""
        return next((item for key in keys for item in self.items if item.key == key), None)

    @property
    def path(self) -> list[str]:
        """The keys that lead to the value."""
        found, node = [], self
        while node.parent is not None:
            if node.key is not None:
                found.append(node.key)
            node = node.parent
        return found[::-1]


def parse(body: bytes) -> Node | None:
    """Read a JSON document, which may be cut off; None if it is not JSON, or nests too deeply."""
    root = Node("array", 0, len(body), None)
    place, key, key_span, depth = root, None, None, 0
    for token in _TOKEN.finditer(body):
        mark, start, end = token[0], token.start(), token.end()
        if mark in b":,":
            if mark == b":" and place.items and place.kind == "object" and place.items[-1].kind == "text":
                name = place.items.pop()
                key, key_span = name.text, (name.start, name.end)
            continue
        if mark in b"}]":
            if place.parent is None or mark != _CLOSING[place.kind]:
                return None
            place.end = end
            place, depth = place.parent, depth - 1
            continue
        node = _node(mark, start, end, place)
        node.key, node.key_span, key, key_span = key, key_span, None, None
        place.items.append(node)
        if mark in b"{[":
            place, depth = node, depth + 1
            if depth > _DEPTH_MAX:
                return None
    if len(root.items) != 1 or root.items[0].kind == "other":
        return None
    root.items[0].parent = None
    return root.items[0]


def walk(node: Node) -> Iterator[Node]:
    """Yield a value and all values inside it, in document order."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.items))


def replaced(body: bytes, edits: Iterable[tuple[int, int, bytes]], removed: Iterable[Node] = ()) -> bytes:
    """Replace parts of a document, and remove elements of arrays. An edit inside another one is dropped."""
    parts, position = [], 0
    every = sorted([*edits, *_removals(removed)], key=lambda edit: (edit[0], -edit[1]))
    for start, end, content in every:
        if start >= position and end > position:
            parts += [body[position:start], content]
            position = end
    return b"".join([*parts, body[position:]]) if parts else body


def as_json(text: str) -> bytes:
    """Write a text as JSON; lone surrogates, which JSON may spell but UTF-8 may not, become U+FFFD."""
    return _ENCODE(text.encode("utf-8", "replace").decode())


def read_text(mark: bytes) -> str:
    """Read a text, even a broken one: lone surrogates are kept, and bytes that are not UTF-8 are replaced."""
    try:
        return _TEXT.decode(mark)
    except _UNREADABLE:
        text = mark[1:].decode("utf-8", "replace")
        try:
            return str(json.loads(f'"{text}', strict=False))
        except ValueError:
            return text


# ---------------------------------------------------------------------------------------------------------------------


def _node(mark: bytes, start: int, end: int, place: Node) -> Node:
    if mark == b"{":
        return Node("object", start, end, place)
    if mark == b"[":
        return Node("array", start, end, place)
    if mark.startswith(b'"'):
        return Node("text", start, end, place, read_text(mark))
    return Node("other", start, end, place, mark.decode("utf-8", "replace"))


def _removals(removed: Iterable[Node]) -> Iterator[tuple[int, int, bytes]]:
    """Find the bytes to cut for removed elements, each with one comma."""
    by_array: dict[int, tuple[Node, set[int]]] = {}
    for node in removed:
        assert node.parent is not None
        by_array.setdefault(id(node.parent), (node.parent, set()))[1].add(id(node))
    for array, gone in by_array.values():
        kept = [place for place, item in enumerate(array.items) if id(item) not in gone]
        last = kept[-1] if kept else -1
        for place, item in enumerate(array.items[:last]):
            if id(item) in gone:
                yield item.start, array.items[place + 1].start, b""
        if last < len(array.items) - 1:
            start = array.items[last].end if kept else array.items[0].start
            yield start, array.items[-1].end, b""
