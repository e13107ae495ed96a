"""Split an answer into elements: the company of each, and its records as received.

Records stay bytes: fetching needs only their number, and `firmlake.tables` reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company, company_among, normal_form
from firmlake.core.errors import Reason, UnusableAnswerError, make_reason
from firmlake.core.settings import NameSettings
from firmlake.core.text import LOOKED_AT_MAX, one_line, plain_key, shown

_GLIMPSE_MAX = 60
NOT_FOUND = (204, 404)
"""Statuses of an answer about a company that the service does not know; 204 only where a GET names it alone."""

_ARRAY = msgspec.json.Decoder(list[Raw])
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_RECORDS = msgspec.json.Decoder(list[Raw] | None)
_TEXT: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that msgspec raises for invalid input; it checks a text's encoding only when it decodes the text."""
_ABSENT, _NULL = Raw(b""), Raw(b"null")
_KNOWN = {
    "": {"identifier", "data", "pagination", "message"},
    "identifier": {"country", "companyNumber", "name", "place"},
    "pagination": {"limit", "offset", "total"},
}
"""The keys of an element and of the objects in it."""
_GROUP = {dataset: next(iter(of_dataset.groups)) for dataset, of_dataset in DATASETS.items()}
_COUNT = re.compile(rb'"?([0-9]{1,15})(?:\.0+)?"?')
_MESSAGE_MAX = 300


class Paging(NamedTuple):
    """A paging object as far as it can be read."""

    limit: int | None = None
    offset: int | None = None
    total: int | None = None


class Element(msgspec.Struct, frozen=True, gc=False):
    """The part of an answer about one company."""

    company: Company | None  # in normal form; None if the identifier is not a valid company
    name: str | None = None
    place: str | None = None
    records: dict[str, list[Raw]] | None = None  # as received, by group of the dataset; None if there is no data
    total: int | None = None  # of the company's records at the service; None if it or the offset is missing
    offset: int | None = None  # number of records before these; None if the answer lacks it
    limit: int | None = None  # page size that the service used; None if the answer lacks it
    message: str | None = None  # the service's, instead of records or beside an empty array
    problem: Reason | None = None  # why the element cannot be used; None if it can
    unknown: tuple[str, ...] = ()  # paths of fields that are not in the contract
    count: int = 0  # of the records


def read_answer(dataset: str, body: bytes) -> list[Element]:
    """Split the body of a bulk answer into elements; a broken element does not affect the others, and null is none.

    If the body is not a JSON array (UnusableAnswerError), ask again.
    """
    body = _unwrapped(body)
    with suppress(*UNREADABLE):
        return _read_plain(dataset, body)
    try:
        parts = _split(body)
    except UNREADABLE:
        try:
            parts = _split(repaired(body))
        except UNREADABLE as error:
            said = f"the answer is not a JSON array ({shorten(str(error))}): {_glimpse(body)}"
            raise UnusableAnswerError(said) from None
    return [_read_element(dataset, part) for part in parts if bytes(memoryview(part)[:5]) != b"null"]


def _read_plain(dataset: str, body: bytes) -> list[Element]:
    """Read an answer with known keys only, each once and with a value of its usual type; any other is a DecodeError."""
    answer = _PLAIN[dataset].decode(body)
    encoded = _ENCODE(answer)
    if len(encoded) < len(body) and _count_members(encoded) < _count_members(body):
        raise msgspec.DecodeError("a key occurs twice")  # one of its values was kept
    group, elements = _GROUP[dataset], []
    for part in answer:
        of, paging, data = part.identifier, part.pagination, part.data
        name, place, message = of.name, of.place, part.message
        if name is UNSET or place is UNSET or message is UNSET:
            name, place, message = (None if text is UNSET else text for text in (name, place, message))
        texts = (of.country, of.company_number, name, place)
        counts = (paging.limit, paging.offset, paging.total) if paging else (None, None, None)
        records = {group: data} if type(data) is list else msgspec.structs.asdict(data) if data else None
        elements.append(_make_element(dataset, texts, records, counts, message, data is not UNSET))
    return elements


_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]
_Text = str | UnsetType | None
_ENCODE = msgspec.json.Encoder().encode


