"""Signals: while requests are in flight the first one lets them end; any other interrupts the work at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from firmlake.core.errors import EXIT_SIGINT

__all__ = ["catch_signals", "exit_code_of_signal", "graceful", "ignore_signals", "was_interrupted"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING = b"\nStopping; waiting for the requests in flight (again to stop at once)\n"

_stop = threading.Event()
_is_graceful = threading.Event()
_received: list[int] = []
"""The signals that arrived, in that order."""


def catch_signals() -> None:
    """Make the signals that end a process raise KeyboardInterrupt instead, or set the event of `graceful`.

    A signal that the process was started to ignore stays ignored, as SIGHUP under nohup.
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
        # Python drops what is raised inside a destructor or a weak reference's callback, our interrupt too.
        if lost.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            sys.__unraisablehook__(lost)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, receive)
    sys.unraisablehook = give_again


def ignore_signals() -> None:
    """Ignore signals from now on: the work is done, and its exit code stands while Python takes itself down."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def was_interrupted() -> bool:
    """Tell whether a signal arrived."""
    return bool(_received)


def exit_code_of_signal() -> int:
    """Give the exit code of a process that a signal ended: 128 and the signal's number."""
    return 128 + _received[0] if _received else EXIT_SIGINT


@contextmanager
def graceful() -> Iterator[threading.Event]:
    """Let the first signal set an event, so that the requests in flight can end and no other is sent.

    Outside, a signal ends the work at once: every file is whole or not there.
    """
    _stop.clear()
    _is_graceful.set()
    try:
        yield _stop
    finally:
        _is_graceful.clear()
