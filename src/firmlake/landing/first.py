"""Send the first request of a dataset, and find out why it fails: a company, its size, the settings, or the service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from zlib import crc32

import msgspec

from firmlake.core.errors import ForbiddenError, RequestFailedError, RequestRefusedError, ServiceError
from firmlake.core.settings import ApiSettings
from firmlake.landing.pages import Page, Wanted, plan_pages
from firmlake.landing.sent import TRIES_ALONE, Ask, Sent, halve
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Probe

__all__ = ["send_first"]

Send = Callable[[Ask], Sent]


def send_first(asks: deque[Ask], shard: Shard, send: Send) -> list[Sent]:
    """Send the next page of a dataset that has not been answered yet, or of companies that were given up before.

    If the page fails, smaller and smaller parts of it are sent to find the reason:

    - Some companies make it fail: only these are given up.
    - Every part fails: the dataset is given up. If the service refuses every request of the run, the run ends;
      after a 404, only once the other datasets have failed too.
    - The page was too large: the rest of the run is planned with smaller pages.
    - Every answer is empty and the companies are new: these companies fail.

    Returns:
        The results for `ask_again`: the page, or the last parts of it.
    """
    standing, page = shard.standing, asks[0].page
    if probe := standing.take_probe(shard.scope(page.dataset, page.companies[0])):
        return _probe(asks, probe, shard, send)
    first = send(asks.popleft())
    if not first.is_spoilt or shard.is_apart(page):
        return [first]
    parts = _find_reason(first, send)
    if any(part.names_unknown(standing.limits) for part in parts):
        standing.answered(page.dataset)  # the endpoint exists, because its message is about a company
    elif first.is_refused and not any(part.error for part in parts):  # only for its size
        asks.clear()
        # Recorded at once in case the run is killed before it finds the exact limits.
        shard.note_limits(page, _size_of(parts[0].ask.page))
        limits = _find_limits(standing.limits, first, parts[0], send)
        standing.keep_to(shard.note_limits(page, limits))
    elif all(part.is_spoilt for part in parts) and (len(parts) > 1 or parts[0].is_refused):
        is_earlier = standing.is_understood and not standing.has_worked  # only earlier runs were answered
        if is_earlier and all(part.is_empty for part in parts) and shard.give_up_new(page):
            return []
        went_down = first.is_refused and not any(part.is_refused for part in parts)
        cause = parts[-1] if went_down else first
        assert cause.error
        if cause.is_refused and not standing.has_worked:
            standing.misfit = _misfit(cause)
            if not cause.is_no_such_place:
                raise standing.misfit
        standing.end(page.dataset, cause.error)
    return parts


def _probe(asks: deque[Ask], probe: Probe, shard: Shard, send: Send) -> list[Sent]:
    """Ask for one company of the next page, to see whether its dataset or country is available again."""
    ask = asks[0]
    page, standing, is_brief = ask.page, shard.standing, probe == "brief"
    # Each run picks another company, so that one that always fails cannot block the others.
    company = page.companies[crc32(shard.run.run_id.encode()) % len(page.companies)]
    tries = 1 if is_brief else standing.limits.tries
    sent = send(Ask(page._replace(companies=(company,)), tries, is_patient=False))
    is_down = isinstance(sent.error, RequestFailedError) or (is_brief and sent.is_refused)
    if sent.error and is_down and not standing.works(page.dataset):
        standing.end(page.dataset, sent.error)
        return []
    is_forbidden = isinstance(sent.error, ForbiddenError)
    if sent.error is None or is_forbidden:
        asks.popleft()
        if rest := tuple(other for other in page.companies if other != company):
            asks.appendleft(ask._replace(page=page._replace(companies=rest)))
    if is_forbidden:
        return [sent]
    standing.open([shard.scope(page.dataset, company)])
    return []


def _find_reason(first: Sent, send: Send) -> list[Sent]:
    """Send smaller and smaller parts of a dataset's first request, which failed, to find the reason.

    If companies are the reason, one part is answered and another of the same size is not. If the settings or the
    service are the reason, all parts fail, even single companies. If the page was too large, all parts are answered.

    After a refusal, each part asks for one record per company. If the request only had too many records, the first
    such part is answered, and no company is requested alone. For a single company, an answer that leaves it out could
    not be told from a failure.

    Returns:
        The last parts, which show the reason.
    """
    rest: list[Ask] = []
    sent = first
    if first.is_refused and not first.is_no_such_place and (first.ask.page.limit or 1) > 1:
        sent = send(first.ask._replace(page=first.ask.page._replace(limit=1)))
    while sent.is_spoilt and len(sent.ask.page.companies) > 1:
        half, *rest = halve(sent.ask.page)
        sent = send(half)
    parts = [sent, *(send(other) for other in rest)]
    companies = first.ask.page.companies
    if all(part.is_spoilt for part in parts) and len(companies) > len(parts):  # two neighbours may both be the reason
        parts.append(send(Ask(sent.ask.page._replace(companies=companies[-1:]), TRIES_ALONE)))
    return parts


def _size_of(page: Page) -> dict[str, int]:
    """Return the settings of `api` that make no request larger than a page."""
    count = len(page.companies)
    return {"companies_per_request": count} | ({"records_per_request": count * page.limit} if page.limit else {})


def _find_limits(api: ApiSettings, first: Sent, answered: Sent, send: Send) -> dict[str, int]:
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
        All limits that hold from now on.
    """
    refused, page = first.ask.page, answered.ask.page
    is_smaller = len(page.companies) < len(refused.companies)
    most = len(page.companies) if is_smaller else api.companies_per_request
    limits = {"companies_per_request": most, "records_per_request": api.records_per_request}
    if refused.limit:
        fewer = msgspec.structs.replace(api, **limits)
        planned = plan_pages(fewer, page.dataset, [Wanted(company) for company in page.companies])[0].limit or 1
        limit, too_many = (planned, 0) if is_smaller else (refused.limit // 2, refused.limit)
        while limit > 1 and send(first.ask._replace(page=page._replace(limit=limit))).is_refused:
            limit, too_many = limit // 2, limit
        if too_many:
            alone = send(first.ask._replace(page=page._replace(companies=page.companies[:1], limit=too_many)))
            limit = max(limit, 1)
            records = {"records_per_request": len(page.companies) * limit}
            limits |= {"page_limit_max": limit} if alone.is_refused else records
    return {key: most for key, most in limits.items() if most}


def _misfit(refused: Sent) -> RequestRefusedError:
    """Return the error for a refusal that no company causes, with the settings to check."""
    assert isinstance(refused.error, ServiceError)
    keys = ["api.companies_per_request", "records_per_request", "page_limit_max", "api.names"]
    keys += ["api.base_url"] * refused.is_no_such_place
    return RequestRefusedError(
        refused.error.message,
        f"Run `firmlake check LIST --write FILE` to find settings that fit, then run with --config FILE. Or correct "
        f"{', '.join(keys[:-1])} or {keys[-1]} by hand; if only some companies are the reason, a lower "
        "api.companies_per_request shows which",
    )
