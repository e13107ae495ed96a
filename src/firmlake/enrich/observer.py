"""What a run tells whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from firmlake.core.steps import at_once

if TYPE_CHECKING:
    from firmlake.api.exchange import Answer
    from firmlake.core.settings import NameSettings
    from firmlake.enrich.plan import Planned
    from firmlake.enrich.run import Published
    from firmlake.exports.list_file import Written

__all__ = ["Observer"]

R = TypeVar("R")


class Observer:
    """Follows a run. This one shows nothing to anybody; override what you want to see.

    Steps of shards are carried out in threads, everything else in the thread that started the run.
    """

    def step(self, name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:
        """Carry out one step of the run; see `firmlake.core.steps.Step`."""
        return at_once(name, work, describe)

    def planned(self, planned: Planned, title: str) -> None:
        """Look at a plan before anything is asked.

        Args:
            planned: It names no company where there is nobody to ask.
            title: Which step outward it is for; empty for the company list itself.
        """

    def fetching(self, expected: int, names: NameSettings) -> AbstractContextManager[Callable[[Answer], object]]:  # noqa: ARG002
        """Follow how far fetching is, while the context is open.

        Args:
            expected: About how many requests it takes.
            names: The headers that tell credits.

        Returns:
            What is called after each answer has landed, from any thread.
        """
        return nullcontext(lambda answer: None)

    def waiting(self, why: str) -> None:
        """Look at what fetching waits for and why, from any thread; an empty text says that it goes on."""

    def fetched(self, stopped: str) -> None:
        """Look at how fetching ended: `stopped` says why before its end, and is empty where it did not."""

    def published(self, published: Published) -> None:
        """Look at what a run came to."""

    def written(self, written: Written) -> None:
        """Look at the file that the list was written to."""
