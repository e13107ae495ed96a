"""Clocks: an argument of functions that need the time, so that tests never wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the time in UTC."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
