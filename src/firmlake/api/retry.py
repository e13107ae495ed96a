"""The retry policy: whether and when to repeat a failed try, and with which error to give up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeVar

import tenacity

from firmlake.api.exchange import Answer
from firmlake.api.timing import Timing
from firmlake.core.errors import (
    EndpointPausedError,
    FirmlakeError,
    PausedByServiceError,
    RequestFailedError,
    ServiceError,
    UnavailableError,
)

T = TypeVar("T")
FailureKind = Literal["failed", "unusable", "unreachable", "throttled"]

UNUSABLE_TRIES = 3
"""Give up after this many unusable answers, because a further try rarely helps."""
THROTTLED_MAX_SECONDS = 900.0
"""Longest time that one request is repeated after 429s."""
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_DIFFERS = "Run `firmlake check` to see how the answers differ from our assumptions"
_UNREAD = (
    "Ask the operator of the service or of a proxy in front of it; api.wire_bytes_max and api.body_bytes_max limit the "
    "size"
)


class TryAgainError(Exception):
    """A try failed, and a retry may succeed.

    Attributes:
        kind: `failed` (5xx, truncated, timeout) or `unusable` (a 200 answer of no use); `unreachable` (no connection)
            or `throttled` (429, or 403 with `Retry-After`), which are never the request's fault.
        answer: The answer of the failed try.
        reason: The reason, for messages.
        wait_seconds: The wait that the service asked for; None if it named none.
        code: The code of the reason (`core.errors.Reason`), if it is known better than that the request failed.
    """

    code = ""

    def __init__(self, kind: FailureKind, answer: Answer, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.answer = answer
        self.reason = reason
        self.wait_seconds = wait_seconds


class Policy:
    """Decides for one request whether to try again, and when.

    Waits use full jitter (up to 1, 2, 4 ... seconds), or last as long as the service asked for if that is longer. A 429
    does not count as a try. Once the service has been reached, a lost connection does not either: the circuit breaker
    limits an outage.

    Args:
        tries: How often to try before the request counts as failed.
        wait_max_seconds: Longest jittered wait between two tries.
        timing: Where time and chance come from.
        sleep: Waits for a number of seconds; raises when the run is interrupted.
        has_connected: Whether the service has ever been reached.
        tell: Called with the reason for the wait before each retry.
    """

    def __init__(
        self,
        tries: int,
        wait_max_seconds: float,
        timing: Timing,
        *,
        sleep: Callable[[float], None],
        has_connected: Callable[[], bool],
        tell: Callable[[str], object] = lambda trouble: None,
    ) -> None:
        self._tries, self._wait_max, self._timing = tries, wait_max_seconds, timing
        self._sleep, self._has_connected, self._tell = sleep, has_connected, tell
        self._counts: Counter[FailureKind] = Counter()
        self._began = timing.clock()

    def carry_out(self, work: Callable[[], T]) -> T:
        """Call a function until it returns or the policy gives up.

        Tenacity is used only if the first try fails. Most requests succeed at once, and tenacity would cost each of
        them 0.15 ms and leave a cycle of objects to the garbage collector.

        Args:
            work: One try.

        Raises:
            TryAgainError: The last one, when the policy gives up. Any other exception passes through.
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

    def _used(self) -> int:
        return self._counts.total() - self._counts["throttled"]

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        error = _error(state)
        self._counts[error.kind] += 1
        if error.kind == "throttled":
            return self._timing.clock() - self._began + state.upcoming_sleep > THROTTLED_MAX_SECONDS
        if error.kind == "unreachable" and self._has_connected():
            return False
        return self._used() >= self._tries or self._counts["unusable"] >= UNUSABLE_TRIES

    def _seconds_to_wait(self, state: tenacity.RetryCallState) -> float:
        ceiling = min(_FIRST_WAIT_SECONDS * 2.0 ** min(state.attempt_number - 1, 30), _LONGEST_WAIT_SECONDS)
        jitter = min(self._timing.random() * ceiling, self._wait_max)
        return max(jitter, _error(state).wait_seconds or 0.0)

    def _tell_why(self, state: tenacity.RetryCallState) -> None:
        error = _error(state)
        is_counted = error.kind in ("failed", "unusable") or (error.kind == "unreachable" and not self._has_connected())
        which = f"try {self._used() + 1} of {self._tries}" if is_counted else f"again in {state.upcoming_sleep:.0f} s"
        self._tell(f"{error.reason}, {which}")


