"""Find out whether a 403 is about a dataset, the companies of a country, or single companies.

The service answers 403 for a whole request even if the token may not ask about just one of its companies. Usually the
token is limited by country. So one or two companies of each country in the request are requested alone first. The
request is halved only if these are answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from firmlake.core.company import Company
from firmlake.core.errors import ForbiddenError
from firmlake.landing.asked import Scope
from firmlake.landing.narrow import Ask, Sent, halve
from firmlake.landing.pages import Page
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Standing
from firmlake.landing.track import LEFT_OUT

__all__ = ["leave_out_forbidden"]


def leave_out_forbidden(sent: Sent, shard: Shard, standing: Standing, send: Callable[[Ask], Sent]) -> list[Ask]:
    """Return the requests after a 403: the page without its forbidden companies, or its halves if none was found.

    Args:
        sent: The page and the 403. There is no answer if the page was not sent because it is known to be forbidden.
        shard: The shard of the page. It absorbs the answers to further requests.
        standing: Records what the token may not ask about.
        send: Sends a request.
    """
    page, error = sent.ask.page, sent.error
    assert isinstance(error, ForbiddenError)
    tracks = shard.progress.datasets[page.dataset]
    before = {company: tracks[company].next_offset for company in page.companies}
    if sent.landed and any(tracks[company].status == "answered" for company in page.companies):
        # The page had a witness. Its companies get an empty answer without one and a refusal with one: count a miss,
        # so that this ends.
        for company in page.companies:
            tracks[company].miss(LEFT_OUT)
    if sent.landed and len(page.companies) == 1:
        standing.refuse(shard.scope(page.dataset, page.companies[0]), page.companies[0], error)
    elif sent.landed:
        _sample(page, shard, standing, lambda company: _send_alone(company, page, shard, standing, send))
    wanted = tuple(
        company
        for company in page.companies
        if tracks[company].status == "pending"
        and tracks[company].next_offset == before[company]  # not answered alone
        and not tracks[company].is_given_up
        and not standing.refusal(shard.scope(page.dataset, company), company)
    )
    if len(wanted) == len(page.companies):
        return halve(page)
    return [sent.ask._replace(page=page._replace(companies=wanted))] if wanted else []


def _sample(
    page: Page, shard: Shard, standing: Standing, ask_alone: Callable[[Company], ForbiddenError | None]
) -> None:
    """Request companies alone until each country in a page is known to be forbidden or not.

    If the dataset was never answered and the first company of each of several countries is refused, all these countries
    are forbidden. Otherwise it takes two companies of a country.
    """
    unknown: defaultdict[Scope, list[Company]] = defaultdict(list)
    for company in page.companies:
        scope = shard.scope(page.dataset, company)
        if not standing.is_known(scope):
            unknown[scope].append(company)
    refused = {scope: error for scope, companies in unknown.items() if (error := ask_alone(companies[0]))}
    if len(refused) == len(unknown) > 1 and not standing.works(page.dataset):
        for scope, error in refused.items():
            standing.close(scope, error)
    for scope in refused:
        if len(unknown[scope]) > 1 and not standing.is_known(scope):
            ask_alone(unknown[scope][-1])


def _send_alone(
    company: Company, page: Page, shard: Shard, standing: Standing, send: Callable[[Ask], Sent]
) -> ForbiddenError | None:
    """Request one company of a page; return the error if it is forbidden."""
    sent = send(Ask(page._replace(companies=(company,)), 1))
    shard.absorb(sent.landed)
    if not isinstance(sent.error, ForbiddenError):
        return None
    standing.refuse(shard.scope(page.dataset, company), company, sent.error)
    return sent.error
