"""A request by example: how the text of a setting under `api.requests` is read, and how it is filled.

An example is a request as the service's documentation shows it, with placeholders for what changes:

    POST /v1/companies/financials
    Accept-Language: {language}

    {"companies": [{"countryCode": "{country}", "companyNumber": "{number}"}], "limit": {limit}, "offset": {offset}}

The array that holds `{number}` gets an element for each company. A placeholder outside quotation marks is a JSON
number. What has no value is left out: without a page size, this body has no `limit`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec

from firmlake.core.errors import SettingsError
from firmlake.core.text import shown

_NEEDED = {
    "financials": {"number", "limit", "offset"},
    "lookalikes": {"number"},
    "relationships": {"number"},
    "service_lists": {"limit", "offset"},
    "contacts": {"list", "number", "contact"},
}
"""The placeholders of each request without which it cannot ask for what is wanted."""
_COUNTRY = ("country", "country_lower")
_OPTIONAL = {
    "financials": {*_COUNTRY, "language"},
    "lookalikes": {*_COUNTRY, "language"},
    "relationships": {*_COUNTRY, "language"},
    "service_lists": {"type", "language"},
    "contacts": {*_COUNTRY, "language"},
}
_OF_COMPANIES = ("financials", "lookalikes", "relationships")
_METHODS = ("GET", "POST", "PUT")
_SET_BY_US = {
    "host",
    "content-length",
    "transfer-encoding",
    "expect",
    "content-type",
    "accept",
    "accept-encoding",
    "user-agent",
    "connection",
}
"""Headers that firmlake sets itself; a copied example may show them."""
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([!-~][ -~]*)")  # RFC 9110, of printable ASCII
_PATH = re.compile(r"/[!-~]{0,2000}")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")|\{(\w+)\}')
_NUMBER = "\0"
"""What the texts begin with that stand for a placeholder outside quotation marks."""
_REPEATED = ("number", "contact")
"""The placeholders whose arrays get an element for each company, and for each contact of a company."""
_LOST: tuple[Any, ...] = (None, {})
"""What a part becomes for want of a value, and is left out then."""
_encode = msgspec.json.Encoder().encode


class Example(NamedTuple):
    """A request by example, with placeholders in all its parts but the method.

    The body is JSON with a marked text for each placeholder outside quotation marks; None if there is no body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: Any

    @property
    def is_bulk(self) -> bool:
        """Whether one request may ask for several companies."""
        return any(_arrays(self.body, "number"))

    @property
    def text(self) -> str:
        """The example as a setting has it."""
        query = "?" + urlencode(self.query, safe="{}$[]") if self.query else ""
        lines = [f"{self.method} {self.path}{query}", *(f"{name}: {value}" for name, value in self.headers)]
        if self.body is not None:
            lines += ["", re.sub(r'"\\u0000(\w+)"', r"{\1}", json.dumps(self.body, ensure_ascii=False))]
        return "\n".join(lines)


class Filled(NamedTuple):
    """A filled example. The body is JSON, empty if there is none."""

    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


@lru_cache(maxsize=256)
def read_example(endpoint: str, text: str) -> Example:
    """Read the example of a request: its first line, headers, and after an empty line the body.

    If the text is no request, or lacks a placeholder, the SettingsError names the setting.
    """
    head, _, body = re.sub(r"[ \t\r]+\n", "\n", text.strip() + "\n").partition("\n\n")
    first, *lines = head.splitlines() or [""]
    method, _, target = first.partition(" ")
    path, _, query = target.strip().removesuffix(" HTTP/1.1").partition("?")
    if method not in _METHODS or not _PATH.fullmatch(path):
        raise _wrong(
            endpoint,
            "its first line is not a method and a path",
            "Begin with a method and a path, such as POST /v1/companies/financials; the address is in api.base_url",
        )
    headers = tuple(_read_headers(endpoint, lines))
    example = Example(method, path, tuple(parse_qsl(query, True)), headers, _read_body(endpoint, body))
    _check(endpoint, example)
    return example


