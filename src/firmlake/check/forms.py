"""What the example of a request names, and other ways to write it: with other names, and as other services have it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from firmlake.core.example import Example, read_example
from firmlake.core.settings import ApiSettings

_FLAT = {"country": "{country}", "companyNumber": "{number}"}
_ELEMENTS: tuple[Any, ...] = (
    {"countryCode": "{country}", "companyNumber": "{number}"},
    _FLAT,
    {"companyId": _FLAT},
    {"identifier": _FLAT},
    "{country}{number}",
    {"country": "{country}", "number": "{number}"},
    {"country": "{country}", "id": "{number}"},
    {"countryCode": "{country}", "companyNumber": "\0number"},
    {"country": "{country}", "companyNumber": "\0number"},
)
_ARRAYS = ("companies", "", "identifiers", "companyIds", "items")
"""Names of the array of companies; "" for an array that is the whole body."""
_WRAPPERS = ("", "request")
_PAGES = (
    ("limit", "offset"), ("pageSize", "skip"), ("size", "offset"), ("take", "skip"), ("limit", "skip"),
    ("page_size", "page_offset"), ("perPage", "offset"), ("per_page", "offset"), ("size", "from"), ("rows", "start"),
    ("maxResults", "startIndex"), ("maxResults", "firstResult"), ("count", "offset"), ("top", "skip"),
    ("$top", "$skip"),
)  # fmt: skip
_PLACES = ("body", "query", "pagination", "paging", "page")
"""Where the paging parameters may be: in the body, in the query, or in an object of the body."""


def example_of(api: ApiSettings, dataset: str) -> Example:
    """Return the example of a request for a dataset."""
    return read_example(dataset, getattr(api.requests, dataset))


def get_example(api: ApiSettings, dataset: str) -> Example:
    """Return the example of a GET for one company, as the specification has it, with the headers and names of ours."""
    ours = example_of(api, dataset)
    if ours.method == "GET":
        return ours
    names = {role: name for role, name in roles_of(ours).items() if role in ("limit", "offset")}
    query = tuple((name, f"{{{role}}}") for role, name in names.items())
    return Example("GET", f"/v1/companies/{{country}}/{{number}}/{dataset}", query, ours.headers, None)


def roles_of(example: Example) -> dict[str, str]:
    """Return the names in an example by what they stand for."""
    found: dict[str, str] = {}

    def look(part: Any) -> None:
        for key, value in part.items() if isinstance(part, dict) else ():
            if role := _role_of(value):
                found.setdefault(role, key)
            look(value)
        for each in part if isinstance(part, list) else ():
            look(each)

    look(dict(example.query))
    look(example.body)
    return found


def renamed(example: Example, names: dict[str, str]) -> Example:
    """Give the keys of the body and the parameters of the query other names."""

    def rename(part: Any) -> Any:
        if isinstance(part, dict):
            return {names.get(key, key): rename(value) for key, value in part.items()}
        return [rename(each) for each in part] if isinstance(part, list) else part

    query = tuple((names.get(name, name), value) for name, value in example.query)
    return example._replace(query=query, body=rename(example.body))


def with_page(example: Example, limit: str, offset: str) -> Example:
    """Add the paging parameters to the object that holds the array of companies, or to the query if none does."""
    if not isinstance(example.body, dict):
        return example._replace(query=(*example.query, (limit, "{limit}"), (offset, "{offset}")))
    page = {limit: "\0limit", offset: "\0offset"}
    (key, inner), *others = example.body.items()
    is_wrapper = not others and isinstance(inner, dict)
    return example._replace(body={key: {**inner, **page}} if is_wrapper else {**example.body, **page})


def forms(ours: Example) -> Iterator[Example]:
    """Yield bulk requests for the same dataset as other services write them, the likeliest first."""
    page = {name: f"\0{role}" for role, name in roles_of(ours).items() if role in ("limit", "offset")}
    for wrapper, array, element in sorted(product(_WRAPPERS, _ARRAYS, _ELEMENTS), key=_unlikeliness):
        body: Any = {array: [element], **page} if array else [element]
        query = ours.query if array else tuple((name, f"{{{value[1:]}}}") for name, value in page.items())
        yield ours._replace(method="POST", query=query, body={wrapper: body} if wrapper else body)


def pagings(ours: Example) -> Iterator[Example]:
    """Yield the same request with its paging parameters in other places and under other names."""
    names = roles_of(ours)
    usual = (names.get("limit", "limit"), names.get("offset", "offset"))
    pairs = list(dict.fromkeys([usual, *_PAGES]))
    for place, pair in sorted(product(_PLACES, pairs), key=lambda each: _PLACES.index(each[0]) + pairs.index(each[1])):
        bare = ours._replace(body=_without_paging(ours.body), query=tuple(_other_parameters(ours)))
        if place == "query" or not isinstance(bare.body, dict):
            query = ((pair[0], "{limit}"), (pair[1], "{offset}"))
            yield bare._replace(query=(*bare.query, *query))
        else:
            page = {pair[0]: "\0limit", pair[1]: "\0offset"}
            yield bare._replace(body={**bare.body, **(page if place == "body" else {place: page})})


def _unlikeliness(form: tuple[str, str, Any]) -> int:
    wrapper, array, element = form
    return 3 * _WRAPPERS.index(wrapper) + 2 * _ARRAYS.index(array) + _ELEMENTS.index(element)


def _without_paging(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    kept = {key: _without_paging(value) for key, value in body.items() if _role_of(value) not in ("limit", "offset")}
    return {key: value for key, value in kept.items() if value != {}}


def _other_parameters(example: Example) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in example.query if _role_of(value) not in ("limit", "offset"))


def _role_of(value: Any) -> str | None:
    """Return what a value in an example stands for."""
    if isinstance(value, list):
        return "companies"
    text = value.replace("\0", "{") if isinstance(value, str) else ""
    roles = {"{number": "company_number", "{country": "country", "{limit": "limit", "{offset": "offset"}
    return next((role for mark, role in roles.items() if mark in text), None)
