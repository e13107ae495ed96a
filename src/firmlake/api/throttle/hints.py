"""Read an answer's rate limit headers: how long to wait, and how many requests are allowed.

    Retry-After: 30 | Fri, 31 Dec 1999 23:59:59 GMT          RFC 9110, 10.2.3
    RateLimit-Limit: 200, 200;w=60   RateLimit-Remaining: 3   RateLimit-Reset: 12     drafts up to 06
    RateLimit: limit=200, remaining=3, reset=12                                       draft 07
    RateLimit-Policy: "default";q=200;w=60    RateLimit: "default";r=3;t=12           drafts from 08
    X-RateLimit-Limit / -Remaining / -Reset (seconds, or the time since 1970)         custom

The values come from outside, so a value that cannot be parsed is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

__all__ = ["Allowance", "read_allowance", "read_wait"]

WAIT_MAX_SECONDS = 31 * 86_400
"""Ignore longer waits: no quota runs for more than a month, so a longer wait is an error of the service."""

_EPOCH_FROM = 1_000_000_000
"""A reset above this is a Unix time (2001 or later), not a number of seconds."""

_WINDOW_MAX_SECONDS = 300
"""Ignore quotas over longer windows: they do not set a pace, because a run may use an hourly quota within minutes."""

_LEADING = re.compile(r"\s*([0-9]{1,12})(?:\.[0-9]*)?\s*(?:[,;].*)?")
_OTHER_UNIT = re.compile(r'\bqu\s*=\s*"?(?!requests\b)[a-z]', re.IGNORECASE)
"""A quota of something else than requests, such as bytes or connections (drafts from 08)."""
_PARAMETER = re.compile(r"\b([a-z]+)\s*=\s*([0-9]{1,12})")


class Allowance(NamedTuple):
    """The rate limit that an answer reports; None for values that it does not report.

    Attributes:
        requests_per_minute: The limit, converted to a minute.
        remaining: Requests left now.
        reset_seconds: Seconds until more requests are allowed.
    """

    requests_per_minute: int | None
    remaining: int | None
    reset_seconds: float | None


def read_wait(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read how long a 429, 403 or 503 answer asks us to wait.

    Args:
        headers: Headers of the answer, names in lower case.
        now: Current time in UTC, used if the answer has no Date header from the service's clock.

    Returns:
        Seconds, more than 0 and at most a month; None if the answer names no sensible time.
    """
    value = headers.get("retry-after", "")
    seconds: float | None = _number(value)
    if seconds is None:
        seconds = _seconds_until(value, headers, now)
    if seconds is None:
        seconds = read_allowance(headers, now).reset_seconds
    return seconds if seconds is not None and 0 < seconds <= WAIT_MAX_SECONDS else None


def read_allowance(headers: Mapping[str, str], now: datetime) -> Allowance:
    """Read the rate limit that an answer reports, in any spelling listed above.

    The tightest of several limits counts. A limit without a window is for a minute, unless its reset is later.
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
        window = 60 if reset is None or reset <= 60 else _WINDOW_MAX_SECONDS + 1
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
