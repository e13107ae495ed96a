"""The rate limit of one token, in the three kinds that services use."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request may pass, how many more might at once, and in how many seconds there is room again."""

    is_allowed: bool
    remaining: int
    reset: float


class RateLimit(Protocol):
    """Counts the requests of one token; refused ones are not counted."""

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        ...


class FixedWindow:
    """So many requests in each minute of the clock."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._minute, self._used = limit, -1, 0

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        minute = int(now // _MINUTE)
        if minute != self._minute:
            self._minute, self._used = minute, 0
        is_allowed = self._used < self._limit
        self._used += is_allowed
        return Verdict(is_allowed, self._limit - self._used, (minute + 1) * _MINUTE - now)


class SlidingWindow:
    """So many requests in any sixty seconds."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._times = limit, deque[float]()

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        times = self._times
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        is_allowed = len(times) < self._limit
        if is_allowed:
            times.append(now)
        return Verdict(is_allowed, self._limit - len(times), times[0] + _MINUTE - now)


class TokenBucket:
    """A bucket of `limit` that refills evenly within a minute: a burst, then a steady flow."""

    def __init__(self, limit: int) -> None:
        """Allow `limit` requests a minute."""
        self._limit, self._level, self._filled_at = limit, float(limit), 0.0

    def admit(self, now: float) -> Verdict:
        """Count a request at this time, or refuse it."""
        rate = self._limit / _MINUTE
        self._level = min(self._limit, self._level + (now - self._filled_at) * rate)
        self._filled_at = now
        is_allowed = self._level >= 1
        self._level -= is_allowed
        return Verdict(is_allowed, int(self._level), max(0.0, (1 - self._level) / rate))


RATE_LIMITS: dict[str, type[FixedWindow | SlidingWindow | TokenBucket]] = {
    "fixed-window": FixedWindow,
    "sliding-window": SlidingWindow,
    "token-bucket": TokenBucket,
}
