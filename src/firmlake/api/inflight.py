"""How many requests are in flight at once: more while the service keeps its pace, fewer when it slows down.

Doubled until answers get slow, from then on one more or a quarter less at a time, as TCP does it. The first request
goes alone, so that a wrong address or token costs one request and not one for each thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["InFlight"]

SLOW_FACTOR = 2.0
"""Answers that take so many times as long as unloaded ones wait for each other in the service."""
_BACK = 0.75
_SAMPLE = 8
"""Answers of a step at least: single late ones are ordinary and change nothing."""
_POLL_SECONDS = 0.01


class InFlight:
    """A bound on concurrent requests that follows the service's latency; shared by all threads of a client.

    Args:
        most: Upper bound, the number of threads.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = 1.0
        self._is_starting = True
        self._running = 0
        self._step: list[tuple[str, float]] = []
        self._unloaded: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Requests allowed in flight now."""
        return int(self._limit)

    def enter(self, sleep: Callable[[float], None]) -> None:
        """Wait for a place."""
        while not self._take():
            sleep(_POLL_SECONDS)

    def leave(self, endpoint: str, seconds: float | None) -> None:
        """Give the place back.

        Args:
            endpoint: Each has its own usual time.
            seconds: How long the answer or the timeout took; None for what says nothing of the pace, as a refusal.
        """
        with self._lock:
            self._running -= 1
            if seconds is None:
                return
            self._step.append((endpoint, seconds))
            if not self._unloaded or len(self._step) >= max(_SAMPLE, 2 * self._limit):
                # The first answers of a step were asked for under the bound before it.
                is_slow = self._is_slow(self._step[-_SAMPLE:])
                self._is_starting &= not is_slow
                more = self._limit * 2 if self._is_starting else self._limit + 1
                self._limit = max(1.0, self._limit * _BACK) if is_slow else min(self._most, more)
                self._step = []

    def _is_slow(self, answers: list[tuple[str, float]]) -> bool:
        took, expected = 0.0, 0.0
        for endpoint in {endpoint for endpoint, _ in answers}:
            times = [seconds for each, seconds in answers if each == endpoint]
            mean = sum(times) / len(times)
            unloaded = mean if self._limit < 2 else self._unloaded.get(endpoint, mean)
            # A request alone shows what the service needs now. Otherwise only shorter times are a better measure, and
            # they count for a quarter, since the luckiest of many samples is not the usual.
            self._unloaded[endpoint] = unloaded = min(unloaded, unloaded + (mean - unloaded) / 4)
            took, expected = took + sum(times), expected + unloaded * len(times)
        return took > SLOW_FACTOR * expected

    def _take(self) -> bool:
        with self._lock:
            if self._running >= int(self._limit):
                return False
            self._running += 1
            return True
