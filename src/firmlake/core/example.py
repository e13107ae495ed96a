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
_OPTIONAL = {
    "financials": {"country", "language"},
    "lookalikes": {"country", "language"},
    "relationships": {"country", "language"},
    "service_lists": {"type", "language"},
    "contacts": {"country", "language"},
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
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")|\{(\w+)\}')
_NUMBER, _ARRAY = "\0", "\1"
"""What the texts begin with that stand for a placeholder outside quotation marks, and for the elements of an array."""


class Example(NamedTuple):
    """A request by example.

    Attributes:
        method: `GET`, `POST` or `PUT`.
        path: The path, with placeholders.
        query: Names and values of parameters, with placeholders.
        headers: Names and values of headers, with placeholders.
        body: JSON, with a marked text for each placeholder outside quotation marks; None if there is no body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: Any

    @property
    def is_bulk(self) -> bool:
        """Whether one request may ask for several companies."""
        return bool(list(_arrays(self.body, "number")))

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
    """Read an example.

    Args:
        endpoint: `financials`, `lookalikes`, `relationships`, `service_lists` or `contacts`.
        text: The request line, headers, and after an empty line the body.

    Raises:
        SettingsError: The text is no request, or lacks a placeholder. The message names the setting.
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
    """Fill an example.

    Args:
        endpoint: The request that the example is for.
        text: The example.
        values: Value by placeholder; what is None is left out.
        rows: For an array of companies, the values of each: country, number, and for contacts a list of ids `contact`.
    """
    present = {name: str(value) for name, value in values.items() if value is not None}
    template = _template(endpoint, text, frozenset(present))
    shared = {name: json.dumps(value)[1:-1] for name, value in present.items()}
    shared |= {f"{name}#": _bare(value) for name, value in present.items()}
    elements = ",".join(template.row % {**shared, **_row(template, row)} for row in rows)
    return Filled(
        template.path % present,
        tuple((name, value % present) for name, value in template.query),
        tuple((name, value % present) for name, value in template.headers),
        (template.body % {**shared, "number_": elements}).encode(),
    )


def follow_examples(texts: Mapping[str, str], usual: Mapping[str, str]) -> dict[str, str]:
    """Return examples for the datasets that have only the usual one, as another dataset has one of its own.

    They get its header for the language. If it is a bulk request whose path names the dataset, they are like it in all
    else too, without its paging parameters.

    Args:
        texts: The example of each dataset.
        usual: The default of each.

    Raises:
        SettingsError: An example cannot be read.
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
    for name in {"number", "contact"} & set(_placeholders([example.body])):
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
    if isinstance(part, list) and len(part) == 1 and name in _placeholders(_without_arrays(part[0])):
        yield part


def _without_arrays(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_arrays(value) for key, value in part.items() if not isinstance(value, list)}
    return part


class _Template(NamedTuple):
    """The texts of an example with `%(name)s` for each placeholder; row and contact are elements of arrays."""

    path: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: str
    row: str
    contact: str


@lru_cache(maxsize=256)
def _template(endpoint: str, text: str, present: frozenset[str]) -> _Template:
    """Compile an example for requests with these values, because a body names up to 100 companies."""
    example = read_example(endpoint, text)
    known = present | {"country", "number", "contact"}
    elements = {"number": "", "contact": ""}

    def without(part: Any) -> Any:
        """Leave out what has no value, and put a mark in the place of the elements of arrays."""
        if isinstance(part, dict):
            kept = {key: without(value) for key, value in part.items() if known >= set(_placeholders_outside(value))}
            return {key: value for key, value in kept.items() if value != {} or part[key] == {}}
        if isinstance(part, list):
            name = next((name for name in elements if part in list(_arrays(part, name))[-1:]), None)
            if name is None:
                return [without(each) for each in part if known >= set(_placeholders_outside(each))]
            elements[name] = _json(without(part[0]))
            return [_ARRAY + name]
        return part

    body = "" if example.body is None else _json(without(example.body))
    return _Template(
        _plain(example.path),
        tuple((name, _plain(value)) for name, value in example.query if known >= set(_placeholders(value))),
        tuple((name, _plain(value)) for name, value in example.headers if known >= set(_placeholders(value))),
        body,
        elements["number"],
        elements["contact"],
    )


def _placeholders_outside(part: Any) -> Iterator[str]:
    """Yield the placeholders of a text; objects and arrays lose theirs one by one."""
    return _placeholders(part) if isinstance(part, str) else iter(())


def _plain(text: str) -> str:
    return _PLACEHOLDER.sub(r"%(\1)s", text.replace("%", "%%"))


def _json(part: Any) -> str:
    """Write JSON with `%(name)s` for a placeholder, `%(name#)s` outside quotation marks, `%(name_)s` for elements."""
    text = json.dumps(part, ensure_ascii=False, separators=(",", ":")).replace("%", "%%")
    text = re.sub(r'"\\u0001(\w+)"', r"%(\1_)s", re.sub(r'"\\u0000(\w+)"', r"%(\1#)s", text))
    return _PLACEHOLDER.sub(r"%(\1)s", text)


def _bare(value: str) -> str:
    """Write a value that stands outside quotation marks: a number without leading zeros, or else a text."""
    return str(int(value)) if value.isdecimal() else json.dumps(value)


def _row(template: _Template, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add to the values of a company what its element needs besides."""
    if "#)s" in template.row:
        row = {**row, **{f"{name}#": _bare(row[name]) for name in ("country", "number")}}
    if not template.contact:
        return row
    contacts = ({"contact": json.dumps(each)[1:-1], "contact#": _bare(each)} for each in row["contact"])
    return {**row, "contact_": ",".join(template.contact % each for each in contacts)}
