"""What a run has learnt about its token and the service: what is answered, not yet known, forbidden or given up.

A dataset is answered, not yet known, or given up. Within a dataset, so is each `Part`: the companies of a country.
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
from firmlake.landing.asked import Asked, Part

__all__ = ["PARTLY", "Standing"]

PARTLY = "The token may not ask about"
"""Beginning of the reasons that are about some companies and not about a whole dataset."""
_REFUSED_MAX = 2
"""So many companies of a part that are refused alone close it, as long as none was answered."""
_REFUSED_IN_A_ROW_MAX = 10
"""So many of them close it later: the service no longer answers about it, and these are no single companies."""


class Standing:
    """What a run knows about its datasets and their parts; may be used from many threads.

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
        self._open: set[Part] = set()
        self._closed: dict[Part, ForbiddenError] = {}
        self._refused: dict[tuple[str, Company], ForbiddenError] = {}
        self._in_a_row: Counter[Part] = Counter()
        self._lock = threading.Lock()
        self.ended: dict[str, FirmlakeError] = {}
        self.has_worked = False
        self.is_understood = is_understood
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Tell whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    def is_known(self, part: Part) -> bool:
        """Tell whether it has turned out if the token may ask about a part."""
        return part in self._open or part in self._closed

    def must_wait(self, part: Part) -> bool:
        """Tell whether requests about a part go one by one, because the next answer decides about the others."""
        return part.dataset not in self._works or (part.was_barred and not self.is_known(part))

    def take_probe(self, part: Part) -> tuple[int | None] | None:
        """Claim the probe of a dataset or part, which asks for one company before any others. Only one caller gets it.

        Returns:
            A tuple with the tries for the probe (None is the usual number); or None if no probe is needed.
        """
        with self._lock:
            if part.dataset in self.ended:
                return None
            is_due = part.dataset in self._probes
            tries = self._probes.pop(part.dataset, None)
            if part.was_barred and not self.is_known(part):
                return (1,)
            return (tries,) if is_due else None

    def answered(self, dataset: str, parts: Iterable[Part]) -> None:
        """Record that a dataset is answered, about companies of these parts."""
        with self._lock:
            is_first, self.has_worked = not self.has_worked, True
            self.open(parts)
            if dataset not in self.ended:
                self._works.add(dataset)
        if is_first:
            self._on_works()

    def open(self, parts: Iterable[Part]) -> None:
        """Record that the token may ask about parts."""
        for part in parts:
            self._open.add(part)
            self._in_a_row[part] = 0

    def refuse(self, part: Part, company: Company, error: ForbiddenError) -> None:
        """Record that the token may not ask about a company of a part, which was asked for alone."""
        self._refused[part.dataset, company] = _about("this company", error)
        self._in_a_row[part] += 1
        most = _REFUSED_IN_A_ROW_MAX if part in self._open else 1 if part.was_barred else _REFUSED_MAX
        if self._in_a_row[part] >= min(most, self._asked.counts[part]):
            self.close(part, error)

    def close(self, part: Part, error: ForbiddenError) -> None:
        """Record that the token may not ask about a part; give up the dataset if it may not ask about any.

        What is refused now holds for what was refused before, but not the other way round. If the whole list was given
        up before, one part that is refused again shows that nothing has changed.
        """
        whom = "these companies" if part.was_barred else "companies"
        for each in (part, part._replace(was_barred=True)):
            self._closed[each] = _about(f"{whom} in {part.country}", error)
        parts = [each for each in self._asked.counts if each.dataset == part.dataset]
        if part.dataset in self._asked.whole and (
            all(each in self._closed for each in parts)
            or all(each.was_barred and each not in self._open for each in parts)
        ):
            self.end(part.dataset, error)

    def refusal(self, part: Part, company: Company | None = None) -> FirmlakeError | None:
        """Return why a part, or a company of it, gets no request; None if it may be asked for."""
        refused = self._refused.get((part.dataset, company)) if company else None
        return self.ended.get(part.dataset) or self._closed.get(part) or refused

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
        kinds = {ForbiddenError: AuthorizationError, PausedByServiceError: PausedByServiceError}
        same = (kind for each, kind in kinds.items() if all(isinstance(error, each) for error in errors))
        messages = list(dict.fromkeys(error.message for error in errors))
        raise next(same, ServiceError)("; ".join(messages), errors[0].next_step or RUN_AGAIN)


def _about(whom: str, error: ForbiddenError) -> ForbiddenError:
    """Say whom a 403 is about, with the words of the service, which come in parentheses."""
    said = error.message.partition(" (")[2]
    return ForbiddenError(f"{PARTLY} {whom} ({said}", "Get a token that may, or leave these companies out of the list")
