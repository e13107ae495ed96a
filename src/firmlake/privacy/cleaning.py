"""Remove forgotten subjects from a JSON document. Only matched values change; all other bytes stay as they are.

A text that is only a name becomes null; in a longer text, the name is replaced. An element, lookalike or entry about a
forgotten company is removed. A related party that is a forgotten company loses its name and number but is kept, so that
stakes and counts stay right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firmlake.core.company import Company, normal_form
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten
from firmlake.privacy.tree import NULL, Node, as_json, parse, replaced, walk
from firmlake.privacy.words import Word, words_in

__all__ = ["clean_json", "clean_record", "identity"]

_COUNTRY = ("country", "countryCode")
_NUMBER = ("companyNumber", "company_number")
_IDENTIFIERS = ("identifier", "companyId", "companyIdentifier", "company")
_PARTIES = ("parents", "children")
_OF_CONTACTS = re.compile(r"contact|person|given", re.IGNORECASE)

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])

Edit = tuple[int, int, bytes]


def clean_json(body: bytes, forgotten: Forgotten, company: Company | None = None, whole: bytes = NULL) -> bytes:
    """Return a document without forgotten subjects; the same bytes if it names none.

    A document that is not JSON is cleaned as plain text.

    Args:
        body: The document.
        forgotten: The forgotten subjects.
        company: The company that the document is about, if the document does not name it.
        whole: The JSON that replaces a text that is only a name.
    """
    while (cleaned := _clean_once(body, forgotten, company, whole)) != body:
        body = cleaned  # removing a value may bring the parts of a name together
    return body


def clean_record(body: bytes, forgotten: Forgotten) -> bytes:
    """Return one of our own documents without forgotten subjects. Texts stay texts, since most may not be null."""
    return clean_json(body, forgotten, whole=as_json(FORGOTTEN))


def identity(node: Node) -> Company | None:
    """Return the company that the keys of an object name; None if they name none."""
    if node.kind != "object":
        return None
    country, number = node.child(*_COUNTRY), node.child(*_NUMBER)
    if country is None or number is None:
        return None
    return normal_form(country.text, re.sub(r"\D", "", number.text))


def company_of(node: Node) -> Company | None:
    """Return the company that a part of an answer is about: the one named by the outermost object around the part."""
    found, each = None, node
    while each is not None:
        if each.kind == "object":
            inside = each.child(*_IDENTIFIERS)
            found = (inside and identity(inside)) or identity(each) or found
        each = each.parent  # type: ignore[assignment]
    return found


# ---------------------------------------------------------------------------------------------------------------------


def _clean_once(body: bytes, forgotten: Forgotten, company: Company | None, whole: bytes) -> bytes:
    is_json = body.lstrip()[:1] in (b"{", b"[")
    if is_json and not forgotten.may_be_in(body):
        return body
    if elements := _elements(body):
        return _clean_elements(body, elements, forgotten, company, whole)
    root = parse(body) if is_json else None
    if root is None:
        text = body.decode("utf-8", "surrogateescape")
        cleaned = forgotten.clean(text, company)
        return body if cleaned == text else (cleaned or "").encode("utf-8", "surrogateescape")
    cleaner = _Cleaner(forgotten, company, whole)
    for node in walk(root):
        cleaner.look_at(node)
    return replaced(body, cleaner.edits, cleaner.removed)


def _elements(body: bytes) -> list[tuple[int, int]]:
    """Return where the elements of an array of objects stand, if there are several. None of them is in another."""
    if body.lstrip()[:1] != b"[":
        return []
    try:
        found = _ARRAY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    spans, position = [], 0
    for element in found:
        content = bytes(element)
        start = body.index(content, position)
        position = start + len(content)
        spans.append((start, position))
    is_of_objects = all(body[start : start + 1] == b"{" for start, _ in spans)
    return spans if is_of_objects and len(spans) > 1 else []


def _clean_elements(
    body: bytes, elements: list[tuple[int, int]], forgotten: Forgotten, company: Company | None, whole: bytes
) -> bytes:
    """Clean an array element by element: most name nobody, and need not be parsed."""
    edits, removed = [], []
    array = Node("array", 0, len(body), None)
    for start, end in elements:
        node = Node("object", start, end, array)
        array.items.append(node)
        alone = b"[" + body[start:end] + b"]"
        cleaned = _clean_once(alone, forgotten, company, whole)
        if cleaned == b"[]":
            removed.append(node)
        elif cleaned != alone:
            edits.append((start, end, cleaned[1:-1]))
    return replaced(body, edits, removed)


class _Cleaner:
    def __init__(self, forgotten: Forgotten, company: Company | None, whole: bytes) -> None:
        self._forgotten = forgotten
        self._whole = whole
        self._company = company
        self.edits: list[Edit] = []
        self.removed: list[Node] = []

    def look_at(self, node: Node) -> None:
        """Note the changes to one value. The values inside it are handled separately."""
        if node.key_span and (key := self._clean_text(node.key or "", node)) != node.key:
            self.edits.append((*node.key_span, as_json(key or FORGOTTEN)))
        if node.kind == "object" and self._forgotten.has_company(identity(node)):
            self._remove(node)
        if node.kind in ("object", "array"):
            self.edits += self._split_names(node)
        elif node.kind == "text":
            self._look_at_text(node)
        elif contact := self._contact(node):
            self.edits.append((node.start, node.end, as_json(contact)))

    def _look_at_text(self, node: Node) -> None:
        if contact := self._contact(node):
            self.edits.append((node.start, node.end, as_json(contact)))
            return
        if node.text[:1] in ("{", "[") and parse(inner := node.text.encode("utf-8", "replace")) is not None:
            cleaned = clean_json(inner, self._forgotten, self._company or company_of(node))
            if cleaned != inner:
                self.edits.append((node.start, node.end, as_json(cleaned.decode("utf-8", "replace"))))
            return
        text = self._clean_text(node.text, node)
        if text != node.text:
            self.edits.append((node.start, node.end, self._whole if text is None else as_json(text)))

    def _clean_text(self, text: str, node: Node) -> str | None:
        has_contacts = self._forgotten.has_contacts and self._is_of_contacts(node)
        company = self._company or company_of(node) if self._forgotten.is_scoped else None
        return self._forgotten.clean(text, company, has_contacts=has_contacts)

    def _contact(self, node: Node) -> str | None:
        if not (self._forgotten.has_contacts and self._is_of_contacts(node)):
            return None
        return self._forgotten.contact(node.text)

    def _is_of_contacts(self, node: Node) -> bool:
        return any(map(_OF_CONTACTS.search, node.path))

    def _remove(self, node: Node) -> None:
        """Remove an object that names a forgotten company, or the values that identify the company."""
        if party := _party(node):
            named = [item for item in (*party.items, *node.items) if item.key in ("name", "place")]
            whole = [node] if node is not party else [item for item in node.items if item.key in _COUNTRY + _NUMBER]
            self.edits += [(each.start, each.end, NULL) for each in (*named, *whole)]
            return
        holder = node.parent if node.key in _IDENTIFIERS and node.parent else node
        if holder.parent is not None and holder.parent.kind == "array":
            self.removed.append(holder)
        else:
            self.edits.append((node.start, node.end, NULL))

    def _split_names(self, node: Node) -> Iterator[Edit]:
        """Find a name whose parts are separate values, such as a first name followed by a last name."""
        if not self._forgotten.has_persons:
            return
        texts = [item for item in node.items if item.kind == "text"]
        words: list[Word] = []
        owners: list[Node] = []
        for item in texts:
            found = words_in(item.text)
            words += found
            owners += [item] * len(found)
        company = self._company or company_of(node) if self._forgotten.is_scoped else None
        for first, last in self._forgotten.persons_in(words, company):
            is_whole = owners[first] not in owners[:first] and owners[last] not in owners[last + 1 :]
            if is_whole and owners[first] is not owners[last]:
                parts = {id(owner): owner for owner in owners[first : last + 1]}
                yield from ((each.start, each.end, self._whole) for each in parts.values())


def _party(node: Node) -> Node | None:
    """Return the related party that an object is or identifies; None if there is none."""
    each: Node | None = node
    while each is not None:
        if each.parent is not None and each.parent.kind == "array" and each.parent.key in _PARTIES:
            return each
        each = each.parent
    return None
