"""What the eight endpoints answer: a function from the state and a request to an answer."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from firmlake_sandbox.contract import MAX_BODY_BYTES, Endpoint, match_path, model_of
from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.options import Options
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.state import State, is_contact
from firmlake_sandbox.wire import Answer, Call, RefusedError, json_answer
from firmlake_sandbox.world import LANGUAGES, World, company_id, identify, is_found

COMPANY_NOT_FOUND = "Company not found"

_Page = tuple[int, int]  # limit, offset


def answer(endpoint: Endpoint, state: State, call: Call) -> Answer:
    """Answer a request to an endpoint.

    Raises RefusedError: 400; 402 where the credits would not suffice, before anything is charged; 404 where the company
    of a single request, or a list, does not exist.
    """
    path = _convert(match_path(endpoint.path, call.path) or {}, model_of(endpoint.parameters), "Path")
    query = _read_query(call.query, model_of(endpoint.query))
    body: Any = _read_body(call.body, model_of(endpoint.body)) if endpoint.body else None
    if endpoint.name == "lists.overview":
        limit, offset = page = _fill_page(state.options, query.limit, query.offset)
        lists, total = state.lists.page(query.type, limit, offset)
        return json_answer({"data": lists, "pagination": _pagination(page, total)})
    if endpoint.name == "lists.contacts":
        return _add_contacts(state, path.id, body.company_contacts)
    companies = body.companies if endpoint.is_bulk else [path]
    page = _read_page(state.options, endpoint, body or query, len(companies))
    return _answer_companies(state, endpoint, call, companies, page)


def _convert(named: dict[str, str], model: Any, where: str) -> Any:
    try:
        return msgspec.convert(named, model, strict=False)
    except msgspec.ValidationError as error:
        raise RefusedError(400, f"{where} refused: {error}") from None


def _read_query(query: bytes, model: Any) -> Any:
    """Return the query as the model; a parameter that is unknown or named twice is refused."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise RefusedError(400, "Query refused: not a query string") from None
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RefusedError(400, f"Query refused: {', '.join(twice)} named more than once")
    return _convert(dict(pairs), model, "Query")


def _read_body(raw: bytes, model: Any) -> Any:
    if len(raw) > MAX_BODY_BYTES:
        raise RefusedError(400, f"Body of {len(raw)} bytes is larger than {MAX_BODY_BYTES}")
    try:
        return msgspec.json.decode(raw, type=model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"Body refused: {error}") from None


def _fill_page(options: Options, limit: int | UnsetType, offset: int) -> _Page:
    if limit is UNSET:
        return options.page_limit_default, offset
    if limit > options.page_limit_max:
        raise RefusedError(400, f"limit {limit} is more than {options.page_limit_max}")
    return limit, offset


def _pagination(page: _Page, total: int) -> dict[str, int]:
    return {"limit": page[0], "offset": page[1], "total": total}


def _refuse_more(count: int, most: int, what: str) -> None:
    if count > most:
        raise RefusedError(400, f"{count} {what}, but a request may have at most {most}")


def _read_page(options: Options, endpoint: Endpoint, given: Any, count: int) -> _Page:
    """Return the page that a request for companies asks for, (0, 0) where there are no pages; check all limits."""
    if endpoint.is_bulk:
        _refuse_more(count, options.companies_per_request, "companies")
    if endpoint.dataset != "financials":
        return 0, 0
    page = _fill_page(options, given.limit, given.offset)
    if endpoint.is_bulk and 0 < options.records_per_request < count * page[0]:
        excess = f"{count} companies x limit {page[0]} is more than {options.records_per_request} records"
        raise RefusedError(400, f"{excess}: send fewer companies or a smaller limit")
    return page


def _answer_companies(state: State, endpoint: Endpoint, call: Call, companies: list[Any], page: _Page) -> Answer:
    """Answer for one company, or with one element for each that was asked for, in the same order."""
    world, options = state.world, state.options
    nodes = [_find_node(options, company) for company in companies]
    found = [node if node is not None and is_found(world, node) else None for node in nodes]
    headers = _charge(state, nodes if options.credits_for_unknown else found)
    language = _read_language(call.headers.get("accept-language", ""), options.language)
    if endpoint.is_bulk:
        pagination = {"pagination": None} if endpoint.dataset == "financials" else {}
        missing = {"data": None, **pagination, "message": COMPANY_NOT_FOUND}
        elements = [
            {"identifier": _spell_company(world, company, known), **missing}
            if node is None
            else {**_describe(world, endpoint.dataset, node, language, page), "message": None}
            for company, known, node in zip(companies, nodes, found, strict=True)
        ]
        return json_answer(elements, headers=headers)
    if found[0] is None:
        raise RefusedError(404, COMPANY_NOT_FOUND, headers)
    return json_answer(_describe(world, endpoint.dataset, found[0], language, page), headers=headers)


