"""The state of each dataset in a run: answered, not yet known, or given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from firmlake.core.errors import (
    RUN_AGAIN,
    AuthorizationError,
    FirmlakeError,
    ForbiddenError,
    ServiceError,
    UnavailableError,
)

__all__ = ["Standing"]


class Standing:
    """What a run knows about its datasets; may be used from many threads.

    Args:
        datasets: Datasets of the run.
        barred: Datasets that were given up when they were last requested.
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
        barred: Collection[str],
        on_works: Callable[[], object],
        *,
        is_understood: bool = False,
    ) -> None:
        self._datasets = datasets
        self._on_works = on_works
        self._works: set[str] = set()
        self._probes: dict[str, int | None] = dict.fromkeys(barred, 1)
        self._lock = threading.Lock()
        self.ended: dict[str, FirmlakeError] = {}
        self.has_worked = False
        self.is_understood = is_understood
        self.misfit: FirmlakeError | None = None

    def works(self, dataset: str) -> bool:
        """Tell whether a dataset is answered; until then its requests go one by one."""
        return dataset in self._works

    def take_probe(self, dataset: str) -> tuple[int | None] | None:
        """Claim the probe of a dataset, which asks for one company before any others. Only one caller gets it.

        Returns:
            A tuple with the tries for the probe (None is the usual number); or None if no probe is needed.
        """
        with self._lock:
            is_probe = dataset in self._probes and dataset not in self.ended
            return (self._probes.pop(dataset),) if is_probe else None

    def answered(self, dataset: str) -> None:
        """Record that a dataset is answered."""
        with self._lock:
            is_first, self.has_worked = not self.has_worked, True
            if dataset not in self.ended:
                self._works.add(dataset)
        if is_first:
            self._on_works()

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
            RequestRefusedError: No dataset was ever answered, and the first is refused. Correct the settings.
            ServiceError: No dataset is available. Run again later.
        """
        with self._lock:
            errors = [self.ended[dataset] for dataset in self._datasets if dataset in self.ended]
        if len(errors) < len(self._datasets):
            return
        if self.misfit and not self.has_worked:
            raise self.misfit
        kind = AuthorizationError if all(isinstance(error, ForbiddenError) for error in errors) else ServiceError
        messages = list(dict.fromkeys(error.message for error in errors))
        raise kind("; ".join(messages), errors[0].next_step or RUN_AGAIN)
