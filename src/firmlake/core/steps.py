"""Named steps: what an orchestration is made of, and what Prefect shows as its tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

__all__ = ["Step", "at_once", "utc_now"]

R = TypeVar("R")


class Step(Protocol):
    """Carries out one step of some work, and may show it to somebody."""

    def __call__(self, name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:
        """Carry out a step.

        Args:
            name: What a person reads.
            work: Does it.
            describe: Says in one line what came of it; None says nothing.

        Returns:
            What `work` returned.

        Raises:
            Exception: What `work` raised.
        """


def at_once(name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:  # noqa: ARG001
    """Carry out a step and show it to nobody."""
    return work()


def utc_now() -> datetime:
    """Give the time of day, UTC."""
    return datetime.now(UTC)
