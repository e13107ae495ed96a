"""The state of a key's allowance: the requests that the service may still count, and when the next may be sent.

The service counts a request when it arrives, a little after we grant it. To be safe for every order of arrival, each
request counts until 60 s after its latest possible arrival: the time of its answer, or `HOLD_SECONDS` after the grant
if the answer takes longer. So in every period of 60 s, all requests that arrived were still counted here when the last
of them was granted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import msgspec

SECOND = 1_000_000_000

WINDOW_SECONDS = 60.1
"""A minute, plus 0.1 s for differing clocks and services that round."""
HOLD_SECONDS = 1.0
"""Longest time that a request travels to the service. A slot is free again after at most 61.1 s, so at least 0.982 of
the allowance can be used."""

_WINDOW = int(WINDOW_SECONDS * SECOND)
_PAUSE_MAX = 60 * SECOND
"""Longest pause after a 429 that names no time. The first one lasts a second, each further one twice as long."""
_SLOWER = 1.25
_STORM_SECONDS = 120
"""Slow down further only after two pauses within this time, not after a single 429."""
_CALM_SECONDS = 600
"""After this time without a 429, requests are sent closer together again: one experiment every ten minutes."""


class Window(msgspec.Struct, array_like=True):
    """The shared state of one key. Times are nanoseconds on a clock of its own.

    That clock advances with the store's clock, and stands still when the store's clock goes back, as at a restart of
    the machine. So no request is forgotten too early.
    """

    arrivals: list[int] = []  # the latest possible arrival time of each request that may still count
    learned_limit: int = 0  # requests a minute that the service reported; 0 if it reported none
    spacing: int = 0  # time between two requests after bursts were refused; 0 if none were
    due: int = 0  # when the next request is due at that spacing
    paused_at: int = 0  # start of the last pause, or time of the last step back towards bursts
    paused_until: int = 0  # end of the last pause
    clock: int = 0  # when the state was last used
    seen_at: int = 0  # that time on the store's clock


def take(window: Window, limit: int, now: int) -> tuple[int | None, float]:
    """Take the right to send one request now; `limit` is in requests a minute.

    Return the grant, to be passed to `answered`, and 0; or None and the seconds after which to ask again.
    """
    limit = min(limit, window.learned_limit or limit)
    if window.spacing and now - window.paused_at > _CALM_SECONDS * SECOND:
        window.spacing = 0 if window.spacing <= _even(limit) else max(_even(limit), int(window.spacing / _SLOWER))
        window.paused_at = now
    if len(window.arrivals) >= limit:
        window.arrivals = [at for at in window.arrivals if at > now - _WINDOW]
    free_at = window.paused_until
    if len(window.arrivals) >= limit:
        free_at = max(free_at, sorted(window.arrivals)[-limit] + _WINDOW)
    if window.spacing:
        free_at = max(free_at, window.due)
    if free_at > now:
        return None, (free_at - now) / SECOND
    grant = now + int(HOLD_SECONDS * SECOND)
    window.arrivals.append(grant)
    window.due = max(window.due, now) + window.spacing
    return grant, 0.0


def why_waiting(window: Window, limit: int, now: int) -> str:
    """Return the reason why `take` grants nothing now; see there for the arguments."""
    if window.paused_until > now:
        return "waiting because the service refuses further requests for now"
    sent = sum(at > now - _WINDOW for at in window.arrivals)
    if sent >= min(limit, window.learned_limit or limit):
        return f"waiting for the allowance: {sent} requests were sent with this key in the last minute"
    return f"waiting because the service refused faster requests: one every {window.spacing / SECOND:.1f} s"


def answered(window: Window, grant: int, now: int) -> None:
    """Record that a granted request has ended, so it cannot arrive later than now."""
    if now < grant and grant in window.arrivals:
        window.arrivals[window.arrivals.index(grant)] = now


def refused(window: Window, limit: int, grant: int, now: int, wait_seconds: float | None) -> None:
    """Record a 429: all processes pause, and requests are spaced out from then on.

    We stay within the known allowance, so a 429 means that the service dislikes bursts, counts differently or allows
    less. The first 429 spreads requests over the minute; each further one soon after slows them down by a fifth.
    Requests under way when a pause began are refused for the same reason and change nothing. `wait_seconds` is what the
    service asked for; None if it named no time.
    """
    pause = window.paused_until - window.paused_at
    if grant - int(HOLD_SECONDS * SECOND) > window.paused_at:
        is_storm = pause > 0 and now - window.paused_at < _STORM_SECONDS * SECOND
        slower = int(window.spacing * _SLOWER) if is_storm else window.spacing
        window.spacing = min(max(_even(min(limit, window.learned_limit or limit)), slower), _PAUSE_MAX)
        pause = min(2 * pause, _PAUSE_MAX) if is_storm else SECOND
        window.paused_at = now
    wait = int(wait_seconds * SECOND) if wait_seconds else pause
    window.paused_until = max(window.paused_until, now + wait)


def learn(window: Window, limit: int, now: int, allowance: Allowance) -> None:
    """Adopt the limit that the service reports; only a limit lower than ours has an effect.

    If the service reports no remaining requests although we used less than 0.9 of the allowance, somebody else uses the
    key. Then we wait for the reset instead of causing 429s.
    """
    if allowance.requests_per_minute is not None:
        window.learned_limit = allowance.requests_per_minute
    if allowance.remaining == 0 and allowance.reset_seconds:
        used = sum(at > now - _WINDOW for at in window.arrivals)
        if used < 0.9 * min(limit, window.learned_limit or limit):
            window.paused_at = now
            window.paused_until = max(window.paused_until, now + min(int(allowance.reset_seconds * SECOND), _PAUSE_MAX))


def _even(limit: int) -> int:
    """Return the time between two requests that are spread over the minute."""
    return _WINDOW // limit


WAIT_MAX_SECONDS = 31 * 86_400
"""Ignore longer waits: no quota runs for more than a month, so a longer wait is an error of the service."""

_EPOCH_FROM = 1_000_000_000
"""A reset above this is a Unix time (2001 or later), not a number of seconds."""

_WINDOW_MAX_SECONDS = 300
"""Ignore quotas over longer windows: they do not set a pace, because a run may use an hourly quota within minutes."""

_WINDOWS = (10, 15, 30, 60)
"""Usual windows, in seconds, of limits that name none. The shortest that reaches to the reset is taken; if it is too
short, the remaining requests make us wait for the reset."""

_LEADING = re.compile(r"\s*([0-9]{1,12})(?:\.[0-9]*)?\s*(?:[,;].*)?")
_OTHER_UNIT = re.compile(r'\bqu\s*=\s*"?(?!requests\b)[a-z]', re.IGNORECASE)
"""A quota of something else than requests, such as bytes or connections (drafts from 08)."""
_PARAMETER = re.compile(r"\b([a-z]+)\s*=\s*([0-9]{1,12})")


class Allowance(NamedTuple):
    """The rate limit that an answer reports; None for values that it does not report."""

    requests_per_minute: int | None  # converted to a minute
    remaining: int | None  # requests left now
    reset_seconds: float | None  # until more requests are allowed


def read_wait(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read how many seconds a 429, 403 or 503 answer asks us to wait; None if it names no time up to a month.

    `now` is used if the answer has no Date header from the service's clock. Names of headers are in lower case.
    """
    value = headers.get("retry-after", "")
    seconds: float | None = _number(value)
    if seconds is None:
        seconds = _seconds_until(value, headers, now)
    if seconds is None:
        seconds = read_allowance(headers, now).reset_seconds
    return seconds if seconds is not None and 0 < seconds <= WAIT_MAX_SECONDS else None


