"""Split an answer into elements: the company of each, and its records as received.

Records stay bytes: fetching needs only their number, and `firmlake.tables` reads them.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import DATASETS, Envelope, Identifier, Pagination
from firmlake.core.company import Company, normal_form
from firmlake.core.errors import UnusableAnswerError
from firmlake.core.reasons import Reason, make_reason
from firmlake.core.text import LOOKED_AT_MAX, one_line, shown

_GLIMPSE_MAX = 60


def read_answer(dataset: str, body: bytes) -> list[Element]:
    """Split the body of a bulk answer into elements; a broken element does not affect the others.

    Raises:
        UnusableAnswerError: The body is not a JSON array. Ask again.
    """
    try:
        known = _STRICT[dataset].decode(body)
    except UNREADABLE:
        return _read_one_by_one(dataset, repaired(body))
    encoded = _ENCODE(known)
    if encoded != body and _count_members(encoded) != _count_members(body):  # of a repeated key, one value was kept
        return _read_one_by_one(dataset, body)
    return [
        make_element(dataset, part.identifier, part.data, present(part.pagination), present(part.message))
        for part in known
    ]


# ---------------------------------------------------------------------------------------------------------------------


_ENCODE = msgspec.json.Encoder().encode
_ARRAY = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


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


_STRICT = {dataset: _strict_decoder(dataset) for dataset in DATASETS}


def _read_one_by_one(dataset: str, body: bytes) -> list[Element]:
    """Read a body that the strict decoder rejects, element by element."""
    with contextlib.suppress(*UNREADABLE):
        if "identifier" in _OBJECT.decode(body):  # the answer to a GET for one company is one element
            return [read_element(dataset, Raw(body))]
    try:
        parts = _ARRAY.decode(body)
    except UNREADABLE as error:
        raise UnusableAnswerError(f"the answer is not a JSON array ({shorten(str(error))}): {_glimpse(body)}") from None
    return [read_element(dataset, part) for part in parts]


def _count_members(answer: bytes) -> int:
    """Count the members of all objects, in any spelling, apart from a constant that records contribute.

    Records are the same bytes in an answer and in what was decoded of it, so they add the same number to both. Around
    them all keys are known words: outside a text, a letter or digit precedes `":`, and inside a text a backslash does.
    """
    compact = msgspec.json.format(answer, indent=-1)
    return compact.count(b'":') - compact.count(b'\\":')


def _glimpse(body: bytes) -> str:
    start = one_line(body[:LOOKED_AT_MAX].decode("utf-8", "replace"), _GLIMPSE_MAX)
    return f"it starts {start!r}" if body else "it is empty"


_SIGN = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|-?\b(?:NaN|Infinity)\b', re.DOTALL)
"""A text, or one of the words that stand for numbers."""
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
"""A surrogate pair, half of one, or another escape."""


def repaired(body: bytes) -> bytes:
    r"""Repair values that some services write although JSON does not allow them, so that none costs an answer.

    NaN, Infinity and -Infinity are put in quotes; such a text does not fit its field, which is recorded. Half a
    surrogate pair, as in a text that was cut inside a character, becomes U+FFFD.

    Example:
        >>> repaired(rb'{"ebit": NaN, "name": "NaN \ud83d"}')
        b'{"ebit": "NaN", "name": "NaN \\ufffd"}'
    """
    if not _SIGN.search(body):
        return body
    content, position = bytearray(), 0  # a list of parts would take many times the memory of a hostile body
    for token in _TOKEN.finditer(body):
        if _SIGN.search(token[0]):
            content += body[position : token.start()] + _repair(token[0])
            position = token.end()
    return bytes(content + body[position:])


def _repair(token: bytes) -> bytes:
    if not token.startswith(b'"'):
        return b'"%b"' % token
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], token)


_MESSAGE_MAX = 300
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that msgspec raises for invalid input; it checks a text's encoding only when it decodes the text."""
_ENVELOPE = msgspec.json.Decoder(Envelope)
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_TWICE = "\0twice"
_RECORDS = msgspec.json.Decoder(list[Raw] | None)
_TEXT = msgspec.json.Decoder(str)
_NULL = Raw(b"null")
_COUNT = re.compile(rb'"?([0-9]{1,15})(?:\.0+)?"?')
_DIGITS = re.compile(rb"[0-9]{1,15}")


