"""The outcome of one attempt at a request, as a value that can be landed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from firmlake.api.requests import Request
from firmlake.core.settings import NameSettings
from firmlake.core.text import one_line

_KEPT = re.compile(r"content-(type|language)|location|retry-after|date|x-request-id|(x-)?rate-?limit(-[a-z-]+)?")
_ABOUT_CREDITS = re.compile(r"[a-z-]*(credit|quota|balance|charge|cost|consum|saldo|solde|tegoed)[a-z-]*")
_NAME_LENGTH_MAX = 100
_HEADER_LENGTH_MAX = 256
"""Longest header value kept; legitimate values have a few dozen characters."""

Failure = Literal["", "unreachable", "untrusted", "timeout", "broken", "body"]
"""Why an answer is missing or incomplete: no connection, a certificate that cannot be verified, too late, a connection
that ended early, or a body that cannot be used."""


class Answer(msgspec.Struct, frozen=True):
    """One finished attempt, with an answer of any status or without an answer.

    `body` is what was received: decompressed, without byte order mark, and converted to UTF-8 from a declared charset;
    of a truncated body, the part that arrived.
    """

    request: Request
    attempt: int  # from 1
    status: int | None  # None if no complete response head arrived
    error: str  # why the answer is missing or incomplete, as a sentence; empty if it is complete
    headers: dict[str, str]  # those we keep, names in lower case, without secrets
    body: bytes
    fetched_at: datetime  # end of the attempt, UTC
    duration_seconds: float  # from sending to the last byte
    wire_bytes: int  # length of the body as sent, before decompression
    failure: Failure = ""  # the code of `error`; empty if the answer is complete

    @property
    def is_success(self) -> bool:
        """Whether the answer is complete and its status means success."""
        return not self.error and is_success(self.status)

    @property
    def is_throttled(self) -> bool:
        """Whether the service refuses for now: status 429 or, if a gateway enforces a quota, 403 with `Retry-After`."""
        return self.status == 429 or (self.status == 403 and "retry-after" in self.headers)

    @property
    def wants_slash(self) -> bool:
        """Whether it redirects to its own path with a slash. Later requests of a connection end with one."""
        is_redirect = self.status is not None and 300 <= self.status < 400
        return is_redirect and self.headers.get("location", "").endswith(self.request.path + "/")

    @property
    def is_busy(self) -> bool:
        """Whether the service is overloaded or down (503), or its rate limiter refuses in this way."""
        return self.status == 503

    def __repr__(self) -> str:
        state = self.error or str(self.status)
        return f"<Answer {state} to {self.request!r} attempt={self.attempt} bytes={len(self.body)}>"


def is_success(status: int | None) -> bool:
    """Return whether a status means success; some services answer a bulk request with 207."""
    return status is not None and 200 <= status < 300


def choose_headers(headers: Mapping[str, str], names: NameSettings) -> dict[str, str]:
    """Select the headers about the answer, the rate limit and the credits, by name in lower case.

    Values hold no secrets and no control characters, are cut to 256 characters, and a redirect's target loses its
    parameters.
    """
    credits = {names.credits_charged_header.lower(), names.credits_remaining_header.lower()}
    return {
        name: one_line(without_query(value) if name == "location" else value, _HEADER_LENGTH_MAX)
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if name in credits or (len(name) <= _NAME_LENGTH_MAX and (_KEPT.fullmatch(name) or is_about_credits(name)))
    }


def is_about_credits(header: str) -> bool:
    """Return whether the name of a header, in lower case, suggests that it is about credits or a quota."""
    return bool(_ABOUT_CREDITS.fullmatch(header))


def without_query(location: str) -> str:
    """Return a redirect's target without user and parameters, which may be secrets."""
    try:
        parts = urlsplit(location)
        host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.hostname else ""
    except ValueError:
        return "an address that cannot be read"
    return host + parts.path


def read_credits(text: str) -> int | None:
    """Read a number of credits from the value of a header; None if there is none.

    Example:
        >>> [read_credits(text) for text in ("24.00", "0.5", "9,958.00", "12 credits", "many")]
        [24, 1, 9958, 12, None]
    """
    found = _CREDITS.match(text)
    return int(re.sub("[^0-9]", "", found[1])) + bool((found[2] or "").strip("0")) if found else None


_CREDITS = re.compile(r"\s*([0-9]{1,3}(?:[,_' ][0-9]{3}){1,4}|[0-9]{1,15})(?:[.,]([0-9]{1,15}))?(?![0-9.]|[,_'][0-9])")
"""Digits, also in groups of three, decimals if any, and perhaps a word such as `credits`."""
