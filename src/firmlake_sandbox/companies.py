"""The six company endpoints: each dataset for one company, and for many at once."""

from collections.abc import Callable, Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from firmlake_sandbox.answers import COMPANY_NOT_FOUND, Page, fill_page, json_response, refuse_more, spell_company
from firmlake_sandbox.contract import CompaniesBody, CompanyPath, CompanyRef, NoQuery, PagedCompaniesBody, PageQuery
from firmlake_sandbox.financials import count_periods, list_financials
from firmlake_sandbox.lookalikes import list_lookalikes
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.options import Options
from firmlake_sandbox.records import Pagination
from firmlake_sandbox.relationships import list_relationships
from firmlake_sandbox.state import State
from firmlake_sandbox.validate import read_body, read_language, read_path, read_query
from firmlake_sandbox.world import World, identify, is_found

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
