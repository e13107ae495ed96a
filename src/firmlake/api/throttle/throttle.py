"""Keep a key's allowance across all threads, processes and machines that use the key, and across restarts.

The state of an allowance is one value, `window.Window`. A store keeps this value, lends it to one process at a time and
provides the clock: a file for the processes of one machine, PostgreSQL for several machines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.throttle.stores import FileStore, PostgresStore, Slot, open_store
from firmlake.api.throttle.window import (
    SECOND,
    WINDOW_SECONDS,
    Window,
    answered,
    learn,
    read_allowance,
    read_wait,
    refused,
    take,
    why_waiting,
)
from firmlake.core.errors import Stopped, ThrottleStoreError
from firmlake.core.settings import ApiSettings
from firmlake.core.work import utc_now

Store = FileStore | PostgresStore
_LOG = logging.getLogger(__name__)
STORE_WAITS_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Waits before retries: a restarting store is back within half a minute, and a single lost connection costs no wait."""
_TOLD_FROM_SECONDS = 1.0
"""Shorter waits are not reported."""

Sleep = Callable[[float], None]
Tell = Callable[[str], object]


def open_throttle(api: ApiSettings, key: str, folder: Path | None = None, requests_max: int = -1) -> Throttle:
    """Open the throttle for one key, `Token.key_hash(api.base_url)`; see `open_store` and `Throttle` for the others."""
    store = open_store(api.throttle_store, key, folder) if api.requests_per_minute else None
    return Throttle(store, api.requests_per_minute, api.retry_wait_max_seconds, requests_max)


class Throttle:
    """Decides when a request may be sent.

    Args:
        store: Keeps the state of the key; None lets every request go at once.
        limit: Requests in any 60 s.
        pause_max_seconds: Longest pause after a 429. If the service asks for a longer one, the client ends the run.
        requests_max: Requests that may be sent through this throttle (`run.max_requests`); -1 sets no limit.
        utc_now: Returns the current time in UTC, to report when a wait ends.
    """

    def __init__(
        self,
        store: Store | None = None,
        limit: int = 0,
        pause_max_seconds: float = 120.0,
        requests_max: int = -1,
        utc_now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store, self._limit, self._pause_max_seconds = store, limit, pause_max_seconds
        self._left = self._requests_max = requests_max
        self._lock = threading.Lock()
        self._utc_now = utc_now

    def acquire(self, sleep: Sleep, tell: Tell = lambda why: None) -> int:
        """Wait until one more request may be sent, and return the grant to be passed to `observe`.

        Args:
            sleep: Waits for a number of seconds; raises to end the wait.
            tell: Called with the reason and the end of each wait of a second or more.

        Raises:
            Stopped: `requests_max` are used up.
            ThrottleStoreError: The store was unreachable for half a minute. Run again later.
        """
        with self._lock:
            if self._left == 0:
                raise Stopped(f"run.max_requests = {self._requests_max} is used up", "Run again to continue")
            self._left -= 1
        if self._store is None:
            return 0
        retries = iter(STORE_WAITS_SECONDS)
        while True:
            try:
                with _borrowed(self._store, self._limit) as (window, now):
                    grant, seconds = take(window, self._limit, now)
                    why = "" if grant is not None else why_waiting(window, self._limit, now)
            except ThrottleStoreError as error:
                if (pause := next(retries, None)) is None:
                    raise
                _LOG.warning("%s", error.message)
                sleep(pause)
                continue
            if grant is not None:
                return grant
            if seconds >= _TOLD_FROM_SECONDS:
                tell(f"{why}; the next request is sent at {self._utc_now() + timedelta(seconds=seconds):%H:%M:%S} UTC")
            sleep(seconds)
            retries = iter(STORE_WAITS_SECONDS)

    def observe(self, grant: int, answer: Answer, *, is_pause: bool = False) -> None:
        """Update the allowance after a granted request, which may have brought rate limit headers.

        With `is_pause`, the service asked for a pause, such as by a 429.
        If the store is unreachable, the update is skipped with a warning, and the next `acquire` reports the failure.
        """
        if self._store is None:
            return  # the client itself waits after a 429
        wait_seconds = read_wait(answer.headers, answer.fetched_at)
        if wait_seconds is not None:
            wait_seconds = min(wait_seconds, self._pause_max_seconds)
        try:
            with _borrowed(self._store, self._limit) as (window, now):
                answered(window, grant, now)
                if is_pause:
                    refused(window, self._limit, grant, now, wait_seconds)
                learn(window, self._limit, now, read_allowance(answer.headers, answer.fetched_at))
        except ThrottleStoreError as error:
            _LOG.warning("%s", error.message)

    def forecast(self, count: int) -> Forecast | None:
        """Forecast the waits of requests that would be sent from now on; None without a store."""
        if self._store is None:
            return None
        with _borrowed(self._store, self._limit) as (window, now):
            return forecast(window, self._limit, count, now)

    def close(self) -> None:
        """Close the store."""
        if self._store:
            self._store.close()


class Forecast(NamedTuple):
    """How the allowance will slow down a run that starts now."""

    minutes: float  # until the last request is sent, if answers take no time
    wait_seconds: float  # until the first request is sent; 0 for less than a second
    why: str  # why the first request waits, in the words of a run; empty if it does not wait
    pace: str  # why requests go slower than the settings allow; empty if they do not


def forecast(window: Window, limit: int, count: int, now: int) -> Forecast:
    """Forecast the waits of a number of requests, and leave the window as it is; `now` is on the clock of the state."""
    ahead = msgspec.msgpack.decode(msgspec.msgpack.encode(window), type=Window)
    _, wait = take(ahead, limit, now)
    why = why_waiting(ahead, limit, now) if wait >= _TOLD_FROM_SECONDS else ""
    per_minute = min(limit, ahead.learned_limit or limit)
    sent = sum(now - at < WINDOW_SECONDS * SECOND for at in window.arrivals)
    at_once = 1 if ahead.spacing else max(1, per_minute - sent)
    each = max(WINDOW_SECONDS / per_minute, ahead.spacing / SECOND)
    minutes = (wait + max(0, count - at_once) * each) / 60
    return Forecast(minutes, wait if why else 0.0, why, _pace(ahead, limit))


def _pace(window: Window, limit: int) -> str:
    if window.spacing:
        return f"one request every {window.spacing / SECOND:.1f} s, because the service refused faster ones"
    if 0 < window.learned_limit < limit:
        return f"{window.learned_limit} requests a minute, because the service allows no more"
    return ""


@contextmanager
def _borrowed(store: Store, limit: int) -> Iterator[tuple[Window, int]]:
    """Lend the state of a key, and the time on its clock, to one caller at a time; changes are stored."""
    with store.hold() as slot:
        window = _read(slot, limit, store.name)
        window.clock += max(0, slot.now - window.seen_at)
        window.seen_at = slot.now
        yield window, window.clock
        slot.content = msgspec.msgpack.encode(window)


def _read(slot: Slot, limit: int, name: str) -> Window:
    """Read a state; a damaged one counts as if the allowance had just been used up."""
    if not slot.content:
        return Window()
    try:
        return msgspec.msgpack.decode(slot.content, type=Window)
    except msgspec.MsgspecError:
        _LOG.warning("%s is damaged; waiting as if the allowance had just been used up", name)
        return Window(arrivals=[slot.now] * limit, clock=slot.now, seen_at=slot.now)
