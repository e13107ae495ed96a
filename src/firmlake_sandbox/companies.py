"""The six company endpoints: each dataset for one company, and for many at once."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from firmlake_sandbox.contract import (
    MAX_BODY_BYTES,
    CompaniesBody,
    CompanyContacts,
    CompanyPath,
    CompanyRef,
    ContactsBody,
    ListPath,
    ListsQuery,
    NoQuery,
    PagedCompaniesBody,
    PageQuery,
)
from firmlake_sandbox.financials import count_periods, list_financials
from firmlake_sandbox.lists import is_contact
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.options import Options
from firmlake_sandbox.records import CompanyId, ContactId, ContactsAnswer, FailedCompany, FailedContact, Pagination
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.state import State
from firmlake_sandbox.words import LANGUAGES
from firmlake_sandbox.world import World, company_id, identify, is_found

COMPANY_NOT_FOUND = "Company not found"
CONTACT_NOT_FOUND = "Contact not found"
LIST_NOT_FOUND = "List not found"

Page = tuple[int, int]  # limit, offset


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return content as JSON."""
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return a failure of the whole request, in the service's form."""
    return json_response({"status": status, "message": message}, status, headers)


def fill_page(options: Options, limit: int | UnsetType, offset: int) -> Page:
    """Return limit and offset, the default in place of an absent limit.

    Raises:
        HTTPException: 400; the limit is larger than any page may be.
    """
    if limit is UNSET:
        return options.page_limit_default, offset
    if limit > options.page_limit_max:
        raise HTTPException(400, f"limit {limit} is more than {options.page_limit_max}")
    return limit, offset


def refuse_more(count: int, most: int, what: str) -> None:
    """Refuse too many of something.

    Raises:
        HTTPException: 400.
    """
    if count > most:
        raise HTTPException(400, f"{count} {what}, but a request may have at most {most}")


def spell_company(world: World, company: CompanyRef, node: int | None) -> CompanyId:
    """Return a company's id in the world's spelling, or as asked where no company could bear the number."""
    return CompanyId(company.country_code, company.company_number) if node is None else company_id(world, node)


_Model = TypeVar("_Model", bound=msgspec.Struct)


def read_body(raw: bytes, model: type[_Model]) -> _Model:
    """Return the JSON body as the model.

    Raises:
        HTTPException: 400; the body is not JSON, or something in it is not as the contract says.
    """
    if len(raw) > MAX_BODY_BYTES:
        raise HTTPException(400, f"Body of {len(raw)} bytes is larger than {MAX_BODY_BYTES}")
    try:
        return msgspec.json.decode(raw, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"Body refused: {error}") from None


