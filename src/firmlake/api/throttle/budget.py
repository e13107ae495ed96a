"""Limit the requests of a run, including retries."""

from __future__ import annotations

import threading

from firmlake.api.exchange import Answer
from firmlake.api.throttle.throttle import Sleep, Tell, Throttle
from firmlake.core.errors import Stopped

__all__ = ["RequestBudget"]


class RequestBudget:
    """A throttle that stops the run after a number of requests.

    Args:
        throttle: Decides when each request may be sent.
        most: Requests allowed.
    """

    def __init__(self, throttle: Throttle, most: int) -> None:
        self._throttle = throttle
        self._left = self._most = most
        self._lock = threading.Lock()

    def acquire(self, sleep: Sleep, tell: Tell = lambda why: None) -> int:
        """Wait until a request may be sent; see `Throttle`.

        Raises:
            Stopped: The budget is used up.
        """
        with self._lock:
            if self._left == 0:
                raise Stopped(f"run.max_requests = {self._most} is used up", "Run again to continue")
            self._left -= 1
        return self._throttle.acquire(sleep, tell)

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn from an answer; see `Throttle`."""
        self._throttle.observe(grant, answer)

    def close(self) -> None:
        """Close the throttle."""
        self._throttle.close()
