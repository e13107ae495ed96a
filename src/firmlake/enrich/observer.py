"""The observer of a run: the callbacks through which a run reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from firmlake.core.steps import at_once

if TYPE_CHECKING:
    from firmlake.api.exchange import Answer
    from firmlake.core.settings import ApiSettings, Settings
    from firmlake.delivery.list_file import Written
    from firmlake.enrich.plan import Planned
    from firmlake.landing.run import Outcome, Run
    from firmlake.report.summary import FailureGroup, RunSummary

R = TypeVar("R")


class Published(NamedTuple):
    """The result of a published run, or of one that had nothing to load.

    Attributes:
        run: The run; if it had nothing to load, the last published run of the same list.
        failed: The companies that failed, grouped by dataset and reason; the ten largest groups.
        settings: The settings of the run; those given, changed by what a first contact found.
    """

    run: Run
    outcome: Outcome
    summary: RunSummary
    failed: list[FailureGroup]
    settings: Settings


class Observer:
    """Follows a run. This class shows nothing; override the methods whose events you want to show.

    The steps of shards run in worker threads. Everything else runs in the thread that started the run.
    """

    def step(self, name: str, work: Callable[[], R], describe: Callable[[R], str] | None = None) -> R:
        """Carry out one step of the run; see `firmlake.core.steps.Step`."""
        return at_once(name, work, describe)

    def planned(self, planned: Planned, title: str) -> None:
        """Receive the plan before the first request.

        Args:
            planned: The plan. It holds no company if there is nothing to ask for.
            title: The expansion step that the plan is for; empty for the company list itself.
        """

    def fetching(self, expected: int, api: ApiSettings) -> AbstractContextManager[Callable[[Answer], object]]:  # noqa: ARG002
        """Follow the progress of fetching while the context is open.

        Args:
            expected: Estimated number of requests.
            api: The allowance, and the names of the response headers that report credits.

        Returns:
            A context manager that yields a callback. The callback is called from any thread after each landed answer.
        """
        return nullcontext(lambda answer: None)

    def waiting(self, why: str) -> None:
        """Receive, from any thread, the reason why fetching waits; an empty text means that it has resumed."""

    def advised(self, advice: str) -> None:
        """Receive a sentence about the settings that a first contact found."""

    def fetched(self, stopped: str) -> None:
        """Receive the end of fetching. `stopped` is the reason if fetching stopped early, else empty."""

    def published(self, published: Published) -> None:
        """Receive the result of a published run."""

    def priced(self, planned: Planned) -> None:
        """Receive, after a sample, what the rest of its list will cost: `planned.prices`."""

    def written(self, written: Written) -> None:
        """Receive the file that the list was written to."""
