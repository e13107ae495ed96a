"""What a run yields to its caller, in order: steps to carry out and events to show; and how a caller follows it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from firmlake.api.exchange import Answer
from firmlake.core.settings import ApiSettings, Settings
from firmlake.core.work import CarryOut, at_once
from firmlake.delivery.list_file import Written
from firmlake.enrich.plan import Planned
from firmlake.landing.run import Outcome, Run
from firmlake.report.summary import FailureGroup, RunSummary

R = TypeVar("R")


class Step(NamedTuple):
    """A step to carry out, plainly or as a task of Prefect; see `CarryOut`. The run goes on with its result."""

    name: str
    work: Callable[[], Any]
    describe: Callable[[Any], str] | None = None


class PlanMade(NamedTuple):
    """A plan, before its first request. It holds no company if there is nothing to ask for."""

    planned: Planned
    title: str  # the expansion step that the plan is for; empty for the company list itself


class Fetching(NamedTuple):
    """The beginning of fetching. The run goes on with a `Counter`, or None."""

    expected: int  # estimated number of requests
    api: ApiSettings  # the allowance, and the names of the response headers that report credits


class Fetched(NamedTuple):
    """The end of fetching, with the reason if it stopped early."""

    stopped: str


class Advice(NamedTuple):
    """A sentence about the settings that a first contact found."""

    text: str


class Published(NamedTuple):
    """The result of a published run, or of one that had nothing to load."""

    run: Run  # if it had nothing to load, the last published run of the same list
    outcome: Outcome
    summary: RunSummary
    failed: list[FailureGroup]  # the companies that failed, grouped by dataset and reason; the ten largest groups
    settings: Settings  # of the run: those given, changed by what a first contact found


class Priced(NamedTuple):
    """What the rest of a list will cost, after a sample of it: `planned.prices`."""

    planned: Planned


Event = PlanMade | Fetching | Fetched | Advice | Published | Priced | Written
"""`Written` is the file that the list was written to."""
Steps = Generator[Step | Event, Any, R]
"""A run, or a part of it: yields steps and events, and returns its result."""
Show = Callable[[Event], Any]
"""Shows an event; returns a `Counter`, or None, for `Fetching`."""


class Counter:
    """Follows the progress of fetching, from any thread; this one shows nothing.

    `why` says why fetching waits, if it does.
    """

    why = ""

    def count(self, answer: Answer) -> None:
        """Count an answer that has landed."""


def say_nothing(event: Event) -> None:
    """Show an event to nobody."""


def follow(run: Steps[R], show: Show = say_nothing, carry_out: CarryOut = at_once) -> R:
    """Carry out the steps of a run and show its events, to its end, and return its result.

    It raises what the run raised, or what a step raised and the run did not handle.
    """
    todo = list[Step | Event]()  # emptied before the run goes on, because plans and shards take hundreds of MB
    try:
        todo.append(next(run))
        while True:
            try:
                result = _act(todo.pop(), show, carry_out)
            except BaseException as error:  # a signal too: the run decides what becomes of its answers
                todo.append(run.throw(error))
            else:
                todo.append(run.send(result))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _act(asked: Step | Event, show: Show, carry_out: CarryOut) -> Any:
    return carry_out(*asked) if isinstance(asked, Step) else show(asked)
