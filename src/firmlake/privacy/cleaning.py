"""Remove forgotten subjects from a JSON document. All else keeps its digits, keys and order.

A text that is only a name becomes null; in a longer text, the name is replaced. An element, lookalike or entry about a
forgotten company is removed. A related party that is a forgotten company loses its name and number but is kept, so that
stakes and counts stay right. A document that was cut off is emptied if it may name a forgotten subject.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from firmlake.core.company import Company, normal_form
from firmlake.privacy.document import GONE, Number, Object, Place, looks_like_json, objects_in, read, rewrite, write
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten

_COUNTRY = ("country", "countryCode")
_NUMBER = ("companyNumber", "company_number")
_IDENTIFIERS = ("identifier", "companyId", "companyIdentifier", "company")
_NAMES = ("name", "place")
PARTIES = ("parents", "children")
_OF_CONTACTS = re.compile(r"contact|person|given", re.IGNORECASE)


def clean_json(body: bytes, forgotten: Forgotten, company: Company | None = None, whole: str | None = None) -> bytes:
    """Return a document without forgotten subjects; the same bytes if it names none.

    A document that does not begin as JSON is cleaned as plain text.

    Args:
        body: The document.
        forgotten: The forgotten subjects.
        company: The company that the document is about, if the document does not name it.
        whole: Replaces a text that is only a name.
    """
    if not looks_like_json(body):
        text = body.decode("utf-8", "surrogateescape")
        cleaned = forgotten.clean(text, company)
        return body if cleaned == text else (cleaned or "").encode("utf-8", "surrogateescape")
    if not forgotten.may_be_in(body):
        return body
    cleaner = _Cleaner(forgotten, company, whole)
    elements = _elements(body)
    if elements:
        kept = [part for each in elements for part in _clean_element(each, cleaner)]
        return body if kept == elements else b"[%b]" % b",".join(kept)
    try:
        document = read(body)
    except ValueError:
        return b""
    cleaned_document = _clean_until_stable(document, cleaner)
    return body if cleaned_document == document else write(cleaned_document)


def clean_record(body: bytes, forgotten: Forgotten) -> bytes:
    """Return one of our own documents without forgotten subjects. Texts stay texts, since most may not be null."""
    return clean_json(body, forgotten, whole=FORGOTTEN)


def _elements(body: bytes) -> list[bytes]:
    """Return the bytes of each element of an array of objects; nothing for any other document."""
    try:
        elements = [bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return elements if all(each.startswith(b"{") for each in elements) else []


def _clean_element(element: bytes, cleaner: _Cleaner) -> list[bytes]:
    """Return the bytes of an element in a list; an empty list if it is about a forgotten company."""
    if not cleaner.forgotten.may_be_in(element):
        return [element]
    document = [read(element)]
    cleaned = _clean_until_stable(document, cleaner)
    return [element] if cleaned == document else [write(each) for each in cleaned]


def _clean_until_stable(document: Any, cleaner: _Cleaner) -> Any:
    while (cleaned := rewrite(document, cleaner.clean)) != document:
        document = cleaned  # removing a value may bring the parts of a name together
    return document


def identity(value: Any) -> Company | None:
    """Return the company that the keys of an object name; None if they name none."""
    if not isinstance(value, Object):
        return None
    country, number = value.get(*_COUNTRY), value.get(*_NUMBER)
    if not isinstance(country, str) or not isinstance(number, str):
        return None
    return normal_form(country, re.sub(r"\D", "", number))


def company_of(place: Place) -> Company | None:
    """Return the company that a part of an answer is about: the one named by the outermost object around the part."""
    found = None
    for each in place.outwards():
        if isinstance(each.value, Object):
            found = identity(each.value.get(*_IDENTIFIERS)) or identity(each.value) or found
    return found


class _Cleaner:
    def __init__(self, forgotten: Forgotten, company: Company | None, whole: str | None) -> None:
        self.forgotten, self._company, self._whole = forgotten, company, whole

    def clean(self, place: Place) -> Any:
        value = place.value
        if isinstance(value, Object):
            return self._clean_object(place)
        if isinstance(value, list):
            named = self._names_in_parts(value, place)
            return [self._whole if index in named else item for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._contact(place) or (value if isinstance(value, Number) else self._clean_text(value, place))
        return value

    def _clean_object(self, place: Place) -> Any:
        pairs: Object = place.value
        if place.outer is not None and isinstance(place.outer.value, list) and place.outer.key in PARTIES:
            pairs = self._without_company(pairs)
        elif any(map(self._is_forgotten, (pairs, *(item for key, item in pairs if key in _IDENTIFIERS)))):
            return GONE if place.outer is not None else None
        named = self._names_in_parts([item for _, item in pairs], place)
        return Object(
            (self._clean_key(key, item, place), self._whole if index in named else item)
            for index, (key, item) in enumerate(pairs)
        )

    def _is_forgotten(self, value: Any) -> bool:
        return self.forgotten.has_company(identity(value))

    def _without_company(self, party: Object) -> Object:
        """Remove from a related party the names and numbers of a forgotten company."""
        if not any(map(self._is_forgotten, objects_in(party))):
            return party
        lost = (*_NAMES, *_COUNTRY, *_NUMBER) if self._is_forgotten(party) else _NAMES

        def remove(place: Place) -> Any:
            return None if place.outer and self._is_forgotten(place.value) else place.value

        return Object((key, None if key in lost else item) for key, item in rewrite(party, remove))

    def _clean_key(self, key: str, item: Any, outer: Place) -> str:
        return self._clean_plain(key, Place(item, key, outer)) or FORGOTTEN

    def _clean_text(self, text: str, place: Place) -> str | None:
        if text[:1] in ("{", "["):
            inner = text.encode("utf-8", "replace")
            try:
                read(inner)
            except ValueError:
                pass
            else:
                cleaned = clean_json(inner, self.forgotten, self._company_of(place))
                return text if cleaned == inner else cleaned.decode("utf-8", "replace")
        cleaned_text = self._clean_plain(text, place)
        return self._whole if cleaned_text is None else cleaned_text

    def _clean_plain(self, text: str, place: Place) -> str | None:
        has_contacts = self.forgotten.has_contacts and _is_of_contacts(place)
        return self.forgotten.clean(text, self._company_of(place), has_contacts=has_contacts)

    def _company_of(self, place: Place) -> Company | None:
        return (self._company or company_of(place)) if self.forgotten.is_scoped else None

    def _contact(self, place: Place) -> str | None:
        if not (self.forgotten.has_contacts and _is_of_contacts(place)):
            return None
        return self.forgotten.contact(place.value)

    def _names_in_parts(self, items: list[Any], place: Place) -> set[int]:
        """Find names whose parts are separate values, such as first and last name; return the places of the parts."""
        if not self.forgotten.has_persons:
            return set()
        texts = {
            index: item for index, item in enumerate(items) if isinstance(item, str) and not isinstance(item, Number)
        }
        words = [(word, index) for index, text in texts.items() for word in self.forgotten.words_in(text)]
        owners = [index for _, index in words]
        found: set[int] = set()
        for first, last in self.forgotten.persons_in([word for word, _ in words], self._company_of(place)):
            is_whole = owners[first] not in owners[:first] and owners[last] not in owners[last + 1 :]
            if is_whole and owners[first] != owners[last]:
                found.update(owners[first : last + 1])
        return found


def _is_of_contacts(place: Place) -> bool:
    return any(map(_OF_CONTACTS.search, place.keys))