class Paging(NamedTuple):
    """A paging object as far as it can be read."""

    limit: int | None = None
    offset: int | None = None
    total: int | None = None


class Element(msgspec.Struct, frozen=True, gc=False):
    """The part of an answer about one company.

    Attributes:
        company: The company in normal form; None if the identifier is not a valid company.
        records: The records as received, by group of the dataset; None if there is no data.
        total: Number of the company's records at the service; None if the answer lacks it, or lacks the offset.
        offset: Number of records before these; None if the answer lacks it.
        limit: The page size that the service used; None if the answer lacks it.
        message: The service's message instead of records, or beside an empty array.
        problem: Why the element cannot be used; None if it can.
        unknown: Paths of fields that are not in the contract.
    """

    company: Company | None
    name: str | None = None
    place: str | None = None
    records: dict[str, list[Raw]] | None = None
    total: int | None = None
    offset: int | None = None
    limit: int | None = None
    message: str | None = None
    problem: Reason | None = None
    unknown: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(map(len, self.records.values())) if self.records else 0


def read_element(dataset: str, raw: Raw) -> Element:
    """Read an element part by part, so that one unexpected part does not affect the others."""
    try:
        envelope = _ENVELOPE.decode(raw)
        if twice := _repeated_key(raw):
            return Element(None, problem=make_reason("unreadable_element", problem=f"{shorten(twice)} occurs twice"))
        identifier = _read_identifier(_KEYS.decode(envelope.identifier))
        unknown = tuple(_unknown_keys(dataset, raw, envelope.data))
    except (*UNREADABLE, json.JSONDecodeError) as error:
        return Element(None, problem=make_reason("unreadable_element", problem=shorten(str(error))))
    try:
        data, problem = _read_data(dataset, envelope.data), None
    except UNREADABLE as error:
        data, problem = None, make_reason("unreadable_data", problem=shorten(str(error)))
    page, message = _read_page(envelope.pagination), _read_text(envelope.message)
    if message is None and bytes(envelope.message) not in (b"null", b'""'):
        message = shorten(bytes(envelope.message).decode("utf-8", "replace"))
    element = make_element(dataset, identifier, data, page, message)
    unknown += element.unknown
    if problem:
        return msgspec.structs.replace(element, records=None, unknown=unknown, problem=problem)
    return msgspec.structs.replace(element, unknown=unknown)


def make_element(
    dataset: str,
    identifier: Identifier,
    data: Any,
    page: Pagination | Paging | None,
    message: str | None,
) -> Element:
    """Make an element from parts of the right types.

    Data is UNSET if its key is absent. Some services leave out empty arrays, or write null. Without a message, such an
    element means that there are no records if it has a total of 0 or a name or place, which only successful results
    have.

    References:
        Specification, "Company identifier (`identifier`)".
    """
    company = normal_form(identifier.country, identifier.company_number)
    name, place, page = present(identifier.name), present(identifier.place), page or Paging()
    is_empty = page.total == 0 or name or place
    if data is UNSET or (data is None and not message):
        data = {group: [] for group in DATASETS[dataset].groups} if is_empty else None
    if data is not None and not isinstance(data, dict):
        data = {_GROUP[dataset]: data} if isinstance(data, list) else msgspec.structs.asdict(data)
    unknown: tuple[str, ...] = ()
    if data is not None and message and any(data.values()):
        message, unknown = None, ("message",)  # for example OK beside data
    problem = None if data is not None or message else make_reason("nothing_said")
    if company is None:
        given = shorten(f"{identifier.country} {identifier.company_number}")
        problem = make_reason("no_company_number", given=repr(given))
    return Element(
        company,
        name,
        place,
        data,
        None if page.offset is None and DATASETS[dataset].is_paged else page.total,
        page.offset,
        page.limit,
        message and shorten(message),
        problem,
        unknown,
    )


