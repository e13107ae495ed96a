"""Memory: what is held while a shard is fetched and staged, and how it goes back to the system afterwards."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

__all__ = ["collecting_rarely", "give_back"]

_RARELY = (200_000, 20, 100)
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds to go back to, once for each that is inside; the first are the real ones."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for unreachable cycles rarely, until the last of all threads that are inside has left.

    A shard's records form none. With its usual thresholds the collector walks through hundreds of thousands of them
    again and again, for nothing.
    """
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)


def give_back() -> None:
    """Give back to the system what Arrow and the C library keep for later, before an engine with a limit of its own."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
