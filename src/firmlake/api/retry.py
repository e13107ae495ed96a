"""Whether and when a failed request is tried again, and how an endpoint that fails on every request is slowed down."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import tenacity

from firmlake.api.connection import Timing
from firmlake.api.judge import FailureKind, TryAgainError
from firmlake.core.errors import UnavailableError

T = TypeVar("T")
Sleep = Callable[[float], None]

UNUSABLE_TRIES = 3
"""Give up after this many unusable answers, because a further try rarely helps."""
THROTTLED_MAX_SECONDS = 900.0
"""Longest time that one request is repeated after 429s."""
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0


class Tries:
    """The tries of one request.

    Waits use full jitter (up to 1, 2, 4 ... seconds), or last as long as the service asked for if that is longer. A 429
    does not count as a try. Once the service has been reached, a lost connection does not either (`bears_outage`): the
    circuit breaker limits an outage. `sleep` raises when the run is interrupted; `tell` gets the reason for each wait.
    """

    def __init__(
        self,
        most: int,
        wait_max_seconds: float,
        timing: Timing,
        sleep: Sleep,
        bears_outage: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._most, self._wait_max, self._timing = most, wait_max_seconds, timing
        self._sleep, self._bears_outage, self._tell = sleep, bears_outage, tell
        self._counts: Counter[FailureKind] = Counter()
        self._began = timing.clock()

    def carry_out(self, work: Callable[[], T]) -> T:
        """Call a function, one try, until it returns or no tries are left, which raises the last TryAgainError.

        Tenacity is used only if the first try fails. Most requests succeed at once, and tenacity would cost each of
        them 0.15 ms and leave a cycle of objects to the garbage collector.
        """
        try:
            return work()
        except TryAgainError as error:
            failed = [error]

        def next_try() -> T:
            if failed:
                raise failed.pop()
            return work()

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TryAgainError),
            stop=self._gives_up,
            wait=self._seconds_to_wait,
            sleep=self._sleep,
            before_sleep=self._tell_why,
            reraise=True,
        )
        return retrying(next_try)

    def _counts_as_try(self, kind: FailureKind) -> bool:
        return kind in ("failed", "unusable") or (kind == "unreachable" and not self._bears_outage())

    def _used(self) -> int:
        return self._counts.total() - self._counts["throttled"]

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        kind = _error(state).kind
        self._counts[kind] += 1
        if kind == "throttled":
            return self._timing.clock() - self._began + state.upcoming_sleep > THROTTLED_MAX_SECONDS
        is_over = self._used() >= self._most or self._counts["unusable"] >= UNUSABLE_TRIES
        return is_over and self._counts_as_try(kind)

    def _seconds_to_wait(self, state: tenacity.RetryCallState) -> float:
        ceiling = min(_FIRST_WAIT_SECONDS * 2.0 ** min(state.attempt_number - 1, 30), _LONGEST_WAIT_SECONDS)
        jitter = min(self._timing.random() * ceiling, self._wait_max)
        return max(jitter, _error(state).wait_seconds or 0.0)

    def _tell_why(self, state: tenacity.RetryCallState) -> None:
        error = _error(state)
        again = f"try {self._used() + 1} of {self._most}"
        which = again if self._counts_as_try(error.kind) else f"again in {state.upcoming_sleep:.0f} s"
        self._tell(f"{error.reason}, {which}")


def _error(state: tenacity.RetryCallState) -> TryAgainError:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, TryAgainError)
    return error


class CircuitBreaker:
    """Slows down and finally stops requests to an endpoint that fails on every request.

    While the breaker is closed, all requests go out. After `failures_max` failures in a row, from any thread, it opens:
    all threads wait, and after each pause one request goes out. Any answer other than a failure closes the breaker.
    After `patience_seconds` it gives up. A random number from 0 to 1 spreads the pauses.
    """

    failures_max = 8  # in a row: more than `api.tries`, so that one bad request cannot open it
    pause_seconds = 1.0  # the first one; each further one is twice as long
    pause_max_seconds = 30.0
    patience_seconds = 300.0

    def __init__(self, path: str, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._path, self._clock, self._random = path, clock, random
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = self.pause_seconds
        self._opened_at: float | None = None
        self._next_at = 0.0
        self.last_failure = ""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open: the endpoint currently fails on every request."""
        return self._opened_at is not None

    def enter(self, sleep: Sleep) -> None:
        """Wait, by a function that takes seconds, until a request may go out.

        If the endpoint has failed for `patience_seconds` (UnavailableError), run again later.
        """
        while seconds := self._seconds_to_wait():
            sleep(seconds)

    def succeeded(self) -> None:
        """Record an answer, including a refusal; this closes the breaker."""
        with self._lock:
            self._failures, self._pause, self._opened_at = 0, self.pause_seconds, None

    def failed(self, what: str) -> None:
        """Record a failure: the service gave no usable answer."""
        with self._lock:
            self._failures += 1
            self.last_failure = what
            if self._failures >= self.failures_max and self._opened_at is None:
                self._opened_at = self._clock()
                self._pause_from(self._opened_at)

    def _seconds_to_wait(self) -> float:
        """Return the seconds after which to ask again; 0 for the right to send a request."""
        with self._lock:
            if self._opened_at is None:
                return 0.0
            now = self._clock()
            if now - self._opened_at >= self.patience_seconds:
                minutes = f"{self.patience_seconds / 60:g} minutes"
                raise UnavailableError(
                    f"{self._path} has failed on every request for {minutes}: {self.last_failure}",
                    "Landed answers are kept; run again when the service works",
                )
            if now < self._next_at:
                return self._next_at - now
            self._pause_from(now)
            return 0.0

    def _pause_from(self, now: float) -> None:
        self._next_at = now + self._pause * (0.5 + self._random() / 2)
        self._pause = min(2 * self._pause, self.pause_max_seconds)
