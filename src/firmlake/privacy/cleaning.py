"""Remove forgotten subjects from JSON documents and from tables. All else keeps its digits, keys and order.

A text that is only a name becomes null; in a longer text, the name is replaced. An element, lookalike or entry about a
forgotten company is removed. A related party that is a forgotten company loses its name and number but is kept, so that
stakes and counts stay right. A document that was cut off is emptied if it may name a forgotten subject.

Rows of a forgotten company are removed from tables. A line of a list is kept without its content, so that every line is
still accounted for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import polars as pl

from firmlake.core.company import COUNTRIES, Company, company_among, normal_form
from firmlake.core.text import plain_key
from firmlake.privacy.document import GONE, Number, Object, Place, looks_like_json, objects_in, read, rewrite, write
from firmlake.privacy.forgotten import FORGOTTEN, Forgotten
from firmlake.privacy.words import name_words

_COUNTRY = ("country", "countrycode")
_NUMBER = ("companynumber",)
IDENTIFIERS = ("identifier", "companyid", "companyidentifier", "company")
_NAMES = ("name", "place")
PARTIES = ("parents", "children")
"""Keys of answers, in plain form."""
_OF_CONTACTS = re.compile(r"contact|person|given", re.IGNORECASE)
LINE_FORGOTTEN = "its company was forgotten; to fetch the company again, name it with `firmlake company`"
_COMPANY_COLUMNS = ("country", "company_number")
_LOOKALIKE = ("lookalike_country", "lookalike_company_number")
_RELATED = ("related_country", "related_company_number")
_OF_RELATED = ("related_name", "related_identifier_name", "related_place")
_OF_NAMES = {"name", "related_name", "related_identifier_name"}
_OURS = {
    *_COMPANY_COLUMNS, *_LOOKALIKE, *_RELATED, "run_id", "valid_from_run", "valid_to_run", "request_id", "payload_hash",
    "dataset", "status", "direction", "related_kind", "kind", "effect", "path",
}  # fmt: skip
"""Columns that hold words of firmlake, or are handled row by row."""
_OF_NO_COMPANY = {"list_name", "rule", "says", "condition"}
"""Columns that hold the same text for all companies of a list or an alert rule. It is not data about any of them."""
_NULLABLE = {
    *_OF_RELATED, "name", "place", "value", "record_json", "example", "given", "old_value", "new_value", "extra_json",
    "columns", "fields", "function", "error",
}  # fmt: skip


def clean_json(body: bytes, forgotten: Forgotten, whole: str | None = None) -> bytes:
    """Return a document without forgotten subjects; the same bytes if it names none.

    A document that does not begin as JSON is cleaned as plain text. `whole` replaces a text that is only a name.
    """
    if not looks_like_json(body):
        text = body.decode("utf-8", "surrogateescape")
        cleaned = forgotten.clean(text)
        return body if cleaned == text else (cleaned or "").encode("utf-8", "surrogateescape")
    try:
        return _clean_document(body, _Cleaner(forgotten, None, whole))
    except ValueError:
        return b""


def clean_record(body: bytes, forgotten: Forgotten) -> bytes:
    """Return one of our own documents without forgotten subjects. Texts stay texts, since most may not be null."""
    return clean_json(body, forgotten, whole=FORGOTTEN)


def clean_frame(frame: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Return a table without forgotten subjects; the same frame if it names none.

    The names of its columns tell what its rows are about.
    """
    if forgotten.has_companies:
        frame = _clean_rows(frame, forgotten)
    for name, kind in frame.schema.items():
        if kind == pl.String and name not in _OURS:
            frame = _clean_column(frame, name, forgotten)
    return frame


