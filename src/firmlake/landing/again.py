"""Plan the requests after a failed page, so that companies that make it fail cost no others their answer."""

from __future__ import annotations

from functools import partial

from firmlake.core.errors import ForbiddenError, OutOfCreditsError, ServiceError
from firmlake.core.settings import ApiSettings
from firmlake.landing.forbidden import leave_out_forbidden
from firmlake.landing.narrow import Ask, Sent, halve, is_empty, names_unknown
from firmlake.landing.pages import accompany
from firmlake.landing.send import Sender
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Standing

__all__ = ["ask_again"]


def ask_again(limits: ApiSettings, sent: Sent, shard: Shard, standing: Standing, sender: Sender) -> list[Ask]:
    """Return the requests to send after a page: none if it was answered or nothing can be done.

    A failed page is halved again and again, so one company that makes it fail is found in at most 2 log2(companies)
    requests. A page that failed by chance costs only two requests, because both halves are answered.
    """
    page, error = sent.ask.page, sent.error
    if isinstance(error, OutOfCreditsError):
        return sender.afford(sent, shard)
    if isinstance(error, ForbiddenError):
        return leave_out_forbidden(sent, shard, standing, partial(sender.send, shard=shard))
    if not sent.is_spoilt or page.dataset in standing.ended:
        return []
    assert isinstance(error, ServiceError)
    is_outage, is_apart = getattr(error, "is_outage", False), shard.is_apart(page)
    if is_apart and is_outage:
        # These companies failed before, and the service is down now: another run asks for them.
        sender.give_up(page.dataset, page.companies, error.message, shard)
        return []
    wanted = page._replace(companies=shard.unanswered(page))
    if is_empty(sent) and wanted == page:  # the service may leave out all these companies
        beside = list(accompany(limits, [page], shard.witness(page.dataset, standing.refusal)))
        if beside != [page]:
            return [Ask(each, sent.ask.tries) for each in beside]
    if len(wanted.companies) > 1:
        return halve(wanted)
    if is_outage:
        return [sent.ask]  # no company is to blame; the circuit breaker waits, and finally ends the dataset
    kind = "unknown" if names_unknown(limits, sent) else "given_up"
    sender.give_up(page.dataset, wanted.companies, error.message, shard, kind)
    return []
