"""The two list endpoints: the overview of lists, and adding contacts to a static one."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from firmlake_sandbox.answers import (
    COMPANY_NOT_FOUND,
    CONTACT_NOT_FOUND,
    LIST_NOT_FOUND,
    fill_page,
    json_response,
    refuse_more,
    spell_company,
)
from firmlake_sandbox.contract import CompanyContacts, ContactsBody, ListPath, ListsQuery, NoQuery
from firmlake_sandbox.lists import is_contact
from firmlake_sandbox.numbers import parse_number
from firmlake_sandbox.records import ContactId, ContactsAnswer, FailedCompany, FailedContact, Pagination
from firmlake_sandbox.state import State
from firmlake_sandbox.validate import read_body, read_path, read_query
from firmlake_sandbox.world import is_found


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
