"""Plan the requests after a failed page, so that companies that make it fail cost no others their answer.

A 403 refuses a whole request even if the token may not ask about just one of its companies. Usually the token is
limited by country, so one or two companies of each country in the request are requested alone first. Any other failure,
and a 403 for which none of these is the reason, halves the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from firmlake.core.company import Company
from firmlake.core.errors import CountryRefusedError, ForbiddenError, OutOfCreditsError, ServiceError
from firmlake.landing.pages import Page, accompany
from firmlake.landing.sent import Ask, Sent, halve
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Scope
from firmlake.landing.track import LEFT_OUT

__all__ = ["ask_again"]


def ask_again(sent: Sent, shard: Shard, send: Callable[[Ask], Sent]) -> list[Ask]:
    """Return the requests to send after a page: none if it was answered or nothing can be done.

    A failed page is halved again and again, so one company that makes it fail is found in at most 2 log2(companies)
    requests. A page that failed by chance costs only two requests, because both halves are answered.

    Args:
        sent: The page, whose answers the shard has absorbed.
        shard: The shard of the page.
        send: Sends a request for a single company, whose answer the shard absorbs.
    """
    page, error, standing = sent.ask.page, sent.error, shard.standing
    if isinstance(error, OutOfCreditsError):
        return _afford(sent, shard)
    if isinstance(error, ForbiddenError):
        return _leave_out_forbidden(sent, error, shard, send)
    if isinstance(error, CountryRefusedError):  # so the page was not sent
        others = tuple(one for one in shard.unanswered(page) if not shard.refusal(page.dataset, one))
        return [sent.ask._replace(page=page._replace(companies=others))] if others else []
    if not sent.is_spoilt or page.dataset in standing.ended:
        return []
    assert isinstance(error, ServiceError)
    is_outage = getattr(error, "is_outage", False)
    if is_outage and shard.is_apart(page):
        # These companies failed before, and the service is down now: another run asks for them.
        shard.give_up(page.dataset, page.companies, error.message)
        return []
    wanted = page._replace(companies=shard.unanswered(page))
    if sent.is_empty and wanted == page:  # the service may leave out all these companies
        beside = list(accompany(standing.limits, [page], shard.witness(page.dataset)))
        if beside != [page]:
            return [Ask(each, sent.ask.tries) for each in beside]
        if shard.awaits_witness(page.dataset):
            return []  # planned again once the witness is there
    if len(wanted.companies) > 1:
        return halve(wanted)
    if is_outage:
        return [sent.ask]  # no company is to blame; the circuit breaker waits, and finally ends the dataset
    kind = "unknown" if sent.names_unknown(standing.limits) else "given_up"
    shard.give_up(page.dataset, wanted.companies, error.message, kind)
    if kind == "given_up" and sent.is_refused and not shard.is_apart(page):
        standing.spoil(shard.scope(page.dataset, wanted.companies[0]), error)
    return []


def _afford(sent: Sent, shard: Shard) -> list[Ask]:
    """Plan a smaller page that the remaining credits pay for; half the page if the service does not report them.

    Otherwise one missing credit would cost a page of 100 companies the other 99 answers.
    """
    page, left = sent.ask.page, shard.account.left
    unpaid = [company for company in page.companies if not shard.progress.is_paid(company)]
    count = min(len(unpaid) // 2 if left is None else left, len(unpaid) - 1)
    return [sent.ask._replace(page=page._replace(companies=tuple(unpaid[:count])))] if count > 0 else []


def _leave_out_forbidden(sent: Sent, error: ForbiddenError, shard: Shard, send: Callable[[Ask], Sent]) -> list[Ask]:
    """Return the requests after a 403: the page without its forbidden companies, or its halves if none was found."""
    page = sent.ask.page
    tracks = shard.progress.datasets[page.dataset]
    before = {company: tracks[company].next_offset for company in page.companies}
    if sent.landed:  # otherwise the page was not sent, because it is known to be forbidden
        if len(shard.unanswered(page)) < len(page.companies):
            # The page had a witness. Its companies get an empty answer without one and a refusal with one: count a
            # miss, so that this ends.
            for company in page.companies:
                tracks[company].miss(LEFT_OUT)
        if len(page.companies) == 1:
            shard.standing.refuse(shard.scope(page.dataset, page.companies[0]), page.companies[0], error)
        else:
            _sample(page, shard, send)
    wanted = tuple(
        company
        for company in page.companies
        if tracks[company].status == "pending"
        and tracks[company].next_offset == before[company]  # not answered alone
        and not tracks[company].is_given_up
        and not shard.refusal(page.dataset, company)
    )
    if len(wanted) == len(page.companies):
        return halve(page)
    return [sent.ask._replace(page=page._replace(companies=wanted))] if wanted else []


def _sample(page: Page, shard: Shard, send: Callable[[Ask], Sent]) -> None:
    """Request companies alone until each country in a page is known to be forbidden or not.

    If the dataset was never answered and the first company of each of several countries is refused, all these countries
    are forbidden. Otherwise it takes two companies of a country.
    """
    standing = shard.standing

    def ask_alone(scope: Scope, company: Company) -> ForbiddenError | None:
        """Request one company; return the error if it is forbidden."""
        sent = send(Ask(page._replace(companies=(company,)), 1))
        if not isinstance(sent.error, ForbiddenError):
            return None
        standing.refuse(scope, company, sent.error)
        return sent.error

    unknown: defaultdict[Scope, list[Company]] = defaultdict(list)
    for company in page.companies:
        scope = shard.scope(page.dataset, company)
        if not standing.is_known(scope):
            unknown[scope].append(company)
    refused = {scope: error for scope, of in unknown.items() if (error := ask_alone(scope, of[0]))}
    if len(refused) == len(unknown) > 1 and not standing.works(page.dataset):
        for scope, error in refused.items():
            standing.close(scope, error)
    for scope in refused:
        if len(unknown[scope]) > 1 and not standing.is_known(scope):
            ask_alone(scope, unknown[scope][-1])
