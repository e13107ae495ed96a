"""The retry policy: whether and when to repeat a failed try, and with which error to give up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from firmlake.api.breaker import RetryBudget
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

FailureKind = Literal["failed", "unusable", "unreachable", "throttled"]

UNUSABLE_TRIES = 3
"""Give up after this many unusable answers, because a further try rarely helps."""
THROTTLED_MAX_SECONDS = 900.0
"""Longest time that one request is repeated after 429s."""
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
        code: The code of the reason (`core.reasons`), if it is known better than that the request failed.
    """

    code = ""

    def __init__(self, kind: FailureKind, answer: Answer, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.answer = answer
        self.reason = reason
        self.wait_seconds = wait_seconds
        self.is_out_of_budget = False


class Retries:
    """The failed tries of one request: whether to try again, when, and what to say about it.

    Waits use full jitter (up to 1, 2, 4 ... seconds), or last as long as the service asked for if that is longer. A 429
    does not count as a try. Once the service has been reached, a lost connection does not either: the circuit breaker
    limits an outage.

    Args:
        tries: How often to try before the request counts as failed.
        wait_max_seconds: Longest jittered wait between two tries.
        budget: Retries left for all requests of the client.
        timing: Where time and chance come from.
        outlasts: Whether a lost connection is waited out.
    """

    def __init__(
        self, tries: int, wait_max_seconds: float, budget: RetryBudget, timing: Timing, outlasts: Callable[[], bool]
    ) -> None:
        self._tries, self._wait_max, self._budget, self._timing = tries, wait_max_seconds, budget, timing
        self._outlasts = outlasts
        self._counts: Counter[FailureKind] = Counter()
        self._began = timing.clock()

    def after(self, error: TryAgainError) -> tuple[float, str]:
        """Return how many seconds to wait after a failed try, and why.

        Raises:
            TryAgainError: The error itself, if the request is not tried again.
        """
        self._counts[error.kind] += 1
        ceiling = min(2.0 ** min(self._counts.total() - 1, 30), _LONGEST_WAIT_SECONDS)
        seconds = max(min(self._timing.random() * ceiling, self._wait_max), error.wait_seconds or 0.0)
        used = self._counts.total() - self._counts["throttled"]
        if error.kind == "throttled":
            if self._timing.clock() - self._began + seconds > THROTTLED_MAX_SECONDS:
                raise error
        elif error.kind != "unreachable" or not self._outlasts():
            if used >= self._tries or self._counts["unusable"] >= UNUSABLE_TRIES:
                raise error
            if not self._budget.spend():
                error.is_out_of_budget = True
                raise error
            return seconds, f"{error.reason}, try {used + 1} of {self._tries}"
        return seconds, f"{error.reason}, again in {seconds:.0f} s"


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
    budget = "; the retry budget is used up" if error.is_out_of_budget else ""
    times = "once" if answer.attempt == 1 else f"{answer.attempt} times"
    next_step = (_UNREAD if answer.error else _DIFFERS) if error.kind == "unusable" else ""
    failed = RequestFailedError(f"{answer.request.path} failed {times}: {reason}{budget}", next_step)
    failed.code = error.code or failed.code
    failed.answer, failed.attempts, failed.is_outage = answer, answer.attempt, error.kind == "unreachable"
    return failed
