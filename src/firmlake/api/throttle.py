"""The allowance of a key, shared by all threads and processes of this machine and held across restarts.

Its state is one small file for each key in a folder of the user's in the system's temp directory, because two data
folders may use one key. The file is opened, locked, read, written and closed for each operation (30 us): nothing is
inherited by a fork, a process that dies lets go, and a file removed by a cleaner is simply made anew.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from firmlake.api.exchange import Answer
from firmlake.api.hints import read_allowance, read_wait
from firmlake.api.window import Window, answered, learn, refused, take
from firmlake.errors import SettingsError
from firmlake.settings import ApiSettings

__all__ = ["NoThrottle", "SharedThrottle", "Throttle", "open_throttle"]

_LOG = logging.getLogger(__name__)
_HEAD = struct.Struct("<4sII")
"""Magic, length and CRC-32 of the state that follows."""
_MAGIC = b"FLT1"
_SIZE_MAX = 16_777_216
_IDLE_SECONDS = 86_400
_ELSEWHERE = "Let TMPDIR name a folder that you can write to"

Sleep = Callable[[float], None]


class Throttle(Protocol):
    """Decides when a request may be sent. A store in PostgreSQL or Redis would be another one."""

    def acquire(self, sleep: Sleep) -> int:
        """Wait until one more request may be sent.

        Args:
            sleep: Waits so many seconds; raises to end the waiting.

        Returns:
            The grant, for `observe`.
        """

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn from what came of a granted request: that it is over, a 429, rate limit headers."""


class NoThrottle:
    """For a service without a rate limit (`api.requests_per_minute = 0`)."""

    def acquire(self, sleep: Sleep) -> int:  # noqa: ARG002 - the protocol's signature
        """Let it go."""
        return 0

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn nothing: the client itself waits after a 429."""


class SharedThrottle:
    """One allowance in one file.

    Args:
        file: State, made when it is missing. A damaged one is begun anew as if the allowance had just been used up.
        limit: Requests in any 60 s.
        clock: Nanoseconds since the machine started, the same for all processes.
        pause_max_seconds: Longest pause after a 429. The client ends the run where the service asks for a longer one;
            the next run may try again.
    """

    def __init__(self, file: Path, limit: int, clock: Callable[[], int], pause_max_seconds: float = 120.0) -> None:
        self._file = file
        self._pause_max_seconds = pause_max_seconds
        self._limit = limit
        self._clock = clock
        self._said_limit = limit

    def acquire(self, sleep: Sleep) -> int:
        """Wait until one more request may be sent; see `Throttle`."""
        while True:
            with self._window() as window:
                grant, seconds = take(window, self._limit, self._clock())
            if grant is not None:
                return grant
            sleep(seconds)

    def observe(self, grant: int, answer: Answer) -> None:
        """Learn from what came of a granted request; see `Throttle`."""
        allowance = read_allowance(answer.headers, answer.fetched_at)
        wait_seconds = read_wait(answer.headers, answer.fetched_at)
        if wait_seconds is not None:
            wait_seconds = min(wait_seconds, self._pause_max_seconds)
        with self._window() as window:
            now = self._clock()
            answered(window, grant, now)
            if answer.status == 429:
                refused(window, self._limit, grant, now, wait_seconds)
            learn(window, self._limit, now, allowance)
        limit = allowance.requests_per_minute
        if limit is not None and limit < self._limit and limit != self._said_limit:
            self._said_limit = limit
            _LOG.warning("The service allows %d requests a minute; api.requests_per_minute is %d", limit, self._limit)

    @contextmanager
    def _window(self) -> Iterator[Window]:
        try:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                window = self._decode(os.read(descriptor, _SIZE_MAX))
                yield window
                content = msgspec.msgpack.encode(window)
                os.pwrite(descriptor, _HEAD.pack(_MAGIC, len(content), zlib.crc32(content)) + content, 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SettingsError(f"{self._file}: {error.strerror}", _ELSEWHERE) from None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._file, flags, 0o600)
        except FileNotFoundError:
            _make_private(self._file.parent)
            return os.open(self._file, flags, 0o600)

    def _decode(self, data: bytes) -> Window:
        if not data:
            return Window()
        try:
            magic, length, checksum = _HEAD.unpack_from(data)
            content = data[_HEAD.size : _HEAD.size + length]
            if magic == _MAGIC and zlib.crc32(content) == checksum:
                return msgspec.msgpack.decode(content, type=Window)
        except (struct.error, msgspec.MsgspecError):
            pass
        _LOG.warning("%s is damaged; waiting as if the allowance had just been used up", self._file)
        return Window(arrivals=[self._clock()] * self._limit)


def open_throttle(api: ApiSettings, key: str, folder: Path | None = None) -> Throttle:
    """Make the throttle for one key.

    Args:
        api: `requests_per_minute`; 0 means none.
        key: Names service and token without giving the token away: `Token.key_hash(api.base_url)`.
        folder: Where the state is kept; None takes `firmlake-<uid>` in the system's temp directory.

    Raises:
        SettingsError: The folder cannot be made or is open to others: correct TMPDIR.
    """
    if api.requests_per_minute == 0:
        return NoThrottle()
    folder = folder or Path(tempfile.gettempdir()) / f"firmlake-{os.getuid()}"
    _make_private(folder)
    _remove_idle(folder)
    file = folder / f"{key}.throttle"
    return SharedThrottle(file, api.requests_per_minute, boot_clock, api.retry_wait_max_seconds)


def _remove_idle(folder: Path) -> None:
    """Each sandbox on a port of its own leaves a file; after a day without a request none matters any more."""
    for file in folder.glob("*.throttle"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _IDLE_SECONDS:
                file.unlink()


def boot_clock() -> int:
    """Give the nanoseconds since the machine started; on Linux they go on while it sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _make_private(folder: Path) -> None:
    """Anybody may write into the temp directory, so that a folder of this name may have been laid for us."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", _ELSEWHERE) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"{folder} is not a folder of yours alone", _ELSEWHERE)
