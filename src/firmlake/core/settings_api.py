"""The settings of the section `api`: the service, its requests, its limits, and how long to wait."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["ApiSettings", "NameSettings", "SettingsSection"]


class SettingsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


class NameSettings(SettingsSection, frozen=True):
    """Response headers and messages that the specification leaves open."""

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


_BULK = """\
POST /v1/companies/{dataset}
Accept-Language: {{language}}

{{"companies": [{{"countryCode": "{{country}}", "companyNumber": "{{number}}"}}]{page}}}
"""
_PAGE = ', "limit": {limit}, "offset": {offset}'


class RequestSettings(SettingsSection, frozen=True):
    """Each request as the service documents it; {number} and others stand for what changes (docs/first-contact.md)."""

    financials: Annotated[str, Meta(description="financials; with {country} {number} {limit} {offset} {language}")] = (
        _BULK.format(dataset="financials", page=_PAGE)
    )
    lookalikes: Annotated[str, Meta(description="lookalikes; with {country} {number} {language}")] = _BULK.format(
        dataset="lookalikes", page=""
    )
    relationships: Annotated[str, Meta(description="relationships; with {country} {number} {language}")] = _BULK.format(
        dataset="relationships", page=""
    )
    service_lists: Annotated[
        str, Meta(description="the overview of lists; with {type} {limit} {offset} {language}")
    ] = "GET /v1/lists?type={type}&limit={limit}&offset={offset}\nAccept-Language: {language}\n"
    contacts: Annotated[
        str, Meta(description="adding contacts; with {list} {country} {number} {contact} {language}")
    ] = """\
PUT /v1/lists/{list}/contacts
Accept-Language: {language}

{"companyContacts": [{
  "company": {"countryCode": "{country}", "companyNumber": "{number}"},
  "contacts": [{"contactId": "{contact}"}]
}]}
"""


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
    requests: RequestSettings = RequestSettings()
