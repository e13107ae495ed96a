"""The contract as data: the endpoints, and what each may be sent. The shapes of the answers are in `openapi`."""

import re
from functools import cache
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

DATASETS = ("financials", "lookalikes", "relationships")
MAX_BODY_BYTES = 4 * 1024 * 1024
_LARGEST = 2**31 - 1  # offset or id

_Country = Literal["BE", "NL", "FR"]
_Number = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
_Limit = Annotated[int, Meta(ge=1)]
_Offset = Annotated[int, Meta(ge=0, le=_LARGEST)]


class _Request(Struct, rename="camel", forbid_unknown_fields=True):
    """A part of a request; names that it does not know are refused."""


class Nothing(_Request):
    """A query or path without parameters."""


class CompanyRef(_Request):
    """A company as requests name it, in the path or in the body."""

    country_code: _Country
    company_number: _Number


class CompaniesBody(_Request):
    """Body of a bulk request for lookalikes or relationships."""

    companies: Annotated[list[CompanyRef], Meta(min_length=1)]


class PagedCompaniesBody(_Request):
    """Body of a bulk request for financials: limit and offset hold for every company."""

    companies: Annotated[list[CompanyRef], Meta(min_length=1)]
    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class ContactRef(_Request):
    """A contact as requests name it."""

    contact_id: Annotated[str, Meta(min_length=1, max_length=64)]


class CompanyContacts(_Request):
    """A company and its contacts to add."""

    company: CompanyRef
    contacts: Annotated[list[ContactRef], Meta(min_length=1)]


class ContactsBody(_Request):
    """Body of a contacts request."""

    company_contacts: Annotated[list[CompanyContacts], Meta(min_length=1)]


class PageQuery(_Request):
    """Query of a single request for financials."""

    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class ListsQuery(_Request):
    """Query of the overview of lists."""

    type: Literal["STATIC", "SMART", "OVERVIEW"] = "OVERVIEW"
    limit: _Limit | UnsetType = UNSET
    offset: _Offset = 0


class ListPath(_Request):
    """Path of a contacts request."""

    id: Annotated[int, Meta(ge=0, le=_LARGEST)]


class Endpoint(NamedTuple):
    """One endpoint: its name in the ledger and in faults, and the models of what it is sent."""

    name: str
    method: str
    path: str
    parameters: type[Struct] = Nothing
    query: type[Struct] = Nothing
    body: type[Struct] | None = None

    @property
    def dataset(self) -> str:
        """The dataset, or `lists`."""
        return self.name.partition(".")[0]

    @property
    def is_bulk(self) -> bool:
        """Whether it answers for many companies."""
        return self.name.endswith(".bulk")


_BULK, _SINGLE = "/v1/companies/", "/v1/companies/{countryCode}/{companyNumber}/"

ENDPOINTS = (
    Endpoint("financials.bulk", "POST", f"{_BULK}financials", body=PagedCompaniesBody),
    Endpoint("lookalikes.bulk", "POST", f"{_BULK}lookalikes", body=CompaniesBody),
    Endpoint("relationships.bulk", "POST", f"{_BULK}relationships", body=CompaniesBody),
    Endpoint("financials.single", "GET", f"{_SINGLE}financials", CompanyRef, PageQuery),
    Endpoint("lookalikes.single", "GET", f"{_SINGLE}lookalikes", CompanyRef),
    Endpoint("relationships.single", "GET", f"{_SINGLE}relationships", CompanyRef),
    Endpoint("lists.overview", "GET", "/v1/lists", query=ListsQuery),
    Endpoint("lists.contacts", "PUT", "/v1/lists/{id}/contacts", ListPath, body=ContactsBody),
)


@cache
def _compile_path(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))


def match_path(path: str, asked: str) -> dict[str, str] | None:
    """Return the parameters of a path with `{names}`, None where another is asked for."""
    found = _compile_path(path).fullmatch(asked)
    return found and found.groupdict()


def name_endpoint(method: str, path: str) -> str:
    """Return the name of the endpoint that a request is for, `unknown` where there is none.

    Example:
        >>> name_endpoint("GET", "/v1/companies/BE/403227515/lookalikes")
        'lookalikes.single'
    """
    found = (one.name for one in ENDPOINTS if one.method == method and match_path(one.path, path) is not None)
    return next(found, "unknown")
