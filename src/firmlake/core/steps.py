"""Named steps of a run; under Prefect each becomes a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

R = TypeVar("R")


class CarryOut(Protocol):
    """Carries out one step, and may display it."""

    def __call__(self, name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:
        """Carry out a step.

        Args:
            name: The step's name for people.
            work: The function to call.
            describe: Makes a one-line description of the result; None shows no description.

        Returns:
            What `work` returned.

        Raises:
            Exception: What `work` raised.
        """


def at_once(name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:  # noqa: ARG001
    """Carry out a step without displaying it."""
    return work()