def fill(
    endpoint: str, text: str, values: Mapping[str, str | int | None], rows: Iterable[Mapping[str, Any]] = ()
) -> Filled:
    """Fill an example with a value for each placeholder; what is None is left out.

    The rows are for an array of companies, with the values of each: country, number, and for contacts a list of ids
    `contact`.
    """
    example = read_example(endpoint, text)
    given: dict[str, Any] = {name: str(value) for name, value in values.items() if value is not None}
    body = _filled(example.body, {**given, "number": [*rows]}) if example.body is not None else None
    return Filled(
        _filled(example.path, given),
        tuple((name, value) for name, part in example.query if (value := _filled(part, given)) is not None),
        tuple((name, value) for name, part in example.headers if (value := _filled(part, given)) is not None),
        b"" if example.body is None else _encode(body),
    )


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    """Fill a part of an example; None for a text that has a placeholder without a value, which is left out.

    An array that is repeated has a list of rows for a value: the values of each company, or the ids of contacts.
    """
    if isinstance(part, str):
        if part.startswith(_NUMBER):
            value = values.get(part[1:])
            return int(value) if value and value.isdecimal() else value
        names = _names_in(part)
        if not values.keys() >= names:
            return None
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), part) if names else part
    if isinstance(part, dict):
        return {key: new for key, old in part.items() if (new := _filled(old, values)) not in _LOST or new == old}
    if isinstance(part, list):
        if name := next((name for name in _REPEATED if _is_repeated(part, name)), ""):
            rows = [row if isinstance(row, dict) else {name: row} for row in values[name]]
            if fields := _plain_fields(part[0], rows):
                return [{key: row[field] for key, field in fields.items()} for row in rows]
            return [_filled(part[0], {**values, **row}) for row in rows]
        return [new for old in part if (new := _filled(old, values)) not in _LOST or new == old]
    return part