def shorten(text: str) -> str:
    """Make a text of the service safe for one line. It is not redacted, because equal answers must give equal texts."""
    return shown(" ".join(text[:_MESSAGE_MAX].split()))[:_MESSAGE_MAX]


def present(value: Any) -> Any:
    """Return None for a field that the strict decoder did not find."""
    return None if value is UNSET else value


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


_KNOWN = _names(Envelope)
_KNOWN_INSIDE = {"identifier": _names(Identifier), "pagination": _names(Pagination)}
_GROUP = {dataset: next(iter(of_dataset.groups)) for dataset, of_dataset in DATASETS.items()}


def _repeated_key(raw: Raw) -> str:
    """Find a key that occurs twice in an element outside its records; empty if there is none."""

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        return {**dict(pairs), _TWICE: twice} if twice is not None else dict(pairs)

    text = bytes(raw).decode("utf-8", "replace")  # texts are checked when they are decoded
    element = json.loads(text, object_pairs_hook=keep, parse_int=str, parse_float=str)
    parts = [element, *(element.get(name) for name in (*_KNOWN_INSIDE, "data"))] if isinstance(element, dict) else []
    return next((part[_TWICE] for part in parts if isinstance(part, dict) and _TWICE in part), "")


def _read_identifier(keys: dict[str, Raw]) -> Identifier:
    """Read an identifier; a company number may be a JSON number, and a name or place that is not a text is ignored."""
    number = _read_text(keys.get("companyNumber", _NULL))
    if number is None and _DIGITS.fullmatch(digits := bytes(keys.get("companyNumber", _NULL))):
        number = digits.decode()
    country, name, place = (_read_text(keys.get(key, _NULL)) for key in ("country", "name", "place"))
    return Identifier(country or "", number or "", name, place)


def _read_data(dataset: str, data: Raw) -> Any:
    """Read records by group; an absent group is empty, and an open group that is not an array counts as one record.

    An absent key is UNSET.
    """
    if not bytes(data):
        return UNSET
    groups = DATASETS[dataset].groups
    if any(group.key is None for group in groups.values()):
        return _RECORDS.decode(data)
    if bytes(data) in (b"null", b"[]"):  # some JSON libraries write [] for an empty object
        return None if bytes(data) == b"null" else {name: [] for name in groups}
    content = _KEYS.decode(data)
    values = {name: content.get(group.key or "", _NULL) for name, group in groups.items()}
    return {name: _read_group(value, is_open=groups[name].is_open) for name, value in values.items()}


def _read_group(value: Raw, *, is_open: bool) -> list[Raw]:
    """Read the records of a group; PHP writes an array with gaps as an object whose keys are numbers."""
    if bytes(value)[:1] in b"[n" or not is_open:
        return _RECORDS.decode(value) or []
    keys = _KEYS.decode(value) if bytes(value)[:1] == b"{" else {}
    return list(keys.values()) if keys and all(key.isdecimal() for key in keys) else [value]


def _read_page(pagination: Raw) -> Paging:
    """Read the paging object; what is missing or not a count is None."""
    try:
        keys = _KEYS.decode(pagination)
    except UNREADABLE:
        return Paging()
    return Paging(*(_read_count(keys.get(key, _NULL)) for key in Paging._fields))


def _read_count(value: Raw) -> int | None:
    """Read a count; 45.0 and "45" are accepted."""
    found = _COUNT.fullmatch(bytes(value))
    return int(found[1]) if found else None


def _read_text(value: Raw) -> str | None:
    """Read a text, with U+FFFD for bytes that are not UTF-8; None for anything else."""
    try:
        return _TEXT.decode(bytes(value).decode("utf-8", "replace"))
    except UNREADABLE:
        return None


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
