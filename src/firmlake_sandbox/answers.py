"""What answers have in common: JSON, paging, limits, errors in the service's form."""

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.responses import Response

from firmlake_sandbox.contract import CompanyRef
from firmlake_sandbox.options import Options
from firmlake_sandbox.records import CompanyId
from firmlake_sandbox.world import World, company_id

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
