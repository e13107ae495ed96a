"""Find out whom a 403 is about: everybody, the companies of a country, or single companies.

The service answers 403 for a whole request, even if the token may not ask about only one of its companies. As a rule it
is a country that a token may not ask about. So one or two companies of each country in the request are asked for alone;
only if these are answered, the request is halved.
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
    """Return what to ask for after a 403: the page without the companies that are forbidden, or else its halves.

    Args:
        sent: The page, and the 403; without an answer if the page was not sent, because of what is known by now.
        shard: The shard of the page. It takes in the answers to further requests.
        standing: Records what the token may not ask about.
        send: Sends a request.
    """
    page, error = sent.ask.page, sent.error
    assert isinstance(error, ForbiddenError)
    tracks = shard.progress.datasets[page.dataset]
    before = {company: tracks[company].next_offset for company in page.companies}
    if sent.landed and any(tracks[company].status == "answered" for company in page.companies):
        # Without the witness they get an empty answer, and with another the same refusal: not for ever.
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
    """Ask for companies alone until it is known of each country in a page whether it is forbidden.

    If the dataset was never answered, and one company of each of several countries is refused, all are forbidden.
    Otherwise it takes two of a country.
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
    """Ask for a company of a page; return the error if that is forbidden."""
    sent = send(Ask(page._replace(companies=(company,)), 1))
    shard.absorb(sent.landed)
    if not isinstance(sent.error, ForbiddenError):
        return None
    standing.refuse(shard.scope(page.dataset, company), company, sent.error)
    return sent.error
