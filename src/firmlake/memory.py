"""Python's search for unreachable cycles, made rare while a shard's records are held: they form none.

With its usual thresholds the collector walks through hundreds of thousands of them again and again, for nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collecting_rarely"]

_RARELY = (200_000, 20, 100)
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds to go back to, once for each that is inside; the first are the real ones."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect rarely until the last of all threads that are inside has left."""
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
