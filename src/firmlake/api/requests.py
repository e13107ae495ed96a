"""Build requests for companies, service lists and contacts as values, without sending them.

Only this module and `contract.py` know the shape of bodies. Names that the specification leaves open come from
`[api.names]`, so another name needs a setting, not a code change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from firmlake.api.contract import DATASETS, LIST_CONTACTS_PATH, LISTS_PATH
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings

__all__ = ["ListKind", "Request", "add_contacts", "bulk", "service_lists", "single", "spell_number"]

ListKind = Literal["STATIC", "SMART", "OVERVIEW"]


class Request(msgspec.Struct, frozen=True):
    """One request to the service, complete except for its address, language and token.

    Attributes:
        endpoint: A dataset, `service_lists` or `contacts`.
        method: `GET`, `POST` or `PUT`.
        path: Path below the service's base URL, beginning with `/`.
        query: Parameters in order, unescaped.
        body: JSON; empty for a GET.
        companies: Companies in the order of the body; () for `service_lists`.
        limit: Most records for each company; None leaves the number to the service.
        offset: Records to skip for each company; None leaves the number to the service.
    """

    endpoint: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    companies: tuple[Company, ...] = ()
    limit: int | None = None
    offset: int | None = None

    def __repr__(self) -> str:
        page = "" if self.limit is None else f" limit={self.limit} offset={self.offset or 0}"
        return f"<Request {self.method} {self.path} companies={len(self.companies)}{page}>"


def bulk(
    api: ApiSettings,
    dataset: str,
    companies: Iterable[Company],
    limit: int | None = None,
    offset: int | None = None,
) -> Request:
    """Build a request for one dataset of several companies.

    Args:
        api: Limits and names of the service.
        dataset: `financials`, `lookalikes` or `relationships`.
        companies: 1 to `companies_per_request` companies without duplicates.
        limit: Records for each company, 1 to `page_limit_max`; None leaves it to the service. Financials only.
        offset: Records to skip for each company; None leaves it to the service. Financials only.

    Raises:
        ValueError: The service would refuse the request (too many companies or records, or a page of a dataset
            without pages). Correct the caller.

    References:
        docs/service_gaps.md, "bulk body", "companies in a bulk request", "records in a bulk request".
    """
    asked = tuple(companies)
    _check_companies(asked, api.companies_per_request)
    page = _page(api, dataset, limit, offset)
    if limit is not None and 0 < api.records_per_request < len(asked) * limit:
        raise ValueError(f"{len(asked)} companies x limit {limit} is more than {api.records_per_request} records")
    country, number = api.names.country, api.names.company_number
    identifiers = [{country: company.country, number: spell_number(api, company)} for company in asked]
    body = {api.names.companies: identifiers, **page}
    return Request(dataset, "POST", DATASETS[dataset].bulk_path, (), msgspec.json.encode(body), asked, limit, offset)


def single(
    api: ApiSettings,
    dataset: str,
    company: Company,
    limit: int | None = None,
    offset: int | None = None,
) -> Request:
    """Build a request for one dataset of one company.

    Args:
        api: Limits and names of the service.
        dataset: `financials`, `lookalikes` or `relationships`.
        company: The company.
        limit: Most records, 1 to `page_limit_max`; None leaves it to the service. Financials only.
        offset: Records to skip; None leaves it to the service. Financials only.

    Raises:
        ValueError: The service would refuse the request. Correct the caller.
    """
    page = _page(api, dataset, limit, offset)
    path = DATASETS[dataset].single_path.format(country=company.country, company_number=spell_number(api, company))
    return Request(dataset, "GET", path, _query(page), b"", (company,), limit, offset)


def service_lists(api: ApiSettings, kind: ListKind, limit: int | None = None, offset: int | None = None) -> Request:
    """Build a request for one page of the overview of service lists; `OVERVIEW` asks for static and smart lists.

    Raises:
        ValueError: limit or offset is out of range. Correct the caller.
    """
    page = _page(api, "service_lists", limit, offset)
    return Request("service_lists", "GET", LISTS_PATH, (("type", kind), *_query(page)), b"", (), limit, offset)


def add_contacts(api: ApiSettings, list_id: int, contacts: Mapping[Company, Sequence[str]]) -> Request:
    """Build a request that adds contacts of companies to a static service list.

    Args:
        api: Limits and names of the service.
        list_id: Id of the service list.
        contacts: Contact ids by company: 1 to 100 companies, 1 to 50 contacts for each.

    Raises:
        ValueError: The service would refuse the request. Correct the caller.

    References:
        Specification, PUT /v1/lists/{id}/contacts; docs/service_gaps.md, "contacts body".
    """
    _check_companies(tuple(contacts), api.contact_companies_per_request)
    for company, ids in contacts.items():
        if not 1 <= len(ids) <= api.contacts_per_company:
            raise ValueError(f"{company}: {len(ids)} contacts, where 1 to {api.contacts_per_company} are allowed")
    names = api.names
    body = {
        names.company_contacts: [
            {names.company: _identifier(api, company), names.contacts: [{names.contact_id: one_id} for one_id in ids]}
            for company, ids in contacts.items()
        ]
    }
    path = LIST_CONTACTS_PATH.format(list_id=int(list_id))
    return Request("contacts", "PUT", path, (), msgspec.json.encode(body), tuple(contacts))


def spell_number(api: ApiSettings, company: Company) -> str:
    """Return a company number as the service expects it; Belgian ones lose a leading zero unless the settings keep it.

    References:
        docs/service_gaps.md, "spelling of company numbers".

    Example:
        >>> spell_number(ApiSettings(), Company("BE", "0770493071"))
        '770493071'
    """
    if company.country == "BE" and not api.keep_leading_zero:
        return company.company_number.removeprefix("0")
    return company.company_number


def _identifier(api: ApiSettings, company: Company) -> dict[str, str]:
    return {api.names.country: company.country, api.names.company_number: spell_number(api, company)}


def _page(api: ApiSettings, endpoint: str, limit: int | None, offset: int | None) -> dict[str, int]:
    page = {name: n for name, n in ((api.names.limit, limit), (api.names.offset, offset)) if n is not None}
    if endpoint not in (*DATASETS, "service_lists"):
        raise ValueError(f"{endpoint} is not a dataset")
    if page and endpoint in DATASETS and not DATASETS[endpoint].is_paged:
        raise ValueError(f"{endpoint} has no pages, so neither limit nor offset")
    if limit is not None and not 1 <= limit <= api.page_limit_max:
        raise ValueError(f"limit {limit} is not from 1 to {api.page_limit_max}")
    if offset is not None and offset < 0:
        raise ValueError(f"offset {offset} is negative")
    return page


def _query(page: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(n)) for name, n in page.items())


def _check_companies(companies: tuple[Company, ...], most: int) -> None:
    if not 1 <= len(companies) <= most:
        raise ValueError(f"{len(companies)} companies in one request, where 1 to {most} are allowed")
    if len(set(companies)) < len(companies):
        raise ValueError("a company is asked for twice in one request")