def _plain_fields(element: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the placeholder of each key, if all values are those of a company as they are, as nearly always."""
    names = {f"{{{name}}}": name for name in rows[0]} if rows else {}
    fields = {key: names.get(str(part)) for key, part in element.items()} if isinstance(element, dict) else {}
    return {} if None in fields.values() else fields


@lru_cache(maxsize=256)
def _names_in(text: str) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall(text))


def follow_examples(texts: Mapping[str, str], usual: Mapping[str, str]) -> dict[str, str]:
    """Return examples for the datasets that have only the usual one, as another dataset has one of its own.

    They get its header for the language. If it is a bulk request whose path names the dataset, they are like it in all
    else too, without its paging parameters. Both arguments have an example of each dataset.
    """
    ours = {name: read_example(name, usual[name]) for name in _OF_COMPANIES}
    own = {name: one for name in _OF_COMPANIES if (one := read_example(name, texts[name])) != ours[name]}
    language = [header for one in own.values() for header in one.headers if "{language}" in header[1]][:1]
    models = [(name, one) for name, one in own.items() if one.is_bulk and name in one.path]
    found = {}
    for dataset, like in ours.items():
        for name, model in models[:1]:
            like = without_paging(model)._replace(path=model.path.replace(name, dataset))
            like = with_page(like, ("limit", "offset")) if dataset == "financials" else like
        if language:
            others = (header for header in like.headers if "{language}" not in header[1])
            like = like._replace(headers=(*others, *language))
        with suppress(SettingsError):  # paging parameters where only financials may have them, such as in a header
            if dataset not in own and read_example(dataset, like.text) != ours[dataset]:
                found[dataset] = like.text
    return found


def with_page(example: Example, pair: tuple[str, str], place: str = "body") -> Example:
    """Add paging parameters to the body beside the companies, to an object of it, or (without a place) to the query."""
    limit, offset = pair
    if not place or not isinstance(example.body, dict):
        return example._replace(query=(*example.query, (limit, "{limit}"), (offset, "{offset}")))
    page: dict[str, Any] = {limit: f"{_NUMBER}limit", offset: f"{_NUMBER}offset"}
    page = page if place == "body" else {place: page}
    (key, inner), *others = example.body.items()
    is_wrapper = not others and isinstance(inner, dict)
    return example._replace(body={key: {**inner, **page}} if is_wrapper else {**example.body, **page})


def in_lower_case(example: Example) -> Example:
    """Return an example that writes the codes of countries in lower case."""
    body = json.loads(json.dumps(example.body).replace("{country}", "{country_lower}"))
    return example._replace(path=example.path.replace("{country}", "{country_lower}"), body=body)


def without_paging(example: Example) -> Example:
    """Return an example without the parameters of pages, and without objects that held nothing else."""

    def is_page(part: Any) -> bool:
        return isinstance(part, str) and not {"limit", "offset"}.isdisjoint(_placeholders(part))

    def without(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        kept = {key: without(value) for key, value in part.items() if not is_page(value)}
        return {key: value for key, value in kept.items() if value != {}}

    query = tuple((name, value) for name, value in example.query if not is_page(value))
    return example._replace(query=query, body=without(example.body))


def _wrong(endpoint: str, what: str, next_step: str) -> SettingsError:
    return SettingsError(f"api.requests.{endpoint} is not a request: {what}", next_step)


def _read_headers(endpoint: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 2):
        found = _HEADER.fullmatch(line.strip())
        if not found:
            step = "Write headers as NAME: VALUE, and an empty line before the body"
            raise _wrong(endpoint, f"its line {number} is not a header", step)
        if found[1].lower() in ("authorization", "cookie", "proxy-authorization"):
            step = "Remove that line; firmlake adds the token of FIRMLAKE_API_TOKEN or FIRMLAKE_API_TOKEN_FILE"
            raise _wrong(endpoint, f"it has a header {found[1]}, which may hold a secret", step)
        if found[1].lower() not in _SET_BY_US:
            yield found[1], found[2]


def _read_body(endpoint: str, text: str) -> Any:
    if not text.strip():
        return None
    marked = _TOKENS.sub(lambda found: found[1] or json.dumps(_NUMBER + found[2]), text)
    try:
        return json.loads(marked)
    except (ValueError, RecursionError) as error:
        step = "Paste the body as the documentation shows it, with placeholders such as {number} for what changes"
        raise _wrong(endpoint, f"its body is not JSON ({error})", step) from None


def _check(endpoint: str, example: Example) -> None:
    names = set(_placeholders([example.path, example.query, example.headers, example.body]))
    needed, known = _NEEDED[endpoint], _NEEDED[endpoint] | _OPTIONAL[endpoint]
    allowed = "Placeholders are " + ", ".join(f"{{{name}}}" for name in sorted(known))
    if unknown := sorted(names - known):
        raise _wrong(endpoint, f"{{{shown(unknown[0])}}} is not a placeholder", allowed)
    if lacking := sorted(needed - names):
        raise _wrong(endpoint, f"it has no {{{lacking[0]}}}", allowed)
    for name in {*_REPEATED} & set(_placeholders([example.body])):
        if len(list(_arrays(example.body, name))) != 1:
            step = "Show one array with one element; firmlake repeats the element"
            raise _wrong(endpoint, f"{{{name}}} is not in the only element of one array", step)


def _placeholders(part: Any) -> Iterator[str]:
    """Yield the names of the placeholders in nested lists, objects and texts."""
    if isinstance(part, str):
        yield from [part[1:]] if part.startswith(_NUMBER) else _PLACEHOLDER.findall(part)
    elif isinstance(part, dict):
        yield from _placeholders(list(part.values()))
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _placeholders(each)


def _arrays(part: Any, name: str) -> Iterator[list[Any]]:
    """Yield the arrays of one element that hold a placeholder outside an inner array."""
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for child in children:
        yield from _arrays(child, name)
    if isinstance(part, list) and _is_repeated(part, name):
        yield part


def _is_repeated(array: list[Any], name: str) -> bool:
    return len(array) == 1 and name in _placeholders(_without_arrays(array[0]))


def _without_arrays(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_arrays(value) for key, value in part.items() if not isinstance(value, list)}
    return part