def count_changed(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """Count the rows that `clean_frame` changed or removed."""
    if before is after:
        return 0
    if before.height != after.height:
        return before.height - after.height
    differs = (before[name].ne_missing(after[name]) for name in before.columns)
    return int(pl.DataFrame([each.alias(str(n)) for n, each in enumerate(differs)]).max_horizontal().sum())


def identity(value: Any) -> Company | None:
    """Return the company that the keys of an object name; None if they name none."""
    if not isinstance(value, Object):
        return None
    country, number = value.get(*_COUNTRY), value.get(*_NUMBER)
    if isinstance(country, str) and isinstance(number, str):
        return normal_form(country, re.sub(r"\D", "", number))
    texts = [text for key, text in value if isinstance(text, str) and plain_key(key) not in _NAMES]
    return company_among(texts) if any(text.upper() in COUNTRIES for text in texts) else None


def is_parties(place: Place) -> bool:
    """Return whether a place holds related parties, by its key."""
    return plain_key(place.key or "") in PARTIES


def company_of(place: Place) -> Company | None:
    """Return the company that a part of an answer is about: the one named by the outermost object around the part."""
    found = None
    for each in place.outwards():
        if isinstance(each.value, Object):
            found = identity(each.value.get(*IDENTIFIERS)) or identity(each.value) or found
    return found


def _clean_document(body: bytes, cleaner: _Cleaner) -> bytes:
    """Clean a document, of an array of objects only the elements that may name a forgotten subject.

    Raises ValueError if it is no JSON, was cut off, or nests too deeply.
    """
    if not cleaner.forgotten.may_be_in(body):
        return body
    if elements := _elements(body):
        kept = [part for element in elements for part in _clean_part(element, cleaner)]
        return body if kept == elements else b"[%b]" % b",".join(kept)
    return next(_clean_part(body, cleaner), b"null")


def _elements(body: bytes) -> list[bytes]:
    """Return the bytes of each element of an array of objects; nothing for any other document."""
    try:
        elements = [bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return elements if all(each.startswith(b"{") for each in elements) else []


def _clean_part(part: bytes, cleaner: _Cleaner) -> Iterator[bytes]:
    """Yield a document or an element cleaned; nothing if it is about a forgotten company."""
    if not cleaner.forgotten.may_be_in(part):
        yield part
        return
    before = document = [read(part)]
    while (cleaned := rewrite(document, cleaner.clean)) != document:
        document = cleaned  # removing a value may bring the parts of a name together
    yield from [part] if document == before else map(write, document)


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
        if place.outer is not None and isinstance(place.outer.value, list) and is_parties(place.outer):
            pairs = self._without_company(pairs)
        elif any(map(self._is_forgotten, (pairs, *(item for key, item in pairs if plain_key(key) in IDENTIFIERS)))):
            return GONE
        named = self._names_in_parts([item for _, item in pairs], place)
        return Object(
            (self._clean_text(key, Place(item, key, place)) or FORGOTTEN, self._whole if index in named else item)
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

        return Object((key, None if plain_key(key) in lost else item) for key, item in rewrite(party, remove))

    def _clean_text(self, text: str, place: Place) -> str | None:
        has_contacts = self.forgotten.has_contacts and _is_of_contacts(place)
        cleaned = _clean_text(text, self.forgotten, self._company_of(place), has_contacts=has_contacts)
        return self._whole if cleaned is None else cleaned

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


def _clean_text(text: str, forgotten: Forgotten, company: Company | None, *, has_contacts: bool = False) -> str | None:
    """Clean a text, which may be a JSON document of its own; None if it holds nothing else than a subject."""
    if text[:1] in ("{", "["):
        body = text.encode("utf-8", "replace")
        with suppress(ValueError):
            cleaned = _clean_document(body, _Cleaner(forgotten, company, None))
            return text if cleaned == body else cleaned.decode("utf-8", "replace")
    return forgotten.clean(text, company, has_contacts=has_contacts)


def _is_of_contacts(place: Place) -> bool:
    return any(map(_OF_CONTACTS.search, place.keys))


def _clean_rows(frame: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    if (about := _names(frame, _COMPANY_COLUMNS, forgotten)) is not None:
        frame = _blank(frame, about) if "columns" in frame.columns else frame.filter(~about)
    if (similar := _names(frame, _LOOKALIKE, forgotten)) is not None:
        frame = frame.filter(~similar)
    if (related := _names(frame, _RELATED, forgotten)) is not None:
        gone = [name for name in (*_RELATED, *_OF_RELATED) if name in frame.columns]
        frame = frame.with_columns(pl.when(~related).then(pl.col(name)).alias(name) for name in gone)
        frame = _with_kinds(frame)
    return frame


def _names(frame: pl.DataFrame, columns: tuple[str, str], forgotten: Forgotten) -> pl.Series | None:
    """Tell for each row whether it names a forgotten company in two columns; None if no row does."""
    if not set(columns) <= set(frame.columns):
        return None
    companies = frame.select(pl.concat_str(columns, separator=" ")).to_series()
    named = [name for name in companies.drop_nulls().unique() if forgotten.has_company(Company(*name.split(" ", 1)))]
    return companies.is_in(named).fill_null(value=False) if named else None


def _blank(frame: pl.DataFrame, lines: pl.Series) -> pl.DataFrame:
    """Empty a line of a list, except for its number and the reason."""
    values = {"status": "refused", "reason": LINE_FORGOTTEN, "columns": "{}"}
    kept = {"line", "list_name", "run_id", "valid_from_run"}
    return frame.with_columns(
        pl.when(~lines).then(pl.col(name)).otherwise(pl.lit(values.get(name), frame.schema[name])).alias(name)
        for name in frame.columns
        if name not in kept
    )


def _clean_column(frame: pl.DataFrame, name: str, forgotten: Forgotten) -> pl.DataFrame:
    suspects = forgotten.may_name(frame[name].drop_nulls().unique())
    if suspects.is_empty():
        return frame
    is_scoped = forgotten.is_scoped and name not in _OF_NO_COMPANY and set(_COMPANY_COLUMNS) <= set(frame.columns)
    rows = frame.select(pl.col([name, *_COMPANY_COLUMNS] if is_scoped else [name]).cast(pl.String))
    changed = {}
    for row in rows.filter(pl.col(name).is_in(suspects.implode())).unique().rows():
        text, *company = row
        cleaned = _clean_value(name, text, Company(*company) if company and None not in company else None, forgotten)
        if cleaned != text:
            changed[row] = cleaned
            if name in _OF_NAMES:
                words = name_words(text)
                forgotten.names[words] = min(text, forgotten.names.get(words, text))
    if not changed:
        return frame
    frame = frame.with_columns(pl.Series(name, [changed.get(row, row[0]) for row in rows.iter_rows()], pl.String))
    return _with_kinds(frame) if name in _OF_RELATED else frame


def _clean_value(column: str, text: str, company: Company | None, forgotten: Forgotten) -> str | None:
    if column == "contact_id":
        return forgotten.contact(text) or text
    cleaned = _clean_text(text, forgotten, company)
    return FORGOTTEN if cleaned is None and column not in _NULLABLE else cleaned


def _with_kinds(frame: pl.DataFrame) -> pl.DataFrame:
    """Mark related parties as anonymous that have neither a number nor a name any more."""
    if "related_kind" not in frame.columns:
        return frame
    named = [name for name in (*_RELATED, "related_name", "related_identifier_name") if name in frame.columns]
    is_bare = pl.all_horizontal(pl.col(named).is_null()) & (pl.col("related_kind") != "unknown")
    return frame.with_columns(
        pl.when(is_bare).then(pl.lit("anonymous")).otherwise(pl.col("related_kind")).alias("related_kind")
    )
