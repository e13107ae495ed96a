"""The two clocks of the service, which tests move instead of sleeping."""

import time


class Clock:
    """Real time plus what was added: the calendar for credits and dates, the ticks for the rate limit."""

    def __init__(self) -> None:
        """Start at the real time."""
        self._ahead = 0.0
        self._ticks_ahead = 0.0

    def now(self) -> float:
        """Return the calendar time in seconds since 1970."""
        return time.time() + self._ahead

    def ticks(self) -> float:
        """Return the seconds that the rate limit counts by."""
        return time.monotonic() + self._ticks_ahead

    def advance(self, calendar: float, ticks: float) -> None:
        """Move both clocks on by so many seconds each."""
        self._ahead += calendar
        self._ticks_ahead += ticks
