"""Keep a key's allowance across all processes that use the key, and across restarts.

The state of an allowance is one value, `window.Window`. A store keeps this value, lends it to one process at a time and
provides the clock: a file for the processes of one machine, PostgreSQL for several machines.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.throttle.hints import read_allowance, read_wait
from firmlake.api.throttle.window import SECOND, WINDOW_SECONDS, Window, answered, learn, refused, take, why_waiting
from firmlake.core.clock import utc_now
from firmlake.core.errors import ThrottleStoreError

__all__ = ["NoThrottle", "SharedThrottle", "Sleep", "Slot", "Store", "Tell", "Throttle", "read_window"]

_LOG = logging.getLogger(__name__)
_HEAD = struct.Struct("<4sII")
"""Header of a stored state: magic, length and CRC-32."""
_MAGIC = b"FLT1"
_STORE_WAITS_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Waits before retries: a restarting store is back within half a minute, and a single lost connection costs no wait."""

Sleep = Callable[[float], None]
Tell = Callable[[str], object]
_TOLD_FROM_SECONDS = 1.0
"""Shorter waits are not reported."""


def _tell_nobody(why: str) -> None:
    """Ignore the reason."""


class Throttle(Protocol):
    """Decides when a request may be sent."""

    def acquire(self, sleep: Sleep, tell: Tell = _tell_nobody) -> int:
        """Wait until one more request may be sent.

        Args:
            sleep: Waits for a number of seconds; raises to end the wait.
            tell: Called with the reason and the end of each wait of a second or more.

        Returns:
            The grant, to be passed to `observe`.
        """

    def observe(self, grant: int, answer: Answer) -> None:
        """Update the allowance after a granted request, which may have brought a 429 or rate limit headers."""

    def close(self) -> None:
        """Let go of what is open."""


class NoThrottle:
    """For a service without a rate limit (`api.requests_per_minute = 0`)."""

    def acquire(self, sleep: Sleep, tell: Tell = _tell_nobody) -> int:  # noqa: ARG002 - the protocol's signature
        """Grant the request at once."""
        return 0

    def observe(self, grant: int, answer: Answer) -> None:
        """Do nothing: the client itself waits after a 429."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Slot:
    """What a store lends: the state, to be changed in place, and the time.

    Attributes:
        content: The state as last stored; empty if there is none yet.
        now: Nanoseconds on the store's clock, read after the state was locked.
    """

    content: bytes
    now: int


class Store(Protocol):
    """Keeps the state of one key for all processes that use it."""

    name: str
    """Name of the store, for messages; holds no secret."""

    def hold(self) -> AbstractContextManager[Slot]:
        """Lend the state to one caller at a time; changes are stored unless the block raises.

        Raises:
            ThrottleStoreError: The store cannot be reached; nothing was granted.
        """

    def peek(self) -> Slot:
        """Return the state without locking, making or changing anything.

        Raises:
            ThrottleStoreError: The store cannot be reached.
        """

    def close(self) -> None:
        """Let go of what is open."""


class SharedThrottle:
    """An allowance whose state is kept in a store.

    Args:
        store: The store. A damaged state is replaced by one in which the allowance has just been used up.
        limit: Requests in any 60 s.
        pause_max_seconds: Longest pause after a 429. If the service asks for a longer one, the client ends the run.
        utc_now: Returns the current time in UTC, to report when a wait ends.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        pause_max_seconds: float = 120.0,
        utc_now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._pause_max_seconds = pause_max_seconds
        self._limit = limit
        self._said_limit = limit
        self._utc_now = utc_now
        self._granted: list[int] = []

    def acquire(self, sleep: Sleep, tell: Tell = _tell_nobody) -> int:
        """Wait until one more request may be sent; see `Throttle`.

        Raises:
            ThrottleStoreError: The store was unreachable for half a minute. Run again later.
        """
        while True:
            grant, seconds, why = self._take(sleep)
            if grant is not None:
                return grant
            if seconds >= _TOLD_FROM_SECONDS:
                tell(f"{why}; the next request is sent at {self._utc_now() + timedelta(seconds=seconds):%H:%M:%S} UTC")
            sleep(seconds)

    def observe(self, grant: int, answer: Answer) -> None:
        """Update the allowance after a granted request; see `Throttle`.

        If the store is unreachable, the update is skipped with a warning, and the next `acquire` reports the failure.
        """
        allowance = read_allowance(answer.headers, answer.fetched_at)
        wait_seconds = read_wait(answer.headers, answer.fetched_at)
        if wait_seconds is not None:
            wait_seconds = min(wait_seconds, self._pause_max_seconds)
        try:
            with self._window() as (window, now):
                answered(window, grant, now)
                if answer.is_throttled:
                    refused(window, self._limit, grant, now, wait_seconds)
                learn(window, self._limit, now, allowance)
        except ThrottleStoreError as error:
            _LOG.warning("%s", error.message)
        limit = allowance.requests_per_minute
        if limit is not None and limit < self._limit and limit != self._said_limit:
            self._said_limit = limit
            _LOG.warning("The service allows %d requests a minute; api.requests_per_minute is %d", limit, self._limit)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _take(self, sleep: Sleep) -> tuple[int | None, float, str]:
        for seconds in _STORE_WAITS_SECONDS:
            try:
                return self._take_once()
            except ThrottleStoreError as error:
                _LOG.warning("%s", error.message)
                sleep(seconds)
        return self._take_once()

    def _take_once(self) -> tuple[int | None, float, str]:
        with self._window() as (window, now):
            grant, seconds = take(window, self._limit, now)
            granted = [*self._granted, grant] if grant else self._granted
            self._granted = [at for at in granted if at > now - int(WINDOW_SECONDS * SECOND)]
            return grant, seconds, "" if grant else why_waiting(window, self._limit, now, len(self._granted))

    @contextmanager
    def _window(self) -> Iterator[tuple[Window, int]]:
        with self._store.hold() as slot:
            window = read_window(slot, self._limit, self._store.name)
            if not slot.content:  # a cleaner of temporary files may have removed it
                window.arrivals = list(self._granted)
            yield window, slot.now
            content = msgspec.msgpack.encode(window)
            slot.content = _HEAD.pack(_MAGIC, len(content), zlib.crc32(content)) + content


def read_window(slot: Slot, limit: int, name: str) -> Window:
    """Read the stored state of an allowance.

    Args:
        slot: What the store lends.
        limit: Requests a minute, which a damaged state counts as just sent.
        name: Name of the store, for the warning about a damaged state.
    """
    if not slot.content:
        return Window()
    try:
        magic, length, checksum = _HEAD.unpack_from(slot.content)
        content = slot.content[_HEAD.size : _HEAD.size + length]
        if magic == _MAGIC and zlib.crc32(content) == checksum:
            return msgspec.msgpack.decode(content, type=Window)
    except (struct.error, msgspec.MsgspecError):
        pass
    _LOG.warning("%s is damaged; waiting as if the allowance had just been used up", name)
    return Window(arrivals=[slot.now] * limit)
