"""One key's allowance as a value: which requests the service may still count, and when the next may go.

A request is granted at one time and counted by the service at another, some way's length later. The window is kept
for every order in which requests may arrive: each is counted from the latest time at which it may have arrived,
which is when its answer came, or `HOLD_SECONDS` after it was granted where the answer takes longer. Whatever window
of 60 s the service looks at, all requests in it were live for the last of them when that one was granted.
"""

from __future__ import annotations

import msgspec

from firmlake.api.throttle.hints import Allowance

__all__ = ["Window", "answered", "learn", "refused", "take", "why_waiting"]

SECOND = 1_000_000_000

WINDOW_SECONDS = 60.1
"""A minute, and 0.1 s for clocks that run differently and services that round."""
HOLD_SECONDS = 1.0
"""Most that a request is on its way to the service. A slot comes back after 61.1 s at worst: 0.982 of the allowance."""

_PAUSE_SECONDS, _PAUSE_MAX_SECONDS = 1.0, 60.0
"""After a 429 that names no time: this, doubled with each further one."""
_SLOWER = 1.25
_STORM_SECONDS = 120
"""A 429 that comes alone does not make us slower; two pauses within two minutes do."""
_CALM_SECONDS = 600
"""So long without a 429, and requests may go closer together again: one experiment every ten minutes."""


class Window(msgspec.Struct, array_like=True):
    """What all processes know about one key. Times are nanoseconds on a clock they share.

    Attributes:
        arrivals: For each request that may still count, the latest time at which it may have arrived.
        learned_limit: Requests a minute by the service's word; 0 while it has said nothing.
        spacing: Between two requests, where bursts were refused; 0 while they were not.
        due: When the next one would come at that spacing.
        paused_at: When the last pause began.
        paused_until: When it ends.
        refused_at: Time of the last 429, or of the last step back towards bursts.
        refusals: Pauses since the last two minutes without one.
    """

    arrivals: list[int] = []
    learned_limit: int = 0
    spacing: int = 0
    due: int = 0
    paused_at: int = 0
    paused_until: int = 0
    refused_at: int = 0
    refusals: int = 0


def take(window: Window, limit: int, now: int) -> tuple[int | None, float]:
    """Ask for the right to send one request now.

    Args:
        window: Changed in place.
        limit: Requests in a minute, as set.
        now: Nanoseconds.

    Returns:
        The grant, to be given back to `answered`, and 0; or None and the seconds after which to ask again.
    """
    _forget_the_future(window, now)
    _relax(window, limit, now)
    if window.learned_limit:
        limit = min(limit, window.learned_limit)
    live_from = now - int(WINDOW_SECONDS * SECOND)
    if len(window.arrivals) >= limit:
        window.arrivals = [at for at in window.arrivals if at > live_from]
    free_at = window.paused_until
    if len(window.arrivals) >= limit:
        oldest = sorted(window.arrivals)[len(window.arrivals) - limit]
        free_at = max(free_at, oldest + int(WINDOW_SECONDS * SECOND))
    if window.spacing:
        # Two may be early, so that a thread which wakes late loses nothing.
        free_at = max(free_at, window.due - 2 * window.spacing)
    if free_at > now:
        return None, (free_at - now) / SECOND
    grant = now + int(HOLD_SECONDS * SECOND)
    window.arrivals.append(grant)
    window.due = max(window.due, now) + window.spacing
    return grant, 0.0


def why_waiting(window: Window, limit: int, now: int, own: int) -> str:
    """Say why `take` grants nothing now.

    Args:
        window: As `take` left it.
        limit: As for `take`.
        now: Nanoseconds.
        own: Requests that whoever asks was granted in the last minute.
    """
    if window.paused_until > now:
        return "waiting because the service asked for a pause"
    limit = min(limit, window.learned_limit or limit)
    live = sum(at > now - int(WINDOW_SECONDS * SECOND) for at in window.arrivals)
    if live >= limit:
        others = max(0, live - own)
        whose = f", {others} of them by other or earlier runs with this key" if others else ""
        return f"waiting for the allowance: {live} requests were sent in the last minute{whose}"
    seconds = window.spacing / SECOND
    return f"waiting because the service refused faster requests: one every {seconds:.1f} s"


def answered(window: Window, grant: int, now: int) -> None:
    """Say that a granted request is over: it has arrived by now at the latest, if it has at all."""
    if now < grant and grant in window.arrivals:
        window.arrivals[window.arrivals.index(grant)] = now


def refused(window: Window, limit: int, grant: int, now: int, wait_seconds: float | None) -> None:
    """Say that a granted request was answered 429: everybody pauses, and requests go at intervals from then on.

    Within our own window a 429 means that the service does not like bursts, counts otherwise or allows less: the
    first one spreads the requests over the minute, each that follows soon slows them down by a fifth. Requests that
    were under way when a pause began are refused for the same reason and change nothing.

    Args:
        window: Changed in place.
        limit: As for `take`.
        grant: The request's.
        now: Nanoseconds.
        wait_seconds: What the service asked for; None where it did not.
    """
    if grant - int(HOLD_SECONDS * SECOND) > window.paused_at:
        is_storm = now - window.refused_at < _STORM_SECONDS * SECOND and window.refusals > 0
        even = int(WINDOW_SECONDS * SECOND) // min(limit, window.learned_limit or limit)
        slower = int(window.spacing * _SLOWER) if is_storm else window.spacing
        window.spacing = min(max(even, slower), int(_PAUSE_MAX_SECONDS * SECOND))
        window.refusals = window.refusals + 1 if is_storm else 1
        window.paused_at = window.refused_at = now
    own = min(_PAUSE_SECONDS * 2.0 ** min(window.refusals - 1, 30), _PAUSE_MAX_SECONDS)
    window.paused_until = max(window.paused_until, now + int((wait_seconds or own) * SECOND))


def learn(window: Window, limit: int, now: int, allowance: Allowance) -> None:
    """Adopt what the service says of its limit; only a lower one than ours changes what we do.

    That nothing remains although we have used less than 0.9 of our allowance means that somebody else uses the key:
    then we wait for the reset instead of running into 429s.
    """
    if allowance.requests_per_minute is not None:
        window.learned_limit = allowance.requests_per_minute
    if allowance.remaining == 0 and allowance.reset_seconds:
        live_from = now - int(WINDOW_SECONDS * SECOND)
        used = sum(at > live_from for at in window.arrivals)
        if used < 0.9 * min(limit, window.learned_limit or limit):
            seconds = min(allowance.reset_seconds, _PAUSE_MAX_SECONDS)
            window.paused_at = now
            window.paused_until = max(window.paused_until, now + int(seconds * SECOND))


def _forget_the_future(window: Window, now: int) -> None:
    """After a restart of the machine the clock begins at 0, and everything noted before lies ahead."""
    latest = now + int((HOLD_SECONDS + 1) * SECOND)
    if window.arrivals and window.arrivals[-1] > latest:
        window.arrivals = [at for at in window.arrivals if at <= latest]
    if window.paused_at > now:
        window.paused_at = window.paused_until = 0
    if window.due > now + int(4 * _PAUSE_MAX_SECONDS * SECOND):
        window.due = 0
    window.refused_at = min(window.refused_at, now)


def _relax(window: Window, limit: int, now: int) -> None:
    if window.spacing and now - window.refused_at > _CALM_SECONDS * SECOND:
        even = int(WINDOW_SECONDS * SECOND) // min(limit, window.learned_limit or limit)
        window.spacing = 0 if window.spacing <= even else max(even, int(window.spacing / _SLOWER))
        window.refused_at = now
