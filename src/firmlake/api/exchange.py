"""What came of one attempt at a request, as a value that can be landed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from firmlake.api.address import without_query
from firmlake.api.requests import Request
from firmlake.core.settings import NameSettings
from firmlake.core.text import one_line

__all__ = ["Answer", "choose_headers"]

_KEPT = re.compile(
    r"content-type|location|retry-after|date|x-request-id|(x-)?rate-?limit(-[a-z-]+)?|[a-z-]*(credit|quota)[a-z-]*"
)
_HEADER_LENGTH_MAX = 256
"""An honest value of these headers has some tens of characters."""


class Answer(msgspec.Struct, frozen=True):
    """One attempt that ended, with an answer of any status or with none.

    Attributes:
        request: What was asked.
        attempt: Which attempt at it, from 1.
        status: HTTP status; None when no complete head of an answer came.
        error: What went wrong on the way; empty when the answer is complete. Begins with `unreachable:`, `untrusted:`,
            `timeout:`, `broken:` or `body:`.
        headers: The chosen ones, names in lower case; never a secret.
        body: As received, without its content encoding and byte order mark; what there is of it when it was cut.
        fetched_at: When the attempt ended, UTC.
        duration_seconds: From sending to the last byte.
        wire_bytes: Length of the body as sent, before its content encoding was removed.
    """

    request: Request
    attempt: int
    status: int | None
    error: str
    headers: dict[str, str]
    body: bytes
    fetched_at: datetime
    duration_seconds: float
    wire_bytes: int

    def __repr__(self) -> str:
        state = self.error or str(self.status)
        return f"<Answer {state} to {self.request!r} attempt={self.attempt} bytes={len(self.body)}>"


def choose_headers(headers: Mapping[str, str], names: NameSettings) -> dict[str, str]:
    """Keep the headers that say something about the answer, the rate limit and the credits.

    Returns:
        Names in lower case to values without secrets and control characters, cut to 256 characters; of a redirect's
        target only what holds no parameters.
    """
    credits = {names.credits_charged_header.lower(), names.credits_remaining_header.lower()}
    return {
        name: one_line(without_query(value) if name == "location" else value, _HEADER_LENGTH_MAX)
        for name, value in ((name.lower(), value) for name, value in headers.items())
        if name in credits or _KEPT.fullmatch(name)
    }
