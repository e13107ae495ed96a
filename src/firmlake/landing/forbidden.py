"""Find out whom a 403 is about: everybody, the companies of a country, or single companies.

The service answers 403 for a whole request, even if the token may not ask about only one of its companies. Most tokens
that may not ask about everybody may not ask about a country. So one or two companies of each country are asked for
alone; only if that does not explain the 403, the request is halved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

from firmlake.core.company import Company
from firmlake.core.errors import ForbiddenError
from firmlake.landing.narrow import Ask, Sent, halve
from firmlake.landing.send import Sender
from firmlake.landing.shard import Shard
from firmlake.landing.standing import Standing, forbidden_for

__all__ = ["REFUSED_ALONE_MAX", "Forbidden"]

REFUSED_ALONE_MAX = 10
"""So many companies of a country are refused one by one in a dataset; then no others of the country are asked for."""


class Forbidden:
    """Finds the companies of a run that the token may not ask about, and leaves them out.

    Args:
        standing: Records the countries that are forbidden.
        sender: Sends requests.
        is_redrive: Whether companies that were forbidden before are asked for one by one if they are refused again.
    """

    def __init__(self, standing: Standing, sender: Sender, *, is_redrive: bool) -> None:
        self._standing, self._sender, self._is_redrive = standing, sender, is_redrive
        self._refused_alone: Counter[tuple[str, str]] = Counter()

    def explain(self, sent: Sent, shard: Shard) -> list[Sent]:
        """Send what shows whether a 403 is about whole countries, and record these.

        Returns:
            The given result, with what was sent after it; its error comes last.
        """
        page, error, standing = sent.ask.page, sent.error, self._standing
        if not isinstance(error, ForbiddenError) or not sent.landed:
            return [sent]
        country = page.companies[0].country
        samples: list[Sent] = []
        if self._was_forbidden(page.dataset, page.companies, shard):
            return [sent]
        if len(page.companies) == 1 and standing.is_barred(page.dataset, country):
            closed = [country]
        else:
            unknown = [
                company
                for company in shard.progress.pending(page.dataset)
                if standing.is_unknown(page.dataset, company.country)
                and not standing.is_barred(page.dataset, company.country)
            ]
            samples, closed = _sample(sent, unknown, lambda ask: self._sender.send(ask, shard))
        standing.close(page.dataset, closed, error)
        return [sent._replace(error=None), *samples, sent._replace(landed=[])]

    def leave_out(self, sent: Sent, shard: Shard) -> list[Ask]:
        """Return what to ask for after a 403: the page without forbidden countries, else its halves, else nothing."""
        page, error, standing = sent.ask.page, sent.error, self._standing
        assert isinstance(error, ForbiddenError)
        if page.dataset in standing.ended:
            return []
        tracks = shard.progress.datasets[page.dataset]
        wanted = tuple(
            company
            for company in page.companies
            if (page.dataset, company.country) not in standing.closed
            and tracks[company].status == "pending"
            and tracks[company].next_offset == (page.offset or 0)
        )
        if len(wanted) < len(page.companies):
            return [sent.ask._replace(page=page._replace(companies=wanted))] if wanted else []
        if len(wanted) > 1 and not self._was_forbidden(page.dataset, wanted, shard):
            return halve(page)
        self._sender.give_up(page.dataset, wanted, forbidden_for(error, "this company").message, shard, "forbidden")
        key = page.dataset, wanted[0].country
        self._refused_alone[key] += len(wanted) == 1
        if self._refused_alone[key] == REFUSED_ALONE_MAX:
            standing.close_rest(*key, error, REFUSED_ALONE_MAX)
        return []

    def _was_forbidden(self, dataset: str, companies: Collection[Company], shard: Shard) -> bool:
        """Tell whether single companies were forbidden before, so that another refusal of them all is no surprise."""
        is_barred_alone = shard.barred[dataset].issuperset(companies) and not self._is_redrive
        return is_barred_alone and not any(self._standing.is_barred(dataset, one.country) for one in companies)


# ---------------------------------------------------------------------------------------------------------------------


def _sample(refused: Sent, companies: Iterable[Company], send: Callable[[Ask], Sent]) -> tuple[list[Sent], list[str]]:
    """Ask for companies alone, to find the countries of which the token may not ask about any.

    Two companies that are refused show it: two of a country, or one each of two countries if no country is answered.

    Args:
        refused: A request that was answered with 403.
        companies: The companies still to ask for, of countries of which nothing was answered yet.
        send: Sends a request.

    Returns:
        The requests sent, and the countries.
    """
    page = refused.ask.page
    samples: list[Sent] = []
    count_refused: defaultdict[str, int] = defaultdict(int)
    of_country: defaultdict[str, list[Company]] = defaultdict(list)
    for company in companies:
        of_country[company.country].append(company)
    if len(page.companies) == 1 and page.companies[0].country in of_country:
        [company] = page.companies
        of_country[company.country] = [other for other in of_country[company.country] if other != company]
        count_refused[company.country] = 1

    def is_refused(company: Company) -> bool:
        alone = page._replace(companies=(company,), offset=None if page.offset is None else 0)
        samples.append(send(Ask(alone, refused.ask.tries)))
        return isinstance(samples[-1].error, ForbiddenError)

    for country, candidates in of_country.items():
        if not count_refused[country]:
            count_refused[country] += is_refused(candidates.pop(0))
    found = [country for country in of_country if count_refused[country]]
    if len(found) == len(of_country) > 1:
        return samples, found
    return samples, [country for country in found if not of_country[country] or is_refused(of_country[country].pop())]
