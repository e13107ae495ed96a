"""Narrow a failed request down to the companies that make it fail, or show that none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from firmlake.api.element import Element
from firmlake.api.judge import NO_SUCH_PLACE
from firmlake.api.unknown import NOT_FOUND, is_about
from firmlake.core.errors import FirmlakeError, RequestFailedError, RequestRefusedError, ServiceError
from firmlake.core.settings import ApiSettings
from firmlake.landing.pages import Page, Wanted, plan_pages
from firmlake.landing.segments import Header

__all__ = [
    "Ask",
    "Sent",
    "find_limits",
    "find_reason",
    "halve",
    "is_empty",
    "is_no_such_place",
    "is_nobodys_fault",
    "is_size",
    "lower_limits",
    "misfit",
    "names_unknown",
    "size_of",
]

_TRIES_ALONE = 2
"""Tries for a single company before it is given up: one failure may be the fault of the service."""


class Ask(NamedTuple):
    """A page to send.

    Attributes:
        page: The page.
        tries: How often to try before the request counts as failed.
    """

    page: Page
    tries: int


class Sent(NamedTuple):
    """The result of sending a page: the landed answers, with their elements if they were read, and the final error."""

    ask: Ask
    landed: list[tuple[Header, bytes, list[Element] | None]]
    error: FirmlakeError | None

    @property
    def is_spoilt(self) -> bool:
        """Whether the request failed and one of its companies may be the reason."""
        return isinstance(self.error, RequestRefusedError | RequestFailedError)


def halve(page: Page) -> list[Ask]:
    """Split a page into halves; return none for a page of one company."""
    if len(page.companies) == 1:
        return []
    middle = (len(page.companies) + 1) // 2
    halves = (page.companies[:middle], page.companies[middle:])
    return [Ask(page._replace(companies=half), 1 if len(half) > 1 else _TRIES_ALONE) for half in halves]


def find_reason(first: Sent, send: Callable[[Ask], Sent]) -> tuple[list[Sent], list[Sent]]:
    """Send smaller and smaller parts of a dataset's first request, which failed, to find the reason.

    If companies are the reason, one part is answered and another of the same size is not. If the settings or the
    service are the reason, all parts fail, even single companies. If the page was too large, all parts are answered.

    After a refusal, each part asks for one record per company. If the request only had too many records, the first
    such part is answered, and no company is requested alone. For a single company, an answer that leaves it out could
    not be told from a failure.

    Returns:
        The larger requests that were divided, without their errors, and the last parts, which show the reason.
    """
    divided: list[Sent] = []
    rest: list[Ask] = []
    sent = first
    is_refused = isinstance(first.error, RequestRefusedError) and not is_no_such_place(first)
    if is_refused and (first.ask.page.limit or 1) > 1:
        divided.append(first._replace(error=None))
        sent = send(first.ask._replace(page=first.ask.page._replace(limit=1)))
    while sent.is_spoilt and len(sent.ask.page.companies) > 1:
        divided.append(sent._replace(error=None))
        half, *rest = halve(sent.ask.page)
        sent = send(half)
    parts = [sent, *(send(other) for other in rest)]
    companies = first.ask.page.companies
    if _are_spoilt(parts) and len(companies) > len(parts):  # two neighbours may both be the reason
        parts.append(send(Ask(sent.ask.page._replace(companies=companies[-1:]), _TRIES_ALONE)))
    return divided, parts


def size_of(page: Page) -> dict[str, int]:
    """Return the settings of `api` that make no request larger than a page."""
    count = len(page.companies)
    return {"companies_per_request": count} | ({"records_per_request": count * page.limit} if page.limit else {})


def find_limits(
    api: ApiSettings, first: Sent, answered: Sent, send: Callable[[Ask], Sent]
) -> tuple[list[Sent], dict[str, int]]:
    """Find how large requests may be after one was refused only for its size.

    The companies of the answered part are requested with fewer and fewer records, until the service answers. Then one
    of them alone is requested with more records. If that is refused, the limit is on the records of each company
    (`page_limit_max`), not on those of the request.

    Args:
        api: The limits so far.
        first: The request that was refused.
        answered: A part of it, with one record of each company if the dataset is paged.
        send: Sends a page.

    Returns:
        The requests sent, without the errors of those that were too large, and all limits that hold from now on.
    """
    refused, page, sent = first.ask.page, answered.ask.page, list[Sent]()
    is_smaller = len(page.companies) < len(refused.companies)
    most = len(page.companies) if is_smaller else api.companies_per_request
    limits = {"companies_per_request": most, "records_per_request": api.records_per_request}
    if refused.limit:
        fewer = msgspec.structs.replace(api, **limits)
        planned = plan_pages(fewer, page.dataset, [Wanted(company) for company in page.companies])[0].limit or 1
        limit, too_many = (planned, 0) if is_smaller else (refused.limit // 2, refused.limit)
        while limit > 1:
            sent.append(send(first.ask._replace(page=page._replace(limit=limit))))
            if not isinstance(sent[-1].error, RequestRefusedError):
                break
            sent[-1] = sent[-1]._replace(error=None)
            limit, too_many = limit // 2, limit
        if too_many:
            alone = send(first.ask._replace(page=page._replace(companies=page.companies[:1], limit=too_many)))
            sent.append(alone._replace(error=None))
            is_page = isinstance(alone.error, RequestRefusedError)
            limit = max(limit, 1)
            limits |= {"page_limit_max": limit} if is_page else {"records_per_request": len(page.companies) * limit}
    return sent, {key: most for key, most in limits.items() if most}


def is_nobodys_fault(parts: list[Sent]) -> bool:
    """Return whether the last parts show that every request fails, whichever companies it names."""
    return _are_spoilt(parts) and (len(parts) > 1 or isinstance(parts[0].error, RequestRefusedError))


def is_size(first: Sent, parts: list[Sent]) -> bool:
    """Return whether the last parts show that the first request was refused only for its size."""
    return isinstance(first.error, RequestRefusedError) and all(part.error is None for part in parts)


def lower_limits(api: ApiSettings, header: Header) -> dict[str, int]:
    """Return the limits of a header of kind `LIMITS` that are lower than the current ones, where 0 means no limit."""
    limits = {key: most for key, most in header.limits.items() if not 0 < getattr(api, key) <= most}
    records = limits.get("records_per_request", api.companies_per_request)
    return {"companies_per_request": records} | limits if records < api.companies_per_request else limits


def is_empty(sent: Sent) -> bool:
    """Return whether the last answer was an empty array."""
    return bool(sent.landed) and sent.landed[-1][0].is_success and sent.landed[-1][1].split() in ([b"[]"], [b"[", b"]"])


def is_no_such_place(refused: Sent) -> bool:
    """Return whether a refusal means that the endpoint does not exist; other datasets may still be offered."""
    return refused.landed[-1][0].status in NO_SUCH_PLACE


def names_unknown(api: ApiSettings, refused: Sent) -> bool:
    """Return whether a refusal says that the service does not know the only company of a request.

    A wrong address gets a 404 too, so the message must be the one for unknown companies or name the company.
    """
    error, companies = refused.error, refused.ask.page.companies
    if not isinstance(error, RequestRefusedError) or len(companies) > 1 or refused.landed[-1][0].status != NOT_FOUND:
        return False
    return is_about(api, companies[0], error.said)


def misfit(refused: Sent) -> RequestRefusedError:
    """Return the error for a refusal that no company causes, with the settings to check."""
    assert isinstance(refused.error, ServiceError)
    keys = ["api.companies_per_request", "records_per_request", "page_limit_max", "api.names"]
    keys += ["api.base_url"] * is_no_such_place(refused)
    return RequestRefusedError(
        refused.error.message,
        f"Run `firmlake check LIST --write FILE` to find settings that fit, then run with --config FILE. Or correct "
        f"{', '.join(keys[:-1])} or {keys[-1]} by hand; if only some companies are the reason, a lower "
        "api.companies_per_request shows which",
    )


def _are_spoilt(parts: Iterable[Sent]) -> bool:
    return all(part.is_spoilt for part in parts)
