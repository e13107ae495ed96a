"""Keep a key's allowance across all processes that use the key, and across restarts.

The state of an allowance is one value, `window.Window`. A store keeps this value, lends it to one process at a time and
provides the clock: a file for the processes of one machine, PostgreSQL for several machines.

A file store is in a private folder of the system's temp directory, not in the data folder, because two data folders may
use the same key. Each operation opens, locks, reads, writes and closes the file (30 us). So forked processes inherit
nothing, a dying process releases the lock, and a file deleted by a temp cleaner is created again.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from firmlake.api.exchange import Answer
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
from firmlake.core.clock import utc_now
from firmlake.core.errors import SettingsError, Stopped, ThrottleStoreError
from firmlake.core.settings import ApiSettings


def open_throttle(api: ApiSettings, key: str, folder: Path | None = None) -> Throttle:
    """Open the throttle for one key.

    Args:
        api: `requests_per_minute` (0 means no throttle) and `throttle_store`.
        key: `Token.key_hash(api.base_url)`, which identifies service and token without revealing the token.
        folder: Folder for file stores; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The store cannot be used. Correct `api.throttle_store`.
    """
    if api.requests_per_minute == 0:
        return NoThrottle()
    return SharedThrottle(
        _open_store(api.throttle_store, key, folder), api.requests_per_minute, api.retry_wait_max_seconds
    )


def look_ahead(api: ApiSettings, key: str, count: int, folder: Path | None = None) -> Forecast:
    """Forecast the waits of requests that would be sent from now on. Nothing is made, locked or changed.

    Args:
        api: `requests_per_minute`, at least 1, and `throttle_store`.
        key: See `open_throttle`.
        count: The number of requests.
        folder: See `open_throttle`.

    Raises:
        SettingsError: The store cannot be used. Correct `api.throttle_store`.
        ThrottleStoreError: The store cannot be reached.
    """
    store = _open_store(api.throttle_store, key, folder, is_made=False)
    held = store.peek()
    limit = api.requests_per_minute
    return forecast(read_window(held, limit, store.name), limit, count, held.now)


def _open_store(store: str, key: str, folder: Path | None, *, is_made: bool = True) -> Store:
    if store == "file":
        return open_file_store(key, folder) if is_made else find_file_store(key, folder)
    from firmlake.api.throttle.postgres import open_postgres_store

    return open_postgres_store(store, key)


_WAIT_MIN_SECONDS = 1.0
"""Shorter waits are not reported, as in a run."""


class Forecast(NamedTuple):
    """How the allowance will slow down a run that starts now.

    Attributes:
        minutes: Time until the last request is sent, if answers take no time.
        wait_seconds: Time until the first request is sent; 0 for less than a second.
        why: Why the first request waits, in the words of a run; empty if it does not wait.
        pace: Why requests go slower than the settings allow; empty if they do not.
    """

    minutes: float
    wait_seconds: float
    why: str
    pace: str


def forecast(window: Window, limit: int, count: int, now: int) -> Forecast:
    """Forecast the waits of a number of requests.

    Args:
        window: The state of the key; a copy of it is used up.
        limit: Requests a minute, from the settings.
        count: Requests to send.
        now: Nanoseconds on the clock of the state.
    """
    ahead = msgspec.msgpack.decode(msgspec.msgpack.encode(window), type=Window)
    clock, first_at, why = now, now, ""
    per_minute = min(limit, window.learned_limit or limit)
    simulated = min(count, 2 * per_minute)  # after that, each minute is like the previous one
    for nth in range(simulated):
        grant, seconds = take(ahead, limit, clock)
        while grant is None:
            why = why or (why_waiting(ahead, limit, clock, 0) if nth == 0 else "")
            clock += int(seconds * SECOND) + 1
            grant, seconds = take(ahead, limit, clock)
        answered(ahead, grant, clock)
        first_at = clock if nth == 0 else first_at
    each = max(WINDOW_SECONDS / per_minute, ahead.spacing / SECOND)
    seconds = (clock - now) / SECOND + (count - simulated) * each
    wait = (first_at - now) / SECOND
    is_told = wait >= _WAIT_MIN_SECONDS
    return Forecast(seconds / 60, wait if is_told else 0.0, why if is_told else "", _pace(ahead, limit))


def _pace(window: Window, limit: int) -> str:
    if window.spacing:
        return f"one request every {window.spacing / SECOND:.1f} s, because the service refused faster ones"
    if 0 < window.learned_limit < limit:
        return f"{window.learned_limit} requests a minute, because the service allows no more"
    return ""


_SIZE_MAX = 16_777_216
_IDLE_SECONDS = 86_400
_ELSEWHERE = "Set TMPDIR to a folder that only you can write to"


class FileStore:
    """A store in one file.

    Args:
        file: Path of the file, which is made if it is missing.
        clock: Returns nanoseconds on a clock that all processes of the machine share.
    """

    def __init__(self, file: Path, clock: Callable[[], int]) -> None:
        self.name = str(file)
        self.folder = file.parent
        self._file = file
        self._clock = clock

    @contextmanager
    def hold(self) -> Iterator[Slot]:
        """Lend the state to one caller at a time; see `Store`.

        Raises:
            SettingsError: The file cannot be used. Correct TMPDIR.
        """
        try:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                slot = Slot(os.read(descriptor, _SIZE_MAX), self._clock())
                yield slot
                os.pwrite(descriptor, slot.content, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingsError(f"{self._file}: {error.strerror}", _ELSEWHERE) from None

    def peek(self) -> Slot:
        """Return the state without locking or making anything; see `Store`."""
        try:
            return Slot(self._file.read_bytes()[:_SIZE_MAX], self._clock())
        except OSError:  # there is no file yet, or a run will report what is wrong with it
            return Slot(b"", self._clock())

    def close(self) -> None:
        """Do nothing: no file is open between two operations."""

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._file, flags, 0o600)
        except FileNotFoundError:
            _make_private(self._file.parent)
            return os.open(self._file, flags, 0o600)


def open_file_store(key: str, folder: Path | None = None) -> FileStore:
    """Open the store for one key.

    Args:
        key: Identifies service and token without revealing the token.
        folder: Folder of the files; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The folder cannot be made or others can write to it. Correct TMPDIR.
    """
    store = find_file_store(key, folder)
    _make_private(store.folder)
    _remove_idle(store.folder)
    return store


def find_file_store(key: str, folder: Path | None = None) -> FileStore:
    """Return the store for one key without making anything; see `open_file_store`."""
    folder = folder or Path(tempfile.gettempdir()) / f"firmlake-{os.getuid()}"
    return FileStore(folder / f"{key}.throttle", boot_clock)


def boot_clock() -> int:
    """Return the nanoseconds since the machine started; on Linux the time asleep counts too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _remove_idle(folder: Path) -> None:
    """Remove files that were idle for a day; every sandbox leaves one, because each has its own port."""
    for file in folder.glob("*.throttle"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _IDLE_SECONDS:
                file.unlink()


def _make_private(folder: Path) -> None:
    """Make the folder, or check that it is ours, because another user may have made one of this name."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", _ELSEWHERE) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"{folder} is not a folder that only you can write to", _ELSEWHERE)


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
