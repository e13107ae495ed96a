"""The contract as data: the endpoints, and what each may be sent."""

import re
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

DATASETS = ("financials", "lookalikes", "relationships")
MAX_BODY_BYTES = 4 * 1024 * 1024
LARGEST = 2**31 - 1  # offset or id


class Endpoint(NamedTuple):
    """One endpoint: its name in ledger and fault rules, its method, its path."""

    name: str
    method: str
    path: str


ENDPOINTS = (
    *(Endpoint(f"{dataset}.bulk", "POST", f"/v1/companies/{dataset}") for dataset in DATASETS),
    *(
        Endpoint(f"{dataset}.single", "GET", f"/v1/companies/{{countryCode}}/{{companyNumber}}/{dataset}")
        for dataset in DATASETS
    ),
    Endpoint("lists.overview", "GET", "/v1/lists"),
    Endpoint("lists.contacts", "PUT", "/v1/lists/{id}/contacts"),
)

_PATTERNS = tuple((end, re.compile(re.sub(r"{\w+}", "[^/]+", end.path))) for end in ENDPOINTS)


def name_endpoint(method: str, path: str) -> str:
    """Return the name of the endpoint that a request is for, `unknown` where there is none.

    Example:
        >>> name_endpoint("GET", "/v1/companies/BE/403227515/lookalikes")
        'lookalikes.single'
    """
    for endpoint, pattern in _PATTERNS:
        if endpoint.method == method and pattern.fullmatch(path):
            return endpoint.name
    return "unknown"


_Number = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
_Limit = Annotated[int, Meta(ge=1)]
_Offset = Annotated[int, Meta(ge=0, le=LARGEST)]


class CompanyRef(Struct, rename="camel", forbid_unknown_fields=True):
    """A company as requests name it."""

    country_code: Literal["BE", "NL", "FR"]
    company_number: _Number


class CompaniesBody(Struct, rename="camel", forbid_unknown_fields=True):
    """Body of a bulk request for lookalikes or relationships."""

    companies: Annotated[list[CompanyRef], Meta(min_length=1)]


class PagedCompaniesBody(Struct, rename="camel", forbid_unknown_fields=True):
    """Body of a bulk request for financials: limit and offset hold for every company."""

    companies: Annotated[list[CompanyRef], Meta(min_length=1)]
    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class ContactRef(Struct, rename="camel", forbid_unknown_fields=True):
    """A contact as requests name it."""

    contact_id: Annotated[str, Meta(min_length=1, max_length=64)]


class CompanyContacts(Struct, rename="camel", forbid_unknown_fields=True):
    """A company and its contacts to add."""

    company: CompanyRef
    contacts: Annotated[list[ContactRef], Meta(min_length=1)]


class ContactsBody(Struct, rename="camel", forbid_unknown_fields=True):
    """Body of a contacts request."""

    company_contacts: Annotated[list[CompanyContacts], Meta(min_length=1)]


class PageQuery(Struct, rename="camel", forbid_unknown_fields=True):
    """Query of a single request for financials."""

    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class ListsQuery(Struct, rename="camel", forbid_unknown_fields=True):
    """Query of the overview of lists."""

    type: Literal["STATIC", "SMART", "OVERVIEW"] = "OVERVIEW"
    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class NoQuery(Struct, rename="camel", forbid_unknown_fields=True):
    """Query of everything else."""


class CompanyPath(Struct, rename="camel", forbid_unknown_fields=True):
    """Path of a single request."""

    country_code: Literal["BE", "NL", "FR"]
    company_number: _Number


class ListPath(Struct, rename="camel", forbid_unknown_fields=True):
    """Path of a contacts request."""

    id: Annotated[int, Meta(ge=0, le=LARGEST)]
