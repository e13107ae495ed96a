"""Prevent retry storms: a budget of retries, and a circuit breaker for each endpoint.

All threads of a client share the budget and the breakers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from firmlake.core.errors import UnavailableError

__all__ = ["CircuitBreaker", "RetryBudget"]

Sleep = Callable[[float], None]
Probe = Callable[[], str]


class RetryBudget:
    """Limits retries to a share of the requests, plus a few that are always allowed.

    A service that fails on 10 % of requests in one way and 2 % in another needs 0.14 retries per request. A share of
    0.2 leaves room for that; more retries would not help a service that fails more often.

    Args:
        share: Retries that each request earns.
        floor: Retries allowed before any is earned, because failures in short runs come in clusters.
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
        """Take one retry; return False if none is left."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True


class CircuitBreaker:
    """Slows down and finally stops requests to an endpoint that fails on every request.

    While the breaker is closed, all requests go out. After `failures_max` failures in a row, from any thread, it opens:
    all threads wait, and after each pause one request goes out as a probe. Any answer other than a failure closes it.
    The best probe repeats a request that was answered before. If it fails too, the service is at fault; if it is
    answered, the failed requests are at fault.

    Args:
        clock: Monotonic seconds.
        random: A number from 0 to 1; spreads the pauses.
        failures_max: Failures in a row that open the breaker: more than `api.tries`, so that one bad request cannot.
        pause_seconds: First pause; each further one is twice as long.
        pause_max_seconds: Longest pause.
        patience_seconds: How long the breaker stays open before it gives up.

    Attributes:
        subject: What fails, for messages.
        last_failure: The last failure.
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
        """Whether the breaker is open: the endpoint currently fails on every request."""
        return self._opened_at is not None

    def enter(self, sleep: Sleep, probe: Probe | None = None) -> None:
        """Wait until a request may go out.

        Args:
            sleep: Waits for a number of seconds.
            probe: Repeats a request that was answered before. Returns the failure, or an empty text if the request is
                answered again; may raise. None makes the request itself the probe.

        Raises:
            UnavailableError: The endpoint has failed for `patience_seconds`. Run again later.
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
        """Record an answer, including a refusal; this closes the breaker."""
        with self._lock:
            self._failures, self._pause, self._opened_at = 0, self._first_pause, None

    def failed(self, what: str) -> None:
        """Record a failure: the service gave no usable answer."""
        with self._lock:
            self._failures += 1
            self.last_failure = what
            if self._failures >= self._failures_max and self._opened_at is None:
                self._opened_at = self._clock()
                self._set_next_probe(self._opened_at)

    def _claim(self) -> float | None:
        """Return None if closed, 0 for the right to probe, or the seconds to wait before asking again."""
        with self._lock:
            if self._opened_at is None:
                return None
            now = self._clock()
            if now - self._opened_at >= self._patience:
                minutes = f"{self._patience / 60:g} minutes"
                raise UnavailableError(
                    f"{self.subject} has failed on every request for {minutes}: {self.last_failure}",
                    "Landed answers are kept; run again when the service works",
                )
            if now < self._probe_at:
                return self._probe_at - now
            self._set_next_probe(now)
            return 0.0

    def _set_next_probe(self, now: float) -> None:
        self._probe_at = now + self._pause * (0.5 + self._random() / 2)
        self._pause = min(2 * self._pause, self._pause_max)