def read_query(query: bytes, model: type[_Model]) -> _Model:
    """Return the query as the model; a parameter that is unknown or named twice is refused.

    Raises:
        HTTPException: 400.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise HTTPException(400, "Query refused: not a query string") from None
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise HTTPException(400, f"Query refused: {', '.join(twice)} named more than once")
    return _convert(dict(pairs), model, "Query")


def read_path(parameters: Mapping[str, str], model: type[_Model]) -> _Model:
    """Return the parameters of the path as the model.

    Raises:
        HTTPException: 400.
    """
    return _convert(dict(parameters), model, "Path")


def read_language(header: str | None, default: str) -> str:
    """Return the first language of Accept-Language that the service speaks, else the default.

    Example:
        >>> read_language("de, nl-BE;q=0.9", "EN")
        'NL'
    """
    wanted = (item.strip()[:2].upper() for item in (header or "").split(","))
    return next((language for language in wanted if language in LANGUAGES), default)


def _convert(named: dict[str, str], model: type[_Model], where: str) -> _Model:
    """Convert text by the model."""
    try:
        return msgspec.convert(named, model, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"{where} refused: {error}") from None


async def answer_lists(state: State, request: Request) -> Response:
    """Answer a page of the lists of one type or both.

    Raises:
        HTTPException: 400.
    """
    query = read_query(request.scope["query_string"], ListsQuery)
    limit, offset = fill_page(state.options, query.limit, query.offset)
    data, total = state.lists.page(query.type, limit, offset)
    return json_response({"data": data, "pagination": Pagination(limit, offset, total)})


async def add_contacts(state: State, request: Request) -> Response:
    """Add contacts to a static list, company by company, and say which could not be added.

    The outcome flag is false only where something failed and nothing was added.

    Raises:
        HTTPException: 400, also where the list is smart; 404 where it does not exist.
    """
    read_query(request.scope["query_string"], NoQuery)
    number = read_path(request.path_params, ListPath).id
    wanted = read_body(await request.body(), ContactsBody).company_contacts
    refuse_more(len(wanted), state.options.companies_per_request, "companies")
    for entry in wanted:
        refuse_more(len(entry.contacts), state.options.contacts_per_company, "contacts for a company")
    kind = state.lists.type_of(number)
    if kind is None:
        raise HTTPException(404, LIST_NOT_FOUND)
    if kind != "STATIC":
        raise HTTPException(400, "Contacts can only be added to a static list; this one is smart")
    outcomes = [_add_company(state, number, entry) for entry in wanted]
    added = sum(count for count, _ in outcomes)
    failed = [failure for _, failure in outcomes if failure]
    message = f"{added} contact{'' if added == 1 else 's'} added to the list"
    return json_response(ContactsAnswer(added > 0 or not failed, message, failed))


def _add_company(state: State, number: int, entry: CompanyContacts) -> tuple[int, FailedCompany | None]:
    """Add the contacts of one company; return how many were added, and what could not be."""
    node = parse_number(entry.company.country_code, entry.company.company_number)
    identifier = spell_company(state.world, entry.company, node)
    if node is None or not is_found(state.world, node):
        return 0, FailedCompany(identifier, None, COMPANY_NOT_FOUND)
    ids = [contact.contact_id for contact in entry.contacts]
    added = state.lists.add_contacts(number, node, [one for one in ids if is_contact(one)], state.clock.now())
    unknown = [FailedContact(ContactId(one), CONTACT_NOT_FOUND) for one in ids if not is_contact(one)]
    return added, FailedCompany(identifier, unknown, None) if unknown else None


_Json = dict[str, object]


def _describe_financials(world: World, node: int, _language: str, page: Page) -> _Json:
    """Return a page of accounts."""
    if not world.is_oldest_first:
        data, total = list_financials(world, node, *page)
        return {"data": data, "pagination": Pagination(*page, total)}
    limit, offset = page
    end = max(0, count_periods(world, node) - offset)
    start = max(0, end - limit)
    data, total = list_financials(world, node, end - start, start)
    return {"data": data[::-1], "pagination": Pagination(limit, offset, total)}


def _describe_lookalikes(world: World, node: int, _language: str, _page: Page) -> _Json:
    """Return the lookalikes."""
    return {"data": list_lookalikes(world, node)}


def _describe_relationships(world: World, node: int, language: str, _page: Page) -> _Json:
    """Return parents and children."""
    return {"data": list_relationships(world, node, language)}


_DESCRIBE: dict[str, Callable[[World, int, str, Page], _Json]] = {
    "financials": _describe_financials,
    "lookalikes": _describe_lookalikes,
    "relationships": _describe_relationships,
}
_MISSING: dict[str, _Json] = {
    "financials": {"data": None, "pagination": None, "message": COMPANY_NOT_FOUND},
    "lookalikes": {"data": None, "message": COMPANY_NOT_FOUND},
    "relationships": {"data": None, "message": COMPANY_NOT_FOUND},
}
_NO_PAGE = (0, 0)


async def answer_bulk(state: State, request: Request, *, dataset: str) -> Response:
    """Answer for many companies: one element for each asked for, in the same order.

    Raises:
        HTTPException: 400; 402 where the credits would not suffice, before anything is charged.
    """
    read_query(request.scope["query_string"], NoQuery)
    asked, page = _read_companies(await request.body(), dataset, state.options)
    world = state.world
    nodes = [_find_node(state.options, company) for company in asked.companies]
    found = [node if node is not None and is_found(world, node) else None for node in nodes]
    headers = _charge(state, nodes if state.options.credits_for_unknown else found)
    language = read_language(request.headers.get("accept-language"), state.options.language)
    describe, missing = _DESCRIBE[dataset], _MISSING[dataset]
    elements = [
        {"identifier": spell_company(world, company, known), **missing}
        if node is None
        else {"identifier": identify(world, node, language), **describe(world, node, language, page), "message": None}
        for company, known, node in zip(asked.companies, nodes, found, strict=True)
    ]
    return json_response(elements, headers=headers)


async def answer_single(state: State, request: Request, *, dataset: str) -> Response:
    """Answer for one company.

    Raises:
        HTTPException: 400; 402 where the credits do not suffice; 404 where the company does not exist.
    """
    path = read_path(request.path_params, CompanyPath)
    page = _NO_PAGE
    if dataset == "financials":
        query = read_query(request.scope["query_string"], PageQuery)
        page = fill_page(state.options, query.limit, query.offset)
    else:
        read_query(request.scope["query_string"], NoQuery)
    node = _find_node(state.options, path)
    found = node if node is not None and is_found(state.world, node) else None
    headers = _charge(state, [node if state.options.credits_for_unknown else found])
    if found is None:
        raise HTTPException(404, COMPANY_NOT_FOUND, headers)
    language = read_language(request.headers.get("accept-language"), state.options.language)
    description = _DESCRIBE[dataset](state.world, found, language, page)
    return json_response({"identifier": identify(state.world, found, language), **description}, headers=headers)


def _read_companies(raw: bytes, dataset: str, options: Options) -> tuple[CompaniesBody, Page]:
    """Return what a bulk request asks for, within the limits."""
    if dataset != "financials":
        asked = read_body(raw, CompaniesBody)
        refuse_more(len(asked.companies), options.companies_per_request, "companies")
        return asked, _NO_PAGE
    paged = read_body(raw, PagedCompaniesBody)
    count = len(paged.companies)
    refuse_more(count, options.companies_per_request, "companies")
    page = fill_page(options, paged.limit, paged.offset)
    if options.records_per_request and count * page[0] > options.records_per_request:
        excess = f"{count} companies x limit {page[0]} is more than {options.records_per_request} records"
        raise HTTPException(400, f"{excess}: send fewer companies or a smaller limit")
    return CompaniesBody(paged.companies), page


def _find_node(options: Options, company: CompanyRef | CompanyPath) -> int | None:
    """Return the company of this number, as this service spells numbers; None where there can be none."""
    if options.number_spelling == "full" and company.country_code == "BE" and len(company.company_number) < 10:
        return None
    return parse_number(company.country_code, company.company_number)


def _charge(state: State, nodes: Iterable[int | None]) -> dict[str, str]:
    """Charge for the companies and return the headers that say so; 402 and nothing charged where credits lack."""
    account, now = state.account, state.clock.now()
    unpaid = account.find_unpaid((node for node in nodes if node is not None), now)
    if len(unpaid) > account.balance:
        message = f"{len(unpaid)} credits needed, {account.balance} left"
        raise HTTPException(402, message, _credit_headers(state, 0))
    return _credit_headers(state, account.charge(unpaid, now))


def _credit_headers(state: State, charged: int) -> dict[str, str]:
    """Return the headers about credits."""
    return {
        state.options.credits_charged_header: str(charged),
        state.options.credits_remaining_header: str(state.account.balance),
    }
