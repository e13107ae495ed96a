"""The state of each dataset in a run: answered, not yet known, or given up; and which countries it is forbidden for."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

from firmlake.core.company import COUNTRIES, Company
from firmlake.core.errors import (
    RUN_AGAIN,
    AuthorizationError,
    FirmlakeError,
    ForbiddenError,
    PausedByServiceError,
    ServiceError,
    UnavailableError,
)
from firmlake.landing.asked import AskedCountry

__all__ = ["PART", "Standing", "forbidden_for"]

PART = "The token may not ask about"
"""Beginning of the reasons that are about some companies and not about a whole dataset."""
_MOST = 0.5
"""A country is barred if a larger share of its companies was given up when they were last requested."""


class Standing:
    """What a run knows about its datasets; may be used from many threads.

    A country is barred in a dataset if most of the companies to ask for were given up when they were last requested. One
    of them is asked for before all others.

    Args:
        datasets: Datasets of the run.
        asked: The companies of the run, counted.
        on_works: Called once, when the first dataset is answered.
        company_count: Companies of the list; 0 if the run asks again for what failed, from any list.

    Attributes:
        ended: By dataset that was given up, the reason.
        closed: By dataset and country that the token may not ask about, the reason.
        has_worked: Whether any dataset was ever answered.
        misfit: The error that ends the run if no dataset is ever answered; None while the settings seem to fit.
    """

    def __init__(
        self,
        datasets: Collection[str],
        asked: Collection[AskedCountry],
        on_works: Callable[[], object],
        company_count: int = 0,
    ) -> None:
        self._datasets = datasets
        self._on_works = on_works
        self._countries: defaultdict[str, set[str]] = defaultdict(set)
        self._barred: defaultdict[str, set[str]] = defaultdict(set)
        self._held_in_part: set[tuple[str, str]] = set()  # barred countries of which other companies were answered
        counts: Counter[str] = Counter()
        for each in asked:
            counts[each.dataset] += each.asked_count
            self._countries[each.dataset].add(each.country)
            if each.barred_count > each.asked_count / 2:
                self._barred[each.dataset].add(each.country)
                if company_count and each.asked_count < each.listed_count:
                    self._held_in_part.add((each.dataset, each.country))
        self._known = {(each.dataset, each.country) for each in asked if each.known_count}
        self._whole = {dataset for dataset, count in counts.items() if count == company_count}
        self._works: set[str] = set()
        self._answered: set[tuple[str, str]] = set()
        # Whether anything is forbidden now that was answered before, or a whole list that was not forbidden before.
        self._has_lost = False
        self._probes: dict[str, int | None] = {}
        self._probed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.ended: dict[str, FirmlakeError] = {}
        self.closed: dict[tuple[str, str], FirmlakeError] = {}
        self.has_worked = False
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Tell whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    def must_wait(self, dataset: str, country: str) -> bool:
        """Tell whether requests about a country must wait for the answer to the next one."""
        return dataset not in self._works or self._is_probe_due(dataset, country)

    def is_barred(self, dataset: str, country: str) -> bool:
        """Tell whether most companies of a country were given up when they were last requested."""
        return country in self._barred[dataset]

    def is_unknown(self, dataset: str, country: str) -> bool:
        """Tell whether the token may or may not ask about a country: nothing has shown it yet."""
        return (dataset, country) not in self._answered and (dataset, country) not in self.closed

    def refusal(self, dataset: str, companies: Iterable[Company]) -> FirmlakeError | None:
        """Return why a request need not be sent, because its dataset or the country of a company is given up."""
        closed = self.closed and (self.closed.get((dataset, one.country)) for one in companies)
        return next(filter(None, closed), self.ended.get(dataset))

    def _is_probe_due(self, dataset: str, country: str) -> bool:
        key = dataset, country
        return self.is_barred(*key) and self.is_unknown(*key) and key not in self._probed and dataset not in self.ended

    def take_probe(self, dataset: str, country: str) -> tuple[int | None] | None:
        """Claim the probe of a dataset or barred country, which asks for one company before any others.

        Only one caller gets it.

        Returns:
            A tuple with the tries for the probe (None is the usual number); or None if no probe is needed.
        """
        with self._lock:
            if self._is_probe_due(dataset, country):
                self._probed.add((dataset, country))
                self._probes.pop(dataset, None)
                return (1,)
            is_probe = dataset in self._probes and dataset not in self.ended
            return (self._probes.pop(dataset),) if is_probe else None

    def answered(self, dataset: str, countries: Iterable[str]) -> None:
        """Record that a dataset is answered, about companies of these countries."""
        with self._lock:
            is_first, self.has_worked = not self.has_worked, True
            self._answered.update((dataset, country) for country in countries)
            if dataset not in self.ended:
                self._works.add(dataset)
        if is_first:
            self._on_works()

    def close(self, dataset: str, countries: Iterable[str], error: ForbiddenError) -> None:
        """Record countries that the token may not ask about; give up the dataset if these are all of the run's.

        If the whole list is asked for and nothing of the dataset was answered, a refusal about a barred country counts
        for all barred countries, so that a dataset that is still forbidden costs one request.
        """
        closed, barred, every = set(countries), self._barred[dataset], self._countries[dataset]
        if not closed:
            return
        with self._lock:
            news = {(dataset, country) for country in closed - barred}
            self._has_lost |= bool(news & self._known or (news and dataset in self._whole))
            if closed & barred and dataset in self._whole and dataset not in self._works:
                closed |= {country for country in barred if self.is_unknown(dataset, country)}
            for country in closed:
                whom = "this company" if (dataset, country) in self._held_in_part else f"companies in {country}"
                self.closed[dataset, country] = forbidden_for(error, whom)
            if dataset in self._works or not all((dataset, country) in self.closed for country in every):
                return
            if dataset in self._whole or every.issuperset(COUNTRIES):
                self.closed |= {(dataset, country): error for country in every}
        self.end(dataset, self.closed[dataset, min(every)])

    def close_rest(self, dataset: str, country: str, error: ForbiddenError, refused_count: int) -> None:
        """Record that no more companies of a country are asked for, because so many were refused one by one."""
        whom = f"{refused_count} companies in {country} that were asked for alone, so others were not asked for"
        self.closed[dataset, country] = forbidden_for(error, whom)

    def end(self, dataset: str, error: FirmlakeError) -> None:
        """Give up a dataset. If it is down, the others must be probed too, because the whole service may be down."""
        with self._lock:
            if dataset in self.ended:
                return
            self.ended[dataset] = error
            if isinstance(error, UnavailableError):
                self._works.clear()
                tries = None if self.has_worked else 1
                for other in self._datasets:
                    self._probes.setdefault(other, tries)
            self._works.discard(dataset)

    def check(self) -> None:
        """Make sure that at least one dataset is not given up.

        A run that asks only for companies that were forbidden before, or for the first ones of a country, goes on: the
        token may be good for the rest of the list.

        Raises:
            AuthorizationError: Every dataset is forbidden. Get a token that may use them.
            PausedByServiceError: The service wants a long pause for every dataset. Run again later.
            RequestRefusedError: No dataset was ever answered, and the first is refused. Correct the settings.
            ServiceError: No dataset is available. Run again later.
        """
        with self._lock:
            errors = [self.ended[dataset] for dataset in self._datasets if dataset in self.ended]
        if len(errors) < len(self._datasets):
            return
        if self.misfit and not self.has_worked:
            raise self.misfit
        kind: type[FirmlakeError] = ServiceError
        if all(isinstance(error, ForbiddenError) for error in errors):
            if not self._has_lost:
                return
            kind = AuthorizationError
        elif all(isinstance(error, PausedByServiceError) for error in errors):
            kind = PausedByServiceError
        messages = list(dict.fromkeys(error.message for error in errors))
        raise kind("; ".join(messages), errors[0].next_step or RUN_AGAIN)


def forbidden_for(error: ForbiddenError, whom: str) -> ForbiddenError:
    """Say which companies a 403 is about, with the words of the service.

    Example:
        >>> print(forbidden_for(ForbiddenError("The token may not use /v1/x (403: No)"), "companies in FR").message)
        The token may not ask about companies in FR (403: No)
    """
    said = error.message.partition(" (")[2]
    return ForbiddenError(f"{PART} {whom} ({said}", "Get a token that may, or leave these companies out of the list")