def give_up(error: TryAgainError, host: str, *, has_connected: bool, has_answered: bool) -> FirmlakeError:
    """Return the error for a request that is not tried again.

    Args:
        error: The failure of the last try.
        host: The service, for messages.
        has_connected: Whether the service has ever been reached.
        has_answered: Whether the service has ever answered a request.
    """
    answer, reason = error.answer, error.reason
    if error.kind == "unreachable" and not has_connected:
        return ServiceError(f"{host} is {reason}", "Check api.base_url and the network")
    if error.kind == "throttled":
        paused = EndpointPausedError if answer.status == 403 else PausedByServiceError
        subject = answer.request.path if answer.status == 403 else "The service"
        return paused(
            f"{subject} has answered nothing but {answer.status} for {THROTTLED_MAX_SECONDS / 60:.0f} minutes",
            "Run again later, with a lower api.requests_per_minute if nobody else uses the token",
        )
    if answer.failure == "timeout" and not has_answered:
        tries = "1 try" if answer.attempt == 1 else f"{answer.attempt} tries"
        return UnavailableError(
            f"{answer.request.path} was not answered in {tries}: {reason}",
            "Check api.base_url and whether the service works; api.read_timeout_seconds sets how long to wait",
        )
    times = "once" if answer.attempt == 1 else f"{answer.attempt} times"
    next_step = (_UNREAD if answer.error else _DIFFERS) if error.kind == "unusable" else ""
    failed = RequestFailedError(f"{answer.request.path} failed {times}: {reason}", next_step)
    failed.code = error.code or failed.code
    failed.answer, failed.attempts, failed.is_outage = answer, answer.attempt, error.kind == "unreachable"
    return failed


def _error(state: tenacity.RetryCallState) -> TryAgainError:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, TryAgainError)
    return error


Sleep = Callable[[float], None]


class CircuitBreaker:
    """Slows down and finally stops requests to an endpoint that fails on every request.

    While the breaker is closed, all requests go out. After `failures_max` failures in a row, from any thread, it opens:
    all threads wait, and after each pause one request goes out. Any answer other than a failure closes the breaker.

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
        self._next_at = 0.0
        self.last_failure = ""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open: the endpoint currently fails on every request."""
        return self._opened_at is not None

    def enter(self, sleep: Sleep) -> None:
        """Wait, by a function that takes seconds, until a request may go out.

        Raises:
            UnavailableError: The endpoint has failed for `patience_seconds`. Run again later.
        """
        while seconds := self._seconds_to_wait():
            sleep(seconds)

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
                self._pause_from(self._opened_at)

    def _seconds_to_wait(self) -> float:
        """Return the seconds after which to ask again; 0 for the right to send a request."""
        with self._lock:
            if self._opened_at is None:
                return 0.0
            now = self._clock()
            if now - self._opened_at >= self._patience:
                minutes = f"{self._patience / 60:g} minutes"
                raise UnavailableError(
                    f"{self.subject} has failed on every request for {minutes}: {self.last_failure}",
                    "Landed answers are kept; run again when the service works",
                )
            if now < self._next_at:
                return self._next_at - now
            self._pause_from(now)
            return 0.0

    def _pause_from(self, now: float) -> None:
        self._next_at = now + self._pause * (0.5 + self._random() / 2)
        self._pause = min(2 * self._pause, self._pause_max)
