"""Read the envelope of an answer: the company of each element, and its records as received.

Records stay bytes: fetching needs only their number, and `firmlake.tables` reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import DATASETS, Envelope, Identifier, Pagination
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import UnusableAnswerError
from firmlake.core.text import LOOKED_AT_MAX, one_line, shown

__all__ = ["Element", "read_answer"]

_MESSAGE_MAX = 300
_GLIMPSE_MAX = 60


class Element(msgspec.Struct, frozen=True, gc=False):
    """The part of an answer about one company.

    Attributes:
        company: The company in normal form; None if the identifier is not a valid company.
        records: The records as received, by group of the dataset; None if there is no data.
        total: Records that the service holds for the company; None if the endpoint does not page.
        offset: Records before these; None if the endpoint does not page.
        message: The service's message in place of data.
        problem: Why the element cannot be used; empty if it can.
        unknown: Paths of fields that are not in the contract.
    """

    company: Company | None
    name: str | None = None
    place: str | None = None
    records: dict[str, list[Raw]] | None = None
    total: int | None = None
    offset: int | None = None
    message: str | None = None
    problem: str = ""
    unknown: tuple[str, ...] = ()


def read_answer(dataset: str, body: bytes) -> list[Element]:
    """Split the body of a bulk answer into elements; a broken element does not affect the others.

    Raises:
        UnusableAnswerError: The body is not a JSON array. Ask again.
    """
    try:
        known = _STRICT[dataset].decode(body)
    except _UNREADABLE:
        return _read_one_by_one(dataset, body)
    elements = [
        _judge(dataset, part.identifier, _present(part.data), _present(part.pagination), _present(part.message))
        for part in known
    ]
    is_verbatim = _ENCODE(known) == body  # what reads and writes as the same bytes has no key twice
    return elements if is_verbatim or not _seems_repeated(dataset, body, elements) else _read_one_by_one(dataset, body)


# ---------------------------------------------------------------------------------------------------------------------


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that msgspec raises for invalid input; it checks a text's encoding only when it decodes the text."""

_ENCODE = msgspec.json.Encoder().encode
_ARRAY = msgspec.json.Decoder(list[Raw])
_ENVELOPE = msgspec.json.Decoder(Envelope)
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_TWICE = "\0twice"
_RECORDS = msgspec.json.Decoder(list[Raw] | None)
_TEXT = msgspec.json.Decoder(str)
_NULL = Raw(b"null")
_COUNT = re.compile(rb'"?([0-9]{1,15})(?:\.0+)?"?')
_DIGITS = re.compile(rb"[0-9]{1,15}")
_KNOWN = _names(Envelope)
_KNOWN_INSIDE = {"identifier": _names(Identifier), "pagination": _names(Pagination)}


def _data_type(dataset: str) -> Any:
    """Return the type of `data`: an array of records, or an object that holds only such arrays."""
    groups = DATASETS[dataset].groups
    if any(group.key is None for group in groups.values()):
        return list[Raw] | None
    fields = [(name, list[Raw], msgspec.field(name=group.key)) for name, group in groups.items()]
    return msgspec.defstruct("Groups", fields, forbid_unknown_fields=True, gc=False) | None


class _StrictPage(Pagination, frozen=True, gc=False, forbid_unknown_fields=True):
    """A paging object with known fields only."""