def _describe(world: World, dataset: str, node: int, language: str, page: _Page) -> dict[str, Any]:
    identifier = identify(world, node, language)
    if dataset == "lookalikes":
        return {"identifier": identifier, "data": list_lookalikes(world, node)}
    if dataset == "relationships":
        return {"identifier": identifier, "data": list_relationships(world, node, language)}
    records, total = list_financials(world, node, *page)
    return {"identifier": identifier, "data": records, "pagination": _pagination(page, total)}


def _spell_company(world: World, company: Any, node: int | None) -> dict[str, str]:
    """Return a company's id in the world's spelling, or as asked where no company could bear the number."""
    asked = {"country": company.country_code, "companyNumber": company.company_number}
    return asked if node is None else company_id(world, node)


def _find_node(options: Options, company: Any) -> int | None:
    """Return the company of this number, as this service spells numbers; None where there can be none."""
    if options.number_spelling == "full" and company.country_code == "BE" and len(company.company_number) < 10:
        return None
    return parse_number(company.country_code, company.company_number)


def _charge(state: State, nodes: Iterable[int | None]) -> dict[str, str]:
    """Charge for the companies and return the headers that say so; 402 and nothing charged where credits lack."""
    account, now = state.account, state.clock.now()
    unpaid = account.find_unpaid((node for node in nodes if node is not None), now)
    is_enough = len(unpaid) <= account.balance
    charged = account.charge(unpaid, now) if is_enough else 0
    headers = {"X-Credits-Charged": str(charged), "X-Credits-Remaining": str(account.balance)}
    if not is_enough:
        raise RefusedError(402, f"{len(unpaid)} credits needed, {account.balance} left", headers)
    return headers


def _read_language(header: str, default: str) -> str:
    """Return the first language of Accept-Language that the service speaks, else the default.

    Example:
        >>> _read_language("de, nl-BE;q=0.9", "EN")
        'NL'
    """
    wanted = (item.strip()[:2].upper() for item in header.split(","))
    return next((language for language in wanted if language in LANGUAGES), default)


def _add_contacts(state: State, number: int, wanted: list[Any]) -> Answer:
    """Add contacts to a static list, company by company, and say which could not be added.

    The outcome flag is false only where something failed and nothing was added.
    """
    _refuse_more(len(wanted), state.options.companies_per_request, "companies")
    for entry in wanted:
        _refuse_more(len(entry.contacts), state.options.contacts_per_company, "contacts for a company")
    kind = state.lists.type_of(number)
    if kind is None:
        raise RefusedError(404, "List not found")
    if kind != "STATIC":
        raise RefusedError(400, "Contacts can only be added to a static list; this one is smart")
    outcomes = [_add_company(state, number, entry) for entry in wanted]
    added = sum(count for count, _ in outcomes)
    failed = [failure for _, failure in outcomes if failure]
    message = f"{added} contact{'' if added == 1 else 's'} added to the list"
    return json_answer({"success": added > 0 or not failed, "message": message, "failed": failed})


def _add_company(state: State, number: int, entry: Any) -> tuple[int, dict[str, Any] | None]:
    """Add the contacts of one company; return how many were added, and what could not be."""
    node = parse_number(entry.company.country_code, entry.company.company_number)
    identifier = _spell_company(state.world, entry.company, node)
    if node is None or not is_found(state.world, node):
        return 0, {"companyIdentifier": identifier, "contacts": None, "message": COMPANY_NOT_FOUND}
    ids = [contact.contact_id for contact in entry.contacts]
    added = state.lists.add_contacts(number, node, [one for one in ids if is_contact(one)], state.clock.now())
    unknown = [
        {"contactIdentifier": {"contactId": one}, "message": "Contact not found"} for one in ids if not is_contact(one)
    ]
    return added, {"companyIdentifier": identifier, "contacts": unknown, "message": None} if unknown else None