def read_allowance(headers: Mapping[str, str], now: datetime) -> Allowance:
    """Read the rate limit that an answer reports.

        Retry-After: 30 | Fri, 31 Dec 1999 23:59:59 GMT          RFC 9110, 10.2.3
        RateLimit-Limit: 200, 200;w=60   RateLimit-Remaining: 3   RateLimit-Reset: 12     drafts up to 06
        RateLimit: limit=200, remaining=3, reset=12                                       draft 07
        RateLimit-Policy: "default";q=200;w=60    RateLimit: "default";r=3;t=12           drafts from 08
        X-RateLimit-Limit / -Remaining / -Reset (seconds, or the time since 1970)         custom

    The values come from outside, so a value that cannot be parsed is ignored.
    The tightest of several limits counts. A limit without a window and a reset is for a minute.
    """
    modern = _tightest(headers.get("ratelimit", ""))
    remaining = _first(modern.get("r"), modern.get("remaining"), _either(headers, "remaining"))
    reset = _first(modern.get("t"), modern.get("reset"), _either(headers, "reset"))
    if reset is not None and reset >= _EPOCH_FROM:
        reset = max(0, reset - int((_served_at(headers) or now).timestamp()))
    policies = (headers.get("ratelimit-policy") or _either(headers, "limit") or modern.get("limit", "")).split(",")
    policies = [policy for policy in policies if not _OTHER_UNIT.search(policy)]
    policies = [policy for policy in policies if "w=" in policy] or policies  # drafts up to 06 repeat one before them
    paces = [pace for pace in (_pace(policy, reset) for policy in policies) if pace]
    return Allowance(min(paces, default=None), remaining, reset)


def _tightest(states: str) -> dict[str, str]:
    """Return the parameters of the policy with the fewest requests left; drafts before 08 state a single policy."""
    found = [parameters for state in states.split(",") if "r" in (parameters := dict(_PARAMETER.findall(state)))]
    return min(found, key=lambda parameters: int(parameters["r"]), default=dict(_PARAMETER.findall(states)))


def _pace(policy: str, reset: int | None) -> int | None:
    """Return requests a minute for `200`, `200;w=60` or `"name";q=200;w=60`; None if the window is too long."""
    parameters = dict(_PARAMETER.findall(policy))
    limit, window = _first(parameters.get("q"), policy), _first(parameters.get("w"))
    if window is None:
        reach = 60 if reset is None else reset
        window = next((usual for usual in _WINDOWS if reach <= usual), _WINDOW_MAX_SECONDS + 1)
    return max(1, limit * 60 // max(1, window)) if limit and window <= _WINDOW_MAX_SECONDS else None


def _either(headers: Mapping[str, str], name: str) -> str:
    return headers.get(f"ratelimit-{name}") or headers.get(f"x-ratelimit-{name}") or ""


def _first(*values: str | None) -> int | None:
    return next((n for n in map(_number, values) if n is not None), None)


def _number(value: str | None) -> int | None:
    found = _LEADING.fullmatch(value or "")
    return int(found[1]) if found else None


def _seconds_until(value: str, headers: Mapping[str, str], now: datetime) -> float | None:
    until = _date(value)
    return None if until is None else (until - (_served_at(headers) or now)).total_seconds()


def _served_at(headers: Mapping[str, str]) -> datetime | None:
    return _date(headers.get("date", ""))


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date
