"""Simulated time for real threads, and models of how services count requests. Nothing here ever sleeps."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class VirtualTime:
    """A clock that stands still while any thread works and jumps to the next waker when all sleep.

    Exactly one thread runs at a time, in an order that depends on nothing but the times, so that every run is the same.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, int, threading.Event]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()

    def clock(self) -> float:
        return self.now

    def clock_ns(self) -> int:
        return int(self.now * 1e9)

    def utc(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def sleep(self, seconds: float) -> None:
        woken = threading.Event()
        with self._lock:
            heapq.heappush(self._sleepers, (self.now + max(0.0, seconds), next(self._order), woken))
            self._wake_next()
        woken.wait()

    def run(self, *jobs: Callable[[], object]) -> list[object]:
        """Run each in a thread of its own until all have ended; give what they returned or raised."""
        results: list[object] = [None] * len(jobs)

        def work(at: int, job: Callable[[], object], begin: threading.Event) -> None:
            begin.wait()
            try:
                results[at] = job()
            except BaseException as error:
                results[at] = error
            with self._lock:
                self._wake_next()

        threads = []
        for at, job in enumerate(jobs):
            begin = threading.Event()
            heapq.heappush(self._sleepers, (self.now, next(self._order), begin))
            threads.append(threading.Thread(target=work, args=(at, job, begin), daemon=True))
            threads[-1].start()
        with self._lock:
            self._wake_next()
        for thread in threads:
            thread.join()
        return results

    def _wake_next(self) -> None:
        if self._sleepers:
            self.now, _, woken = heapq.heappop(self._sleepers)
            woken.set()


class SlidingWindow:
    """Keeps a log of the accepted requests of the last 60 s."""

    def __init__(self, limit: int = 200) -> None:
        self.limit = limit
        self.log: deque[float] = deque()

    def allows(self, now: float) -> bool:
        while self.log and self.log[0] <= now - 60:
            self.log.popleft()
        if len(self.log) >= self.limit:
            return False
        self.log.append(now)
        return True

    def reset_seconds(self, now: float) -> float:
        return self.log[0] + 60 - now


class SlidingCounter:
    """Guesses the last 60 s from the counts of two minutes, as gateways do; a burst fools it."""

    def __init__(self, limit: int = 200) -> None:
        self.limit, self.minute, self.used, self.before = limit, -1, 0, 0

    def allows(self, now: float) -> bool:
        minute = int(now // 60)
        if minute != self.minute:
            self.before = self.used if minute == self.minute + 1 else 0
            self.minute, self.used = minute, 0
        if self.before * (1 - now % 60 / 60) + self.used >= self.limit:
            return False
        self.used += 1
        return True

    def reset_seconds(self, now: float) -> float:
        return 1.0


class TokenBucket:
    """Refills evenly; `capacity` is the largest burst."""

    def __init__(self, limit: int = 200, capacity: int = 200) -> None:
        self.rate, self.capacity, self.level, self.at = limit / 60, capacity, float(capacity), 0.0

    def allows(self, now: float) -> bool:
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True

    def reset_seconds(self, now: float) -> float:
        return (1 - self.level) / self.rate
