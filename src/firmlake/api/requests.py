"""Build requests for companies, service lists and contacts from the examples in the settings, without sending them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from firmlake.core.company import Company
from firmlake.core.example import Example, fill, read_example
from firmlake.core.settings import ApiSettings

ListKind = Literal["STATIC", "SMART", "OVERVIEW"]
Method = Literal["GET", "POST", "PUT"]


class Request(msgspec.Struct, frozen=True):
    """One request to the service, complete except for its address and token."""

    endpoint: str  # a dataset, `service_lists` or `contacts`
    method: Method
    path: str  # below the service's base URL, beginning with `/`
    query: tuple[tuple[str, str], ...] = ()  # in order, unescaped
    body: bytes = b""  # JSON; empty for a GET
    companies: tuple[Company, ...] = ()  # in the order of the body; () for `service_lists`
    limit: int | None = None  # most records for each company; None leaves the number to the service
    offset: int | None = None  # records to skip for each company; None leaves the number to the service
    headers: tuple[tuple[str, str], ...] = ()  # of the example, such as the language

    def __repr__(self) -> str:
        page = "" if self.limit is None else f" limit={self.limit} offset={self.offset or 0}"
        return f"<Request {self.method} {self.path} companies={len(self.companies)}{page}>"


def bulk(
    api: ApiSettings,
    dataset: str,
    companies: Iterable[Company],
    limit: int | None = None,
    offset: int | None = None,
    count: int = 0,
) -> Request:
    """Build a request for one dataset of several companies; see docs/service_gaps.md, "bulk body".

    Args:
        api: Limits and examples of the service.
        dataset: `financials`, `lookalikes` or `relationships`.
        companies: The companies, without duplicates; one if the example names no array of them (`fitting`).
        limit: Records for each company; None leaves it to the service. Financials only.
        offset: Records to skip for each company; None leaves it to the service. Financials only.
        count: Name the last company again until so many are named, to find the limits of the service.
    """
    asked = tuple(companies)
    rows = [_row(api, company) for company in asked]
    rows += rows[-1:] * (count - len(rows))
    return _build(api, dataset, rows, asked, limit=limit, offset=offset)


def fitting(api: ApiSettings, dataset: str) -> ApiSettings:
    """Return the limits of requests for a dataset: one company if its example names no array, and never 0 records."""
    companies = api.companies_per_request if _example(api, dataset).is_bulk else 1
    records = api.records_per_request or api.page_limit_max * companies
    return msgspec.structs.replace(api, companies_per_request=companies, records_per_request=records)


def service_lists(api: ApiSettings, kind: ListKind, limit: int | None = None, offset: int | None = None) -> Request:
    """Build a request for one page of the overview of service lists; `OVERVIEW` asks for static and smart lists."""
    return _build(api, "service_lists", [], (), type=kind, limit=limit, offset=offset)


def add_contacts(api: ApiSettings, list_id: int, contacts: Mapping[Company, Sequence[str]]) -> Request:
    """Build a request that adds contact ids, 1 to 50 for each of 1 to 100 companies, to a static service list.

    See the specification, PUT /v1/lists/{id}/contacts; docs/service_gaps.md, "contacts body".
    """
    rows = [{**_row(api, company), "contact": ids} for company, ids in contacts.items()]
    return _build(api, "contacts", rows, tuple(contacts), list=int(list_id))


def spell_number(api: ApiSettings, company: Company) -> str:
    """Return a company number as the service expects it; Belgian ones lose a leading zero unless the settings keep it.

    See docs/service_gaps.md, "spelling of company numbers".

    Example:
        >>> spell_number(ApiSettings(), Company("BE", "0770493071"))
        '770493071'
    """
    if company.country == "BE" and not api.keep_leading_zero:
        return company.company_number.removeprefix("0")
    return company.company_number


def has_two_spellings(company: Company) -> bool:
    """Return whether a service may know a company with or without a leading zero."""
    return company.country == "BE" and company.company_number.startswith("0")


def _row(api: ApiSettings, company: Company) -> dict[str, Any]:
    country = company.country
    return {"country": country, "country_lower": country.lower(), "number": spell_number(api, company)}


def _example(api: ApiSettings, endpoint: str) -> Example:
    return read_example(endpoint, getattr(api.requests, endpoint))


def _build(
    api: ApiSettings, endpoint: str, rows: list[dict[str, Any]], companies: tuple[Company, ...], **values: Any
) -> Request:
    example = _example(api, endpoint)
    if not example.is_bulk and rows:
        if len(companies) > 1:
            raise ValueError(f"the example of {endpoint} asks for one company, not for {len(companies)}")
        values, rows = values | rows[0], []
    filled = fill(endpoint, getattr(api.requests, endpoint), {"language": api.language, **values}, rows)
    limit, offset = values.get("limit"), values.get("offset")
    method = cast(Method, example.method)
    return Request(endpoint, method, filled.path, filled.query, filled.body, companies, limit, offset, filled.headers)
