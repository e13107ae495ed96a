"""Watch over fetching: end a run that gets no answer for a long time, so that it can be resumed."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from firmlake.core.errors import RUN_AGAIN, Stopped
from firmlake.core.failure import record_failure

__all__ = ["Watch"]

_GRACE_SECONDS = 60.0
"""Time left for the requests in flight. Then the process is ended, because a hanging thread would keep it alive."""


class Watch:
    """Notices that a run has stalled.

    Args:
        minutes: The longest time without a sign of life; 0 watches nothing.
        state: The folder where the failure is recorded if the process has to be ended.
        clock: Returns monotonic seconds.
    """

    def __init__(self, minutes: float, state: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._minutes, self._state, self._clock = minutes, state, clock
        self._last = clock()
        self.error: Stopped | None = None

    def note(self) -> None:
        """Note a sign of life: an answer, a staged shard, or the start or end of a wait."""
        self._last = self._clock()

    def check(self, stop: threading.Event) -> None:
        """If the run has stalled, ask its threads to stop. If they do not, the process ends a minute later."""
        if self.error or not self._minutes or self._clock() - self._last < 60 * self._minutes:
            return
        self.error = Stopped(
            f"The run stalled: nothing arrived for {self._minutes:g} minutes (run.stuck_after_minutes)",
            RUN_AGAIN,
        )
        stop.set()
        timer = threading.Timer(_GRACE_SECONDS, self._end_process)
        timer.daemon = True
        timer.start()
        self._timer = timer

    def close(self) -> None:
        """Cancel the end of the process, because the threads have stopped."""
        if self.error:
            self._timer.cancel()

    def _end_process(self) -> None:
        assert self.error
        record_failure(self._state, "a run that stalled", self.error)
        sys.stderr.write(f"firmlake: {self.error}\n")
        sys.stderr.flush()
        os._exit(self.error.exit_code)
