"""The settings of the section `api`: the service, its limits, and names that its specification leaves open."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["ApiSettings", "NameSettings", "SettingsSection"]


_HEADER_NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
"""The characters of a header's name (RFC 9110): a request with any other never reaches the service."""


class SettingsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


class NameSettings(SettingsSection, frozen=True):
    """Names that the specification leaves open; change them if the service answers 400."""

    language_header: Annotated[str, Meta(pattern=_HEADER_NAME, description="request header with the language")] = (
        "Accept-Language"
    )
    limit: Annotated[
        str, Meta(description="parameter for the page size, in the query of a GET and the body of a POST")
    ] = "limit"
    offset: Annotated[
        str,
        Meta(description="parameter for the number of records to skip, in the query of a GET and the body of a POST"),
    ] = "offset"
    companies: Annotated[str, Meta(description="name of the array of companies in the body of a bulk request")] = (
        "companies"
    )
    country: Annotated[str, Meta(description="name of the country in an element of that array")] = "countryCode"
    company_number: Annotated[str, Meta(description="name of the company number in an element of that array")] = (
        "companyNumber"
    )
    company_contacts: Annotated[
        str, Meta(description="name of the array of companies in the body of a request that adds contacts")
    ] = "companyContacts"
    company: Annotated[str, Meta(description="name of the company in an element of company_contacts")] = "company"
    contacts: Annotated[str, Meta(description="name of the contacts in an element of company_contacts")] = "contacts"
    contact_id: Annotated[str, Meta(description="name of the contact id in an element of contacts")] = "contactId"
    credits_charged_header: Annotated[
        str, Meta(description="response header with the credits that the request cost")
    ] = "X-Credits-Charged"
    credits_remaining_header: Annotated[str, Meta(description="response header with the credits left")] = (
        "X-Credits-Remaining"
    )
    not_found_message: Annotated[
        str,
        Meta(description="message for a company that does not exist; {country} and {number} stand for its own"),
    ] = "Company not found"
    success_message: Annotated[
        str, Meta(description="message of an element that is not an error, even if the company has no records")
    ] = "OK"
    contact_not_found_message: Annotated[str, Meta(description="message for a contact that does not exist")] = (
        "Contact not found"
    )
    contact_present_message: Annotated[
        str, Meta(description="message for a contact that is already in the list; it counts as added")
    ] = "Contact already in list"


class ApiSettings(SettingsSection, frozen=True):
    """The service: its address, its limits, and how long to wait for it."""

    base_url: Annotated[
        str,
        Meta(
            description='address of the service, with https unless it is local; "sandbox" starts the embedded service'
        ),
    ] = ""
    service_name: Annotated[
        str,
        Meta(
            pattern=r"^[ -~]{0,200}$",
            description='name of the service in data folders, if its address changes (a tunnel); "" uses the address',
        ),
    ] = ""
    trailing_slash: Annotated[
        bool, Meta(description="end the path of every request with a slash, for a service that redirects to such paths")
    ] = False
    language: Annotated[
        Literal["EN", "NL", "FR"], Meta(description="language of the names and texts that the service returns")
    ] = "EN"
    companies_per_request: Annotated[
        int, Meta(ge=1, le=10_000, description="most companies in one bulk request; the specification says 100")
    ] = 100
    records_per_request: Annotated[
        int,
        Meta(
            ge=0,
            description="most companies x limit in one bulk request; a later version of the specification says 500; 0 "
            "sets no limit",
        ),
    ] = 500
    page_limit_max: Annotated[int, Meta(ge=1, description="largest page size; the specification says 500")] = 500
    contact_companies_per_request: Annotated[
        int, Meta(ge=1, description="most companies in one request that adds contacts; the specification says 100")
    ] = 100
    contacts_per_company: Annotated[
        int, Meta(ge=1, description="most contacts of one company in a request that adds contacts")
    ] = 50
    requests_per_minute: Annotated[
        int, Meta(ge=0, description="most requests that the key may send in any 60 seconds; 0 sets no limit")
    ] = 200
    throttle_store: Annotated[
        str,
        Meta(
            pattern=r"^(file|postgres(ql)?://.*)$",
            description='where requests are counted: "file" for one machine, postgresql://host/name for several (no '
            "password)",
        ),
    ] = "file"
    keep_leading_zero: Annotated[
        bool,
        Meta(
            description="send Belgian numbers with their leading zero (0770493071); the service's examples leave it out"
        ),
    ] = False
    threads: Annotated[int, Meta(ge=1, le=64, description="most requests in flight at the same time")] = 4
    tries: Annotated[
        int, Meta(ge=1, le=20, description="most tries of one request; an answer 429 does not count as a try")
    ] = 3
    retry_wait_max_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="longest pause between two tries; a longer Retry-After stops the run, which can be resumed",
        ),
    ] = 120.0
    connect_timeout_seconds: Annotated[float, Meta(gt=0, description="longest wait for a connection")] = 10.0
    read_timeout_seconds: Annotated[float, Meta(gt=0, description="longest wait between two pieces of an answer")] = (
        60.0
    )
    total_timeout_seconds: Annotated[
        float,
        Meta(gt=0, description="longest duration of one try, so that an answer that arrives very slowly ends too"),
    ] = 120.0
    wire_bytes_max: Annotated[
        int, Meta(ge=1024, description="largest answer as sent, in bytes; 100 companies x 20 periods take 2.5 MB")
    ] = 16_777_216
    body_bytes_max: Annotated[
        int, Meta(ge=1024, description="largest answer after decompression, in bytes, against gzip bombs")
    ] = 33_554_432
    names: NameSettings = NameSettings()
