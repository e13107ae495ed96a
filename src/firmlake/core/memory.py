"""Memory use while a shard is fetched and staged, and how memory is returned to the system afterwards."""

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
"""The thresholds to restore, one entry for each thread inside; the first entry holds the original ones."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Run the garbage collector rarely until the last thread inside has left.

    A shard's records form no cycles, yet with the usual thresholds the collector scans hundreds of thousands of
    records over and over. More rarely still would save 0.008 CPU s per 1,000 companies and take 110 MB more for a
    million companies, because each request leaves a cycle of tenacity's objects.
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
    """Release memory cached by Arrow and the C library, before DuckDB starts with its own memory limit."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
