"""The allowance of a key, shared by everybody who uses it and held across restarts.

What is known of it is one value, `window.Window`. A store keeps that value, lends it to one process at a time and tells
the time: a file for the processes of one machine, PostgreSQL for several machines.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.throttle.hints import read_allowance, read_wait
from firmlake.api.throttle.window import Window, answered, learn, refused, take, why_waiting
from firmlake.core.errors import ThrottleStoreError

__all__ = ["Held", "NoThrottle", "SharedThrottle", "Sleep", "Store", "Tell", "Throttle"]

_LOG = logging.getLogger(__name__)
_HEAD = struct.Struct("<4sII")
"""Magic, length and CRC-32 of the state that follows."""
_MAGIC = b"FLT1"
_MINUTE = 60_000_000_000
"""Nanoseconds."""
_STORE_WAITS_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""A store that is being restarted is back within half a minute; one connection may be lost without any wait."""

Sleep = Callable[[float], None]
Tell = Callable[[str], object]
_TOLD_FROM_SECONDS = 1.0
"""A shorter wait is not worth a word."""


def _tell_nobody(why: str) -> None:
    """Do without the reasons."""


class Throttle(Protocol):
    """Decides when a request may be sent."""

    def acquire(self, sleep: Sleep, tell: Tell = _tell_nobody) -> int:
        """Wait until one more request may be sent.

        Args:
            sleep: Waits so many seconds; raises to end the waiting.
            tell: Gets what is waited for, and until when, where that takes a second or more.

        Returns:
            The grant, for `observe`.
        """

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn from what came of a granted request: that it is over, a 429, rate limit headers."""

    def close(self) -> None:
        """Let go of what is open."""


class NoThrottle:
    """For a service without a rate limit (`api.requests_per_minute = 0`)."""

    def acquire(self, sleep: Sleep, tell: Tell = _tell_nobody) -> int:  # noqa: ARG002 - the protocol's signature
        """Let it go."""
        return 0

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn nothing: the client itself waits after a 429."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class Held:
    """What a store lends: the state, to be changed in place, and the time.

    Attributes:
        content: As it was left; empty where there is none yet.
        now: Nanoseconds on the store's clock, read when the state was already held.
    """

    content: bytes
    now: int


class Store(Protocol):
    """Keeps the state of one key for all who share it."""

    name: str
    """For messages; holds no secret."""

    def hold(self) -> AbstractContextManager[Held]:
        """Hold the state alone; what it was changed to is kept when the block ends well, and else what it was.

        Raises:
            ThrottleStoreError: The store is away; nothing was granted.
        """

    def close(self) -> None:
        """Let go of what is open."""


class SharedThrottle:
    """One allowance in a store.

    Args:
        store: A damaged state is begun anew as if the allowance had just been used up.
        limit: Requests in any 60 s.
        pause_max_seconds: Longest pause after a 429. The client ends the run where the service asks for a longer one;
            the next run may try again.
        utc_now: Time of day, to say until when is waited.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        pause_max_seconds: float = 120.0,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
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
            ThrottleStoreError: The store was away for half a minute: run again later.
        """
        while True:
            grant, seconds, why = self._take(sleep)
            if grant is not None:
                self._granted = [at for at in self._granted if at > grant - _MINUTE] + [grant]
                return grant
            if seconds >= _TOLD_FROM_SECONDS:
                tell(f"{why}, until {self._utc_now() + timedelta(seconds=seconds):%H:%M:%S} UTC")
            sleep(seconds)

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn from what came of a granted request; see `Throttle`.

        Where the store is away nothing is learnt: the answer counts, and the next `acquire` finds out.
        """
        allowance = read_allowance(answer.headers, answer.fetched_at)
        wait_seconds = read_wait(answer.headers, answer.fetched_at)
        if wait_seconds is not None:
            wait_seconds = min(wait_seconds, self._pause_max_seconds)
        try:
            with self._window() as (window, now):
                answered(window, grant, now)
                if answer.status == 429:
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
            own = sum(at > now - _MINUTE for at in self._granted)
            return grant, seconds, "" if grant else why_waiting(window, self._limit, now, own)

    @contextmanager
    def _window(self) -> Iterator[tuple[Window, int]]:
        with self._store.hold() as held:
            window = self._decode(held)
            yield window, held.now
            content = msgspec.msgpack.encode(window)
            held.content = _HEAD.pack(_MAGIC, len(content), zlib.crc32(content)) + content

    def _decode(self, held: Held) -> Window:
        if not held.content:
            return Window()
        try:
            magic, length, checksum = _HEAD.unpack_from(held.content)
            content = held.content[_HEAD.size : _HEAD.size + length]
            if magic == _MAGIC and zlib.crc32(content) == checksum:
                return msgspec.msgpack.decode(content, type=Window)
        except (struct.error, msgspec.MsgspecError):
            pass
        _LOG.warning("%s is damaged; waiting as if the allowance had just been used up", self._store.name)
        return Window(arrivals=[held.now] * self._limit)
