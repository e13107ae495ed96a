"""Memory: its use while a shard is fetched and staged, how it is returned to the system, and limits of DuckDB."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

_RARELY = (500_000, 20, 100)
_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_UNITS = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Run the garbage collector rarely.

    A shard's records form no cycles, yet with the usual thresholds the collector scans hundreds of thousands of
    records over and over.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def share_arena() -> None:
    """Let all threads allocate from one arena of the C library. Call this before they start.

    By default glibc gives each thread its own, and DuckDB cannot use the 15 to 20 MB that threads have freed there.
    Sharing costs no time, because our threads wait for the interpreter's lock anyway.
    """
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return to the system what Arrow and the C library cache. Call this before work with a memory limit of its own."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def greater_limit(*limits: str) -> str:
    """Return the greatest of some memory limits of DuckDB, such as "512MB"."""
    return max(limits, key=lambda limit: int(limit.rstrip(" MGiB")) * _UNITS[limit.lstrip(" 0123456789")])