class _PlainIdentifier(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    country: str
    company_number: str
    name: _Text = UNSET
    place: _Text = UNSET


class _PlainPaging(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    limit: _Count | None
    offset: _Count | None
    total: _Count | None


def _plain_decoder(dataset: str) -> msgspec.json.Decoder[list[Any]]:
    """Make a decoder of answers in their usual form, which tells absent members from null."""
    groups = DATASETS[dataset].groups
    data: Any = list[Raw]
    if all(group.key for group in groups.values()):
        fields = [(name, list[Raw], msgspec.field(name=group.key)) for name, group in groups.items()]
        data = msgspec.defstruct("Groups", fields, gc=False, forbid_unknown_fields=True)
    element: Any = msgspec.defstruct(
        "Element",
        [
            ("identifier", _PlainIdentifier),
            ("data", data | UnsetType | None, UNSET),
            ("pagination", _PlainPaging | UnsetType | None, UNSET),
            ("message", _Text, UNSET),
        ],
        gc=False,
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(list[element])


_PLAIN = {dataset: _plain_decoder(dataset) for dataset in DATASETS}


def _count_members(answer: bytes) -> int:
    """Count the members of all objects outside records, and with them a number that is the same for equal records.

    In compact JSON a letter or digit stands before `":` where a key ends, and a backslash where a text goes on.
    """
    compact = msgspec.json.format(answer, indent=-1)
    return compact.count(b'":') - compact.count(b'\\":')


def _unwrapped(body: bytes, depth: int = 2) -> bytes:
    """Return what an object holds if that is an array of elements, or one element, beside no other; or else the body.

    The array or element may be inside up to `depth` objects. An empty array may stand in for a refusal, so there must
    be no text and no error beside it.
    """
    members = dict[str, Raw]()
    if depth and body.lstrip().startswith(b"{"):
        with suppress(*UNREADABLE):
            members = _members(Raw(body))
    if _is_element(members):
        return body
    is_refusal = any(key.lower().startswith("err") or bytes(raw)[:1] == b'"' for key, raw in members.items())
    values = (_unwrapped(bytes(raw), depth - 1) for raw in members.values())
    inside = [value for value in values if _holds_elements(value, or_none=not is_refusal)]
    return inside[0] if len(inside) == 1 else body


def _holds_elements(value: bytes, *, or_none: bool) -> bool:
    with suppress(*UNREADABLE):
        parts = _ARRAY.decode(value) if value[:1] == b"[" else [value]
        return all(_is_element(_KEYS.decode(part)) for part in parts) and (or_none or bool(parts))
    return False


def _is_element(members: Mapping[str, Raw]) -> bool:
    return any(plain_key(key) == "identifier" for key in members)


def _split(body: bytes) -> list[Raw]:
    """Split an answer into elements; the answer to a GET for one company is one element."""
    if body.lstrip().startswith(b"{") and _is_element(_KEYS.decode(body)):
        return [Raw(body)]
    return _ARRAY.decode(body)


def _read_element(dataset: str, raw: Raw) -> Element:
    """Read an element part by part, so that one unexpected part does not affect the others."""
    groups = DATASETS[dataset].groups
    try:
        members = _usual(_members(raw))
        read = _members_if_any if "message" in members else _members  # a refusal may name no company
        identifier = _usual(read(members.get("identifier", _NULL)))
        paging = _usual(_members_if_any(members.get("pagination", _NULL)))
        inside = _usual(_members_if_any(members.get("data", _NULL)))
    except (*UNREADABLE, json.JSONDecodeError) as error:
        return Element(None, problem=make_reason("unreadable_element", problem=shorten(str(error))))
    unknown = [*sorted(members.keys() - _KNOWN[""])]
    unknown += [f"identifier.{key}" for key in sorted(identifier.keys() - _KNOWN["identifier"])]
    unknown += [f"pagination.{key}" for key in sorted(paging.keys() - _KNOWN["pagination"])]
    keys = {group.key for group in groups.values()}
    unknown += [] if None in keys else [f"data.{key}" for key in sorted(inside.keys() - keys)]

    number, country, name, place = (_read_text(identifier.get(key)) for key in _IDENTIFIER)
    if number is None and (named := company_of({**identifier, "name": _NULL, "place": _NULL})):
        country, number = named  # a JSON number, or under another key; drift notes that key
    limit, offset, total = (_read_count(paging.get(key)) for key in ("limit", "offset", "total"))

    said = members.get("message", _NULL)
    message, problem, data = _read_text(said), None, None
    if number is None and identifier:
        problem = make_reason(
            "no_number",
            given=shorten(msgspec.json.format(bytes(members["identifier"]), indent=0).decode("utf-8", "replace")),
        )
    if message is None and bytes(said) not in (b"null", b'""'):
        message = shorten(bytes(said).decode("utf-8", "replace"))
    try:
        data = _read_data(dataset, members.get("data", _ABSENT), inside)
    except UNREADABLE as error:
        problem = make_reason("unreadable_data", problem=shorten(str(error)))
    texts = (country, number, name, place)
    counts = (limit, offset, total)
    return _make_element(dataset, texts, data, counts, message, "data" in members, unknown, problem)


def _make_element(
    dataset: str,
    texts: Sequence[str | None],
    records: dict[str, list[Raw]] | None,
    counts: Sequence[int | None],
    message: str | None,
    has_data: bool,
    unknown: Sequence[str] = (),
    problem: Reason | None = None,
) -> Element:
    """Make an element of what was read: country, number, name and place; limit, offset and total.

    Some services leave out empty arrays, or write null. Without a message, such an element means that there are no
    records if it has a total of 0 or a name or place, which only successful results have.
    """
    country, number, name, place = texts
    limit, offset, total = counts
    company = normal_form(country or "", number or "")
    is_absent = not has_data or (records is None and not message)
    if is_absent and not problem and (total == 0 or name or place):
        records = {group: [] for group in DATASETS[dataset].groups}
    if message and records and any(records.values()):
        message = None  # for example OK beside data
        unknown = (*unknown, "message")
    if company is None:
        problem = problem or make_reason("no_company_number", given=repr(shorten(f"{country or ''} {number or ''}")))
    elif records is None and not message:
        problem = problem or make_reason("nothing_said")
    if offset is None and DATASETS[dataset].is_paged:
        total = None
    message = message and shorten(message)
    count = sum(map(len, records.values())) if records else 0
    return Element(company, name, place, records, total, offset, limit, message, problem, tuple(unknown), count)


def shorten(text: str) -> str:
    """Make a text of the service safe for one line. It is not redacted, because equal answers must give equal texts."""
    return shown(" ".join(text[:_MESSAGE_MAX].split()))[:_MESSAGE_MAX]


def tells_unknown(names: NameSettings, company: Company, status: int | None, said: str) -> bool:
    """Return whether the refusal of a request says that a company is unknown, in the words for that.

    A 404, which may be about the address, may also name the company. Other refusals name it for any reason.

    Example:
        >>> tells_unknown(NameSettings(), Company("BE", "0403227515"), 404, "No company 0403.227.515")
        True
        >>> tells_unknown(NameSettings(), Company("BE", "0403227515"), 404, "Not Found")
        False
    """
    return (status in NOT_FOUND and _is_named(company, said)) or says_unknown(names, company, said)


def named_in(said: str, companies: Sequence[Company]) -> list[Company]:
    """Return the companies that a refusal names; none if it names more than half, such as by repeating the request."""
    named = [company for company in companies if _is_named(company, said)]
    return named if 2 * len(named) <= len(companies) else []


def placed_in(said: str, companies: Sequence[Company]) -> list[Company]:
    """Return the companies that a refusal names by their places in the array; none if it names more than half.

    Example:
        >>> placed_in("companies.1 custom; companies[1] No", [Company("NL", "00000001"), Company("NL", "00000002")])
        [Company(country='NL', company_number='00000002')]
    """
    places = {int(found[1] or found[2]) for found in _PLACE.finditer(said)}
    return [company for place, company in enumerate(companies) if place in places and 2 * len(places) <= len(companies)]


_PLACE = re.compile(r"\b[A-Za-z_]+(?:\.([0-9]{1,4})|\[([0-9]{1,4})\])(?!\w)[\w.]*:?")
"""A path to an element of an array, such as companies.3.companyNumber or companies[3]."""


def words_at_places(said: str) -> list[str]:
    """Return what a refusal says about single elements of the array, without their places."""
    parts = said.split("; ")
    return list(dict.fromkeys(part[found.end() :].strip() for part in parts if (found := _PLACE.match(part))))


def _is_named(company: Company, said: str) -> bool:
    number = company.company_number.removeprefix("0")
    spellings = (said, re.sub(r"(?<=\d)[ .](?=\d)", "", said))
    return any(re.search(rf"(?<!\d)0*{number}(?!\d)", spelling) for spelling in spellings)


def says_unknown(names: NameSettings, company: Company, said: str) -> bool:
    """Return whether a message is the one for unknown companies, which may name the company.

    The specification's own words count beside those of the settings, since a service may answer in another language.
    """
    usual = {names.not_found_message.casefold(), NameSettings().not_found_message.casefold()}
    general = wording(company, said) if "{number}" in names.not_found_message else said
    return not usual.isdisjoint(map(str.casefold, (said, general, *words_at_places(said))))


def wording(company: Company, said: str) -> str:
    """Replace the country and number of a company in a message by placeholders.

    Example:
        >>> wording(Company("BE", "0403227515"), "Company BE/403227515 could not be found.")
        'Company {country}/{number} could not be found.'
    """
    number = company.company_number.lstrip("0")
    general = re.sub(rf"(?<!\d)0*{number}(?!\d)", "{number}", said)
    return said if general == said else re.sub(rf"\b{company.country}\b", "{country}", general)


def company_of(members: Mapping[str, Raw]) -> Company | None:
    """Return the only company that the texts and numbers of an object name; None if they name none, or several."""
    return company_among(text.decode() for raw in members.values() if (text := bytes(raw).strip(b'"')).isascii())


_IDENTIFIER = ("companyNumber", "country", "name", "place")


_USUAL = {
    plain_key(key): key
    for keys in (*_KNOWN.values(), *({group.key or "" for group in one.groups.values()} for one in DATASETS.values()))
    for key in keys
}


def _usual(members: dict[str, Raw]) -> dict[str, Raw]:
    """Return members under our keys where only capitals and underscores tell theirs from ours, which are not there."""
    ours = {key: _USUAL.get(plain_key(key), key) for key in members}
    return {key if ours[key] in members else ours[key]: raw for key, raw in members.items()}


def _members_if_any(raw: Raw) -> dict[str, Raw]:
    return _members(raw) if bytes(memoryview(raw)[:1]) == b"{" else {}


def _members(raw: Raw) -> dict[str, Raw]:
    """Return the members of an object; DecodeError if a key occurs twice, since JSON leaves open which value counts."""
    members = _KEYS.decode(raw)
    if not _is_whole(raw, members):
        compact = msgspec.json.format(bytes(raw), indent=-1)
        if not _is_whole(compact, _KEYS.decode(compact)):
            text = compact.decode("utf-8", "replace")  # texts are checked when they are decoded
            names = [name for name, _ in _PAIRS.decode(text)]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise msgspec.DecodeError(f"{shorten(twice)} occurs twice")
    return members


def _is_whole(text: bytes | Raw, members: dict[str, Raw]) -> bool:
    """Return whether an object is as long as its members; it is longer if it has blanks, escapes, or a key twice."""
    inside = sum(map(len, members)) + sum(map(len, map(bytes, members.values())))
    return inside + 4 * len(members) + 1 == len(bytes(text))


_PAIRS = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str)


def _read_data(dataset: str, data: Raw, inside: dict[str, Raw]) -> dict[str, list[Raw]] | None:
    """Read records by group; an absent group is empty, and an open group that is not an array counts as one record."""
    groups = DATASETS[dataset].groups
    if bytes(memoryview(data)[:5]) in (b"", b"null"):
        return None
    if any(group.key is None for group in groups.values()):
        return {_GROUP[dataset]: _RECORDS.decode(data) or []}
    if not inside and bytes(data) != b"[]":  # some JSON libraries write [] for an empty object
        _KEYS.decode(data)
    values = {name: inside.get(group.key or "", _NULL) for name, group in groups.items()}
    return {name: _read_group(value, is_open=groups[name].is_open) for name, value in values.items()}


def _read_group(value: Raw, *, is_open: bool) -> list[Raw]:
    """Read the records of a group; PHP writes an array with gaps as an object whose keys are numbers."""
    if bytes(value)[:1] in b"[n" or not is_open:
        return _RECORDS.decode(value) or []
    keys = _KEYS.decode(value) if bytes(value)[:1] == b"{" else {}
    return list(keys.values()) if keys and all(key.isdecimal() for key in keys) else [value]


def _read_count(value: Raw | None) -> int | None:
    """Read a count; 45.0 and "45" are accepted, and None stands for anything else."""
    found = _COUNT.fullmatch(bytes(value or _NULL))
    return int(found[1]) if found else None


def _read_text(value: Raw | None) -> str | None:
    """Read a text, with U+FFFD for bytes that are not UTF-8; None for anything else."""
    try:
        return _TEXT.decode(value or _NULL)
    except UnicodeDecodeError:
        return _TEXT.decode(bytes(value or _NULL).decode("utf-8", "replace"))
    except UNREADABLE:
        return None


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
