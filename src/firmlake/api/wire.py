"""A deadline for each try as a whole, shortened when the run is interrupted.

httpx limits only the wait for each piece of an answer, so a server that sends one byte a minute can block a thread
forever. Here no read waits longer than the time left for the try.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any

import httpcore

__all__ = ["Deadline", "DeadlineBackend"]

_SLICE_SECONDS = 0.5
"""How often a waiting read checks for an interrupt."""
_READ_BYTES = 1_048_576
"""Bytes read at once, usually a whole answer; httpcore asks for 64 KiB."""


class Deadline(threading.local):
    """The deadline of each thread's current try.

    Args:
        stop: Set when the run is interrupted; the try then has `grace_seconds` left.
        grace_seconds: Long enough to receive an answer that is paid for, short enough for the process to end in time.
    """

    def __init__(self, stop: threading.Event, grace_seconds: float) -> None:
        self._stop = stop
        self._grace_seconds = grace_seconds
        self._at = float("inf")
        self._is_ending = False

    def start(self, seconds: float) -> None:
        """Begin a try that may take this many seconds."""
        self._at = time.monotonic() + seconds
        self._is_ending = False

    def left(self) -> float:
        """Return the seconds left; 0 after the deadline."""
        now = time.monotonic()
        if self._stop.is_set() and not self._is_ending:
            self._is_ending = True
            self._at = min(self._at, now + self._grace_seconds)
        return max(0.0, self._at - now)


class DeadlineBackend(httpcore.NetworkBackend):
    """Opens connections whose every operation respects the thread's deadline."""

    def __init__(self, inner: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect within the time left."""
        seconds = _shorter(timeout, self._deadline.left())
        if not seconds:
            raise httpcore.ConnectTimeout("deadline")
        return _Stream(self._inner.connect_tcp(host, port, seconds, local_address, socket_options), self._deadline)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        patience = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (seconds := min(self._deadline.left(), patience - time.monotonic())) > 0:
            with contextlib.suppress(httpcore.ReadTimeout):
                return self._inner.read(max(max_bytes, _READ_BYTES), min(seconds, _SLICE_SECONDS))
        raise httpcore.ReadTimeout("silence" if self._deadline.left() else "deadline")

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not (seconds := _shorter(timeout, self._deadline.left())):
            raise httpcore.WriteTimeout("deadline")
        self._inner.write(buffer, seconds)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        if not (seconds := _shorter(timeout, self._deadline.left())):
            raise httpcore.ConnectTimeout("deadline")
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, seconds), self._deadline)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _shorter(timeout: float | None, left: float) -> float:
    return left if timeout is None else min(timeout, left)
