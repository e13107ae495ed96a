"""The clock of this machine, the default where a function takes a clock as an argument."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
