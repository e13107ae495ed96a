"""Forecast how long requests will wait for the allowance, from the stored state, which is not changed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from firmlake.api.throttle.window import SECOND, WINDOW_SECONDS, Window, answered, take, why_waiting

__all__ = ["Forecast", "forecast"]

_WAIT_MIN_SECONDS = 1.0
"""Shorter waits are not reported, as in a run."""


class Forecast(NamedTuple):
    """How the allowance will slow down a run that starts now.

    Attributes:
        minutes: Time until the last request is sent, if answers take no time.
        wait_seconds: Time until the first request is sent; 0 for less than a second.
        why: Why the first request waits, in the words of a run; empty if it does not wait.
        pace: Why requests go slower than the settings allow; empty if they do not.
    """

    minutes: float
    wait_seconds: float
    why: str
    pace: str


def forecast(window: Window, limit: int, count: int, now: int) -> Forecast:
    """Forecast the waits of a number of requests.

    Args:
        window: The state of the key; a copy of it is used up.
        limit: Requests a minute, from the settings.
        count: Requests to send.
        now: Nanoseconds on the clock of the state.
    """
    ahead = msgspec.msgpack.decode(msgspec.msgpack.encode(window), type=Window)
    clock, first_at, why = now, now, ""
    per_minute = min(limit, window.learned_limit or limit)
    simulated = min(count, 2 * per_minute)  # after that, each minute is like the previous one
    for nth in range(simulated):
        grant, seconds = take(ahead, limit, clock)
        while grant is None:
            why = why or (why_waiting(ahead, limit, clock, 0) if nth == 0 else "")
            clock += int(seconds * SECOND) + 1
            grant, seconds = take(ahead, limit, clock)
        answered(ahead, grant, clock)
        first_at = clock if nth == 0 else first_at
    each = max(WINDOW_SECONDS / per_minute, ahead.spacing / SECOND)
    seconds = (clock - now) / SECOND + (count - simulated) * each
    wait = (first_at - now) / SECOND
    is_told = wait >= _WAIT_MIN_SECONDS
    return Forecast(seconds / 60, wait if is_told else 0.0, why if is_told else "", _pace(ahead, limit))


# ---------------------------------------------------------------------------------------------------------------------


def _pace(window: Window, limit: int) -> str:
    if window.spacing:
        return f"one request every {window.spacing / SECOND:.1f} s, because the service refused faster ones"
    if 0 < window.learned_limit < limit:
        return f"{window.learned_limit} requests a minute, because the service allows no more"
    return ""
