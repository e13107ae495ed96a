"""How the process ends: by a signal at once, or with the process that started it."""

import ctypes
import os
import signal
import sys
import threading
from types import FrameType

_PR_SET_PDEATHSIG = 1


def exit_on_signals() -> None:
    """Make SIGTERM and SIGINT end the process at once, with exit code 0: it holds nothing worth saving."""

    def leave(_signum: int, _frame: FrameType | None) -> None:
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)


def exit_with_parent() -> None:
    """Exit as soon as standard input closes, or, on Linux, as soon as the parent has died.

    The kernel's signal also comes when only the thread that started us ends, so the parent is looked at again.
    """
    parent = os.getppid()

    def exit_if_orphaned(_signum: int, _frame: FrameType | None) -> None:
        if os.getppid() != parent:
            os._exit(0)

    if sys.platform == "linux":
        signal.signal(signal.SIGUSR1, exit_if_orphaned)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def _wait_for_end_of_input() -> None:
    """Read standard input to its end, then exit."""
    while os.read(0, 65_536):
        pass
    os._exit(0)