def _strict_decoder(dataset: str) -> msgspec.json.Decoder[list[Any]]:
    """Make a decoder for whole answers that accepts known fields only and tells absent ones from null."""
    text: Any = str | UnsetType | None
    identifier: Any = msgspec.defstruct(
        "StrictIdentifier",
        [
            ("country", str),
            ("company_number", str, msgspec.field(name="companyNumber")),
            ("name", text, UNSET),
            ("place", text, UNSET),
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("identifier", identifier),
        ("data", _data_type(dataset) | UnsetType, UNSET),
        ("pagination", _StrictPage | UnsetType | None, UNSET),
        ("message", text, UNSET),
    ]
    element: Any = msgspec.defstruct("Strict", fields, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[element])


_GROUP = {dataset: next(iter(of_dataset.groups)) for dataset, of_dataset in DATASETS.items()}
_STRICT = {dataset: _strict_decoder(dataset) for dataset in DATASETS}


def _read_one_by_one(dataset: str, body: bytes) -> list[Element]:
    """Read a body that the strict decoder rejects, element by element."""
    try:
        parts = _ARRAY.decode(body)
    except _UNREADABLE as error:
        raise UnusableAnswerError(
            f"the answer is not a JSON array ({_shorten(str(error))}): {_glimpse(body)}"
        ) from None
    return [_read_element(dataset, part) for part in parts]


def _seems_repeated(dataset: str, body: bytes, elements: list[Element]) -> bool:
    """Tell whether a key of the envelope may stand twice in an element; of two values the decoder keeps the last.

    Each element has one identifier, and so may each record of relationships; keys inside an identifier are counted
    by all there are of them. Texts may hold what looks like a key: then it is only looked at more closely.
    """
    records = sum(len(group) for one in elements for group in (one.records or {}).values())
    related = records if dataset == "relationships" else 0
    named = len(elements) + (records if dataset != "financials" else 0)
    at_most = {
        b'"identifier"': len(elements) + related,
        b'"country"': named,
        b'"companyNumber"': named,
        b'"name"': len(elements) + 2 * related,
        b'"place"': len(elements) + related,
        b'"data"': len(elements),
        b'"pagination"': len(elements),
        b'"total"': len(elements),
    }
    return any(body.count(key) > count for key, count in at_most.items())


def _repeated_key(raw: Raw) -> str:
    """Find a key that stands twice in an element outside its records; empty where there is none."""

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        return {**dict(pairs), _TWICE: twice} if twice is not None else dict(pairs)

    try:
        element = json.loads(bytes(raw), object_pairs_hook=keep, parse_int=str, parse_float=str)
    except ValueError:  # records are read by whoever wants them
        return ""
    parts = [element, *(element.get(name) for name in _KNOWN_INSIDE)] if isinstance(element, dict) else []
    return next((part[_TWICE] for part in parts if isinstance(part, dict) and _TWICE in part), "")


def _read_element(dataset: str, raw: Raw) -> Element:
    """Read an element part by part, so that one unexpected part does not affect the others."""
    try:
        envelope = _ENVELOPE.decode(raw)
        if twice := _repeated_key(raw):
            return Element(None, problem=f"element not understood: {_shorten(twice)} stands there twice")
        identifier = _read_identifier(_KEYS.decode(envelope.identifier))
        unknown = tuple(_unknown_keys(dataset, raw, envelope.data))
    except _UNREADABLE as error:
        return Element(None, problem=f"element not understood: {_shorten(str(error))}")
    try:
        data, problem = _read_data(dataset, envelope.data), ""
    except _UNREADABLE as error:
        data, problem = None, f"data not understood: {_shorten(str(error))}"
    page, message = _read_page(envelope.pagination), _read_text(envelope.message)
    if message is None and bytes(envelope.message) not in (b"null", b'""'):
        message = _shorten(bytes(envelope.message).decode("utf-8", "replace"))
    element = _judge(dataset, identifier, data, page, message)
    return msgspec.structs.replace(element, unknown=(*unknown, *element.unknown), problem=problem or element.problem)


def _read_identifier(keys: dict[str, Raw]) -> Identifier:
    """Read an identifier; a company number may be a JSON number, and a name or place that is not a text is ignored."""
    number = _read_text(keys.get("companyNumber", _NULL))
    if number is None and _DIGITS.fullmatch(digits := bytes(keys.get("companyNumber", _NULL))):
        number = digits.decode()
    country, name, place = (_read_text(keys.get(key, _NULL)) for key in ("country", "name", "place"))
    return Identifier(country or "", number or "", name, place)


def _read_data(dataset: str, data: Raw) -> Any:
    """Read records by group; an absent group is empty, and an open group that is not an array counts as one record."""
    groups = DATASETS[dataset].groups
    if any(group.key is None for group in groups.values()):
        return _RECORDS.decode(data)
    if bytes(data) in (b"null", b"[]"):  # some languages write [] for an empty object
        return None if bytes(data) == b"null" else {name: [] for name in groups}
    content = _KEYS.decode(data)
    values = {name: content.get(group.key or "", _NULL) for name, group in groups.items()}
    return {
        name: _RECORDS.decode(value) or [] if bytes(value)[:1] in b"[n" or not groups[name].is_open else [value]
        for name, value in values.items()
    }


def _read_page(pagination: Raw) -> Pagination | None:
    """Read the paging object; None if offset or total is missing or not a count."""
    try:
        keys = _KEYS.decode(pagination)
    except _UNREADABLE:
        return None
    limit, offset, total = (_read_count(keys.get(key, _NULL)) for key in ("limit", "offset", "total"))
    return None if total is None or offset is None else Pagination(limit or 0, offset, total)


def _read_count(value: Raw) -> int | None:
    """Read a count; 45.0 and "45" are accepted."""
    found = _COUNT.fullmatch(bytes(value))
    return int(found[1]) if found else None


def _read_text(value: Raw) -> str | None:
    try:
        return _TEXT.decode(value)
    except _UNREADABLE:
        return None


def _present(value: Any) -> Any:
    """Return None for a field that the strict decoder did not find."""
    return None if value is UNSET else value


def _judge(dataset: str, identifier: Identifier, data: Any, page: Pagination | None, message: str | None) -> Element:
    """Make an element from parts of the right types."""
    company = normal_form(identifier.country, identifier.company_number)
    records, total, offset, problem = None, None, None, ""
    if data is not None and not isinstance(data, dict):
        data = {_GROUP[dataset]: data} if isinstance(data, list) else msgspec.structs.asdict(data)
    unknown: tuple[str, ...] = ()
    if data is not None and message and any(data.values()):
        message, unknown = None, ("message",)  # such as OK; the number of records is checked anyway
    if data is None:
        problem = "" if message else "neither data nor message"
    elif message:
        records = None  # the message tells more than the empty array beside it
    elif page is None and DATASETS[dataset].is_paged:
        problem = "data without pagination, so the number of records is unknown"
    else:
        records = data
        if page:
            total, offset = page.total, page.offset
    return Element(
        company,
        _present(identifier.name),
        _present(identifier.place),
        records,
        total,
        offset,
        message and _shorten(message),
        problem,
        unknown,
    )


def _unknown_keys(dataset: str, raw: Raw, data: Raw) -> Iterable[str]:
    """Yield unknown keys of the element and of the objects in it, except in records."""
    element = _KEYS.decode(raw)
    yield from sorted(element.keys() - _KNOWN)
    for key, known in _KNOWN_INSIDE.items():
        if key in element:
            yield from (f"{key}.{name}" for name in sorted(_keys(element[key]) - known))
    group_keys = {group.key for group in DATASETS[dataset].groups.values()}
    if None not in group_keys:
        yield from (f"data.{name}" for name in sorted(_keys(data) - group_keys))


def _keys(raw: Raw) -> set[str]:
    return set(_KEYS.decode(raw)) if bytes(memoryview(raw)[:1]) == b"{" else set()


def _shorten(text: str) -> str:
    """Make a text of the service safe for one line, without redaction: equal answers must give equal texts."""
    return shown(" ".join(text[:_MESSAGE_MAX].split()))[:_MESSAGE_MAX]


def _glimpse(body: bytes) -> str:
    start = one_line(body[:LOOKED_AT_MAX].decode("utf-8", "replace"), _GLIMPSE_MAX)
    return f"it starts {start!r}" if body else "it is empty"
