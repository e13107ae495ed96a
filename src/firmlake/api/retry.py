"""The retry policy: whether to repeat a failed try, how long to wait first, and when to give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import tenacity

from firmlake.api.breaker import RetryBudget
from firmlake.api.exchange import Answer

__all__ = ["UNUSABLE_TRIES", "TryAgainError", "retrying"]

Kind = Literal["failed", "unusable", "unreachable", "throttled"]

UNUSABLE_TRIES = 3
"""Tries that may end in an unusable 200 answer: a repeat rarely helps, so the third one is final."""
THROTTLED_MAX_SECONDS = 900.0
"""Longest time that one request is repeated after 429s."""
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0


class TryAgainError(Exception):
    """A try failed, and a retry may succeed.

    Attributes:
        kind: `failed` (5xx, truncated, timeout) or `unusable` (a 200 answer of no use); `unreachable` (no connection)
            or `throttled` (429), which are never the request's fault.
        answer: The answer of the failed try.
        reason: The reason, for people.
        wait_seconds: The wait that the service asked for; None if it named none.
    """

    def __init__(self, kind: Kind, answer: Answer, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.answer = answer
        self.reason = reason
        self.wait_seconds = wait_seconds
        self.is_out_of_budget = False


def retrying(
    tries: int,
    wait_max_seconds: float,
    budget: RetryBudget,
    *,
    has_connected: Callable[[], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    random: Callable[[], float],
    tell: Callable[[str], object] = lambda trouble: None,
) -> tenacity.Retrying:
    """Make the policy for one request.

    Waits use full jitter (up to 1, 2, 4 ... seconds), or last as long as the service asked for if that is longer. A 429
    does not count as a try. Neither does a lost connection once the service has been reached: the circuit breaker
    bounds an outage.

    Args:
        tries: Tries that may fail.
        wait_max_seconds: Longest jittered wait between two tries.
        budget: Retries left for all requests of the client.
        has_connected: Whether the service has ever been reached.
        clock: Monotonic seconds.
        sleep: Waits for a number of seconds; raises when the run is interrupted.
        random: Returns a number from 0 to 1.
        tell: Called with the reason for the wait before each retry.

    Returns:
        A policy that raises the last TryAgainError when it gives up and passes any other exception through.
    """
    counts: dict[Kind, int] = {"failed": 0, "unusable": 0, "unreachable": 0, "throttled": 0}
    began = clock()

    def stop(state: tenacity.RetryCallState) -> bool:
        error = _error(state)
        counts[error.kind] += 1
        if error.kind == "throttled":
            return clock() - began + state.upcoming_sleep > THROTTLED_MAX_SECONDS
        if error.kind == "unreachable" and has_connected():
            return False
        used = counts["failed"] + counts["unusable"] + counts["unreachable"]
        if used >= tries or counts["unusable"] >= UNUSABLE_TRIES:
            return True
        error.is_out_of_budget = not budget.spend()
        return error.is_out_of_budget

    def wait(state: tenacity.RetryCallState) -> float:
        ceiling = min(_FIRST_WAIT_SECONDS * 2.0 ** min(state.attempt_number - 1, 30), _LONGEST_WAIT_SECONDS)
        jitter = min(random() * ceiling, wait_max_seconds)
        return max(jitter, _error(state).wait_seconds or 0.0)

    def say(state: tenacity.RetryCallState) -> None:
        error = _error(state)
        used = counts["failed"] + counts["unusable"] + counts["unreachable"]
        is_counted = error.kind in ("failed", "unusable") or (error.kind == "unreachable" and not has_connected())
        which = f"try {used + 1} of {tries}" if is_counted else f"again in {state.upcoming_sleep:.0f} s"
        tell(f"{error.reason}, {which}")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TryAgainError),
        stop=stop,
        wait=wait,
        sleep=sleep,
        before_sleep=say,
        reraise=True,
    )


def _error(state: tenacity.RetryCallState) -> TryAgainError:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, TryAgainError)
    return error
