"""No retry storms: a budget for retries, and a circuit breaker for an endpoint that fails on every request.

All threads of a client share the budget, and the breaker of each endpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from firmlake.core.errors import UnavailableError

__all__ = ["CircuitBreaker", "RetryBudget"]

Sleep = Callable[[float], None]
Probe = Callable[[], str]


class RetryBudget:
    """Retries are at most a share of the requests, besides a few that are always allowed.

    With 10 % failures of one kind and 2 % of another a request needs 0.14 retries on average, so that 0.2 lets a
    service with ordinary troubles through; one that fails more often is not helped by being asked more often.

    Args:
        share: Retries earned by a request.
        floor: Retries allowed before any is earned: short runs fail in clusters.
    """

    def __init__(self, share: float = 0.2, floor: float = 10.0) -> None:
        self._share = share
        self._left = floor
        self._lock = threading.Lock()

    def earn(self) -> None:
        """Count a request."""
        with self._lock:
            self._left += self._share

    def spend(self) -> bool:
        """Take one retry; False when there is none left."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True


class CircuitBreaker:
    """Asks an endpoint that only fails less and less often, one request at a time, and at last not at all.

    Closed: everybody asks. After `failures_max` failures in a row, whoever had them, it opens: everybody waits, and
    after each pause one request goes out as a probe. Any answer that is not a failure closes it. The best probe is what
    was answered before: if that fails too it is the service; if not, the requests that failed are to blame.

    Args:
        clock: Monotonic seconds.
        random: 0 to 1; spreads the pauses.
        failures_max: More than `api.tries`, so that one bad request alone does not open it.
        pause_seconds: First pause; each further one is twice as long.
        pause_max_seconds: Longest pause.
        patience_seconds: Open for so long, it gives up.

    Attributes:
        subject: What fails, for messages.
        last_failure: What was wrong last.
    """

    subject = "The service"

    def __init__(
        self,
        clock: Callable[[], float],
        random: Callable[[], float],
        failures_max: int = 8,
        pause_seconds: float = 1.0,
        pause_max_seconds: float = 30.0,
        patience_seconds: float = 300.0,
    ) -> None:
        self._clock = clock
        self._random = random
        self._failures_max = failures_max
        self._first_pause = pause_seconds
        self._pause_max = pause_max_seconds
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = pause_seconds
        self._opened_at: float | None = None
        self._probe_at = 0.0
        self.last_failure = ""
        self.failed_probe_count = 0

    @property
    def is_open(self) -> bool:
        """Whether the endpoint fails on every request at the moment."""
        return self._opened_at is not None

    def enter(self, sleep: Sleep, probe: Probe | None = None) -> None:
        """Wait until a request may go out.

        Args:
            sleep: Waits.
            probe: Asks for what was answered before; raises or returns what is wrong, empty if it is answered again.
                Without one the request itself is the probe.

        Raises:
            UnavailableError: The endpoint has failed for so long that it is given up: run again later.
        """
        while (seconds := self._claim()) is not None:
            if seconds > 0:
                sleep(seconds)
            elif probe is None:
                return
            elif wrong := probe():
                self.failed_probe_count += 1
                self.failed(wrong)
            else:
                self.succeeded()

    def succeeded(self) -> None:
        """Say that the service answered, be it with a refusal."""
        with self._lock:
            self._failures, self._pause, self._opened_at = 0, self._first_pause, None

    def failed(self, what: str) -> None:
        """Say that it did not give a usable answer."""
        with self._lock:
            self._failures += 1
            self.last_failure = what
            if self._failures >= self._failures_max and self._opened_at is None:
                self._opened_at = self._clock()
                self._set_next_probe(self._opened_at)

    def _claim(self) -> float | None:
        """None while closed; else 0 for the right to probe, or seconds to wait before asking again."""
        with self._lock:
            if self._opened_at is None:
                return None
            now = self._clock()
            if now - self._opened_at >= self._patience:
                minutes = f"{self._patience / 60:g} minutes"
                raise UnavailableError(
                    f"{self.subject} has failed on every request for {minutes}: {self.last_failure}",
                    "What was fetched is kept; run again when the service is well",
                )
            if now < self._probe_at:
                return self._probe_at - now
            self._set_next_probe(now)
            return 0.0

    def _set_next_probe(self, now: float) -> None:
        self._probe_at = now + self._pause * (0.5 + self._random() / 2)
        self._pause = min(2 * self._pause, self._pause_max)
