"""Signals: during requests, the first signal lets those in flight finish; any other signal stops the work at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from firmlake.core.errors import EXIT_SIGINT

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = b"\nStopping; waiting for the requests in flight (again to stop at once)\n"

_stop = threading.Event()
_is_graceful = threading.Event()
_received: list[int] = []
"""The signals that arrived, in order of arrival."""


def catch_signals() -> None:
    """Make the signals that end a process raise KeyboardInterrupt instead, or set the event of `graceful`.

    A signal that the process was started to ignore stays ignored, for example SIGHUP under nohup.
    """

    def receive(number: int, _frame: object) -> None:
        is_first = not _received
        _received.append(number)
        if not (is_first and _is_graceful.is_set()):
            raise KeyboardInterrupt
        _stop.set()
        with suppress(OSError):  # the terminal may have gone with the signal
            os.write(2, _STOPPING)

    def give_again(lost: sys.UnraisableHookArgs) -> None:
        # Python drops exceptions raised in destructors and weak reference callbacks, so the interrupt is raised again.
        if lost.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            sys.__unraisablehook__(lost)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, receive)
    sys.unraisablehook = give_again


def ignore_signals() -> None:
    """Ignore signals from now on: the work is done, and a late signal must not change the exit code."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Tell whether a signal arrived."""
    return bool(_received)


def exit_code_of_signal() -> int:
    """Return the exit code of a process ended by a signal: 128 plus the signal's number."""
    return 128 + _received[0] if _received else EXIT_SIGINT


@contextmanager
def graceful() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, so that requests in flight can finish and no new one is sent.

    Outside this block a signal ends the work at once. That is safe, because files are written atomically.
    """
    _stop.clear()
    _is_graceful.set()
    try:
        yield _stop
    finally:
        _is_graceful.clear()
