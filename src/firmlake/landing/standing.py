"""What a run has learnt about the service and its token.

Each dataset is answered, not yet known, or given up. Within it, each `Scope`, the companies of a country, is open, not
yet known, or closed, because the token may not ask about it. A scope is open once a company of it is answered. It is
closed once two of its companies are refused alone; or one, if they were given up before; or ten in a row, if it was
open. Companies that are refused alone are given up in any case. A dataset whose scopes are all closed is given up, and
a run whose datasets are all forbidden ends.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from firmlake.core.company import Company
from firmlake.core.errors import (
    RUN_AGAIN,
    AuthorizationError,
    FirmlakeError,
    ForbiddenError,
    PausedByServiceError,
    ServiceError,
    UnavailableError,
)
from firmlake.landing.asked import Asked, Scope

__all__ = ["PARTLY", "Standing"]

PARTLY = "The token may not ask about"
"""Beginning of the reasons that are about some companies and not about a whole dataset."""
_REFUSED_MAX = 2
"""So many companies of a scope that are refused alone close it, as long as none was answered."""
_REFUSED_IN_A_ROW_MAX = 10
"""So many of them close it later: the service no longer answers about it, and these are no single companies."""


class Standing:
    """What a run knows about its datasets and their scopes; may be used from many threads.

    Args:
        datasets: Datasets of the run.
        asked: The companies of the run, counted.
        on_works: Called once, when the first dataset is answered.
        is_understood: The first value of the attribute.

    Attributes:
        ended: By dataset that was given up, the reason.
        has_worked: Whether any dataset was ever answered.
        is_understood: Whether an answer ever had something to say about a company that was asked for, other than that
            it is unknown. Until then, one that tells of others instead shows that we cannot read its identifiers.
        misfit: The error that ends the run if no dataset is ever answered; None while the settings seem to fit.
    """

    def __init__(
        self,
        datasets: Collection[str],
        asked: Asked,
        on_works: Callable[[], object],
        *,
        is_understood: bool = False,
    ) -> None:
        self._datasets = datasets
        self._asked = asked
        self._on_works = on_works
        self._works: set[str] = set()
        self._probes: dict[str, int | None] = {}
        self._open: set[Scope] = set()
        self._closed: dict[Scope, ForbiddenError] = {}
        self._refused: dict[tuple[str, Company], ForbiddenError] = {}
        self._in_a_row: Counter[Scope] = Counter()
        self._lock = threading.Lock()
        self.ended: dict[str, FirmlakeError] = {}
        self.has_worked = False
        self.is_understood = is_understood
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Tell whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    def is_known(self, scope: Scope) -> bool:
        """Tell whether it has turned out if the token may ask about a scope."""
        return scope in self._open or scope in self._closed

    def must_wait(self, scope: Scope) -> bool:
        """Tell whether requests about a scope go one by one, because the next answer decides about the others."""
        return scope.dataset not in self._works or (scope.was_barred and not self.is_known(scope))

    def take_probe(self, scope: Scope) -> tuple[int | None] | None:
        """Claim the probe of a dataset or scope, which asks for one company before any others. Only one caller gets it.

        Returns:
            A tuple with the tries for the probe (None is the usual number); or None if no probe is needed.
        """
        with self._lock:
            if scope.dataset in self.ended:
                return None
            is_due = scope.dataset in self._probes
            tries = self._probes.pop(scope.dataset, None)
            if scope.was_barred and not self.is_known(scope):
                return (1,)
            return (tries,) if is_due else None

    def answered(self, dataset: str, scopes: Iterable[Scope]) -> None:
        """Record that a dataset is answered, about companies of these scopes."""
        with self._lock:
            is_first, self.has_worked = not self.has_worked, True
            self.open(scopes)
            if dataset not in self.ended:
                self._works.add(dataset)
        if is_first:
            self._on_works()

    def open(self, scopes: Iterable[Scope]) -> None:
        """Record that the token may ask about scopes."""
        for scope in scopes:
            self._open.add(scope)
            self._in_a_row[scope] = 0

    def refuse(self, scope: Scope, company: Company, error: ForbiddenError) -> None:
        """Record that the token may not ask about a company of a scope, which was asked for alone."""
        self._refused[scope.dataset, company] = _about("this company", error)
        self._in_a_row[scope] += 1
        most = _REFUSED_IN_A_ROW_MAX if scope in self._open else 1 if scope.was_barred else _REFUSED_MAX
        if self._in_a_row[scope] >= min(most, self._asked.counts[scope]):
            self.close(scope, error)

    def close(self, scope: Scope, error: ForbiddenError) -> None:
        """Record that the token may not ask about a scope; give up the dataset if it may not ask about any.

        A country that is forbidden is so for companies that were given up before, too, but not the other way round.
        """
        whom = "these companies" if scope.was_barred else "companies"
        for each in (scope, scope._replace(was_barred=True)):
            self._closed[each] = _about(f"{whom} in {scope.country}", error)
        scopes = (each for each in self._asked.counts if each.dataset == scope.dataset)
        if scope.dataset in self._asked.whole and all(each in self._closed for each in scopes):
            self.end(scope.dataset, error)

    def refusal(self, scope: Scope, company: Company | None = None) -> FirmlakeError | None:
        """Return why a scope, or a company of it, gets no request; None if it may be asked for."""
        refused = self._refused.get((scope.dataset, company)) if company else None
        return self.ended.get(scope.dataset) or self._closed.get(scope) or refused

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

        Raises:
            AuthorizationError: Every dataset is forbidden. Get a token that may use them.
            PausedByServiceError: No dataset is available, one because the service wants a long pause. Run again later.
            RequestRefusedError: No dataset was ever answered, and the first is refused. Correct the settings.
            ServiceError: No dataset is available. Run again later.
        """
        with self._lock:
            errors = [self.ended[dataset] for dataset in self._datasets if dataset in self.ended]
        if len(errors) < len(self._datasets):
            return
        if self.misfit and not self.has_worked:
            raise self.misfit
        paused = next((error for error in errors if isinstance(error, PausedByServiceError)), None)
        is_forbidden = all(isinstance(error, ForbiddenError) for error in errors)
        kind = PausedByServiceError if paused else AuthorizationError if is_forbidden else ServiceError
        messages = list(dict.fromkeys(error.message for error in errors))
        raise kind("; ".join(messages), (paused or errors[0]).next_step or RUN_AGAIN)


def _about(whom: str, error: ForbiddenError) -> ForbiddenError:
    """Say whom a 403 is about, with the words of the service, which come in parentheses."""
    said = error.message.partition(" (")[2]
    return ForbiddenError(f"{PARTLY} {whom} ({said}", "Get a token that may, or leave these companies out of the list")
