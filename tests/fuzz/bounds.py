"""Bounds that the kernel keeps: so much processor time and so much memory for one call, and no more."""

from __future__ import annotations

import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CPU_SECONDS = 10
MEMORY_BYTES = 1 << 30


class OutOfTimeError(BaseException):
    """The call took more processor time than it may; no handler in the code may swallow this."""


@contextmanager
def limited() -> Iterator[None]:
    """Let a call use at most `CPU_SECONDS` of processor time and `MEMORY_BYTES` more memory than there is.

    More time raises `OutOfTimeError`; more memory raises MemoryError, or ends the process where Rust allocates.
    """
    assert threading.current_thread() is threading.main_thread(), "signals arrive in the main thread"
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, data = resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_DATA)
    before = signal.signal(signal.SIGXCPU, _out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_SECONDS, cpu[1]))
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + MEMORY_BYTES, data[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, data)
        resource.setrlimit(resource.RLIMIT_CPU, cpu)
        signal.signal(signal.SIGXCPU, before)


def _out_of_time(*_: Any) -> None:
    raise OutOfTimeError(f"more than {CPU_SECONDS} s of processor time")


def _data_bytes() -> int:
    found = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024
