"""The observer that shows a run at the command line, and the exit code of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from firmlake.cli.call import Call
from firmlake.core.errors import EXIT_DONE
from firmlake.enrich.observer import Observer
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from firmlake.core.settings import ApiSettings
    from firmlake.delivery.list_file import Written
    from firmlake.enrich.observer import Published
    from firmlake.enrich.plan import Planned


class OnTerminal(Observer):
    """Prints the plan, draws the progress of fetching, and prints the summary.

    Args:
        call: The command.
        list_name: The name of the list in the warehouse; empty takes the name of its file.
    """

    def __init__(self, call: Call, list_name: str = "") -> None:
        self._call = call
        self._list_name = list_name
        self._is_resumed = False

    def planned(self, planned: Planned, title: str) -> None:
        """Print what was read from the list, and what the run will fetch and cost."""
        from firmlake.intake.lines import list_name_of
        from firmlake.terminal.plan import describe_list, describe_plan, describe_refused

        self._is_resumed = planned.unfinished is not None
        if title:
            self._call.say(f"\n{title}:")
        if planned.companies.companies.is_empty():
            self._call.show(lambda: echo("There is nothing to fetch"))
            return
        name = self._list_name or list_name_of(planned.companies.path)
        refused = describe_refused(planned.companies, name)
        for line in (*describe_list(planned.companies), *refused, *describe_plan(planned)):
            self._call.say(line)

    @contextmanager
    def fetching(self, expected: int, api: ApiSettings) -> Iterator[Callable[[Any], object]]:
        """Draw a progress bar, or print a line every 5 to 60 seconds."""
        from firmlake.terminal.progress import Counter, show_progress

        self._counter = Counter(expected, api)
        with show_progress(self._counter):
            yield self._counter.count

    def waiting(self, why: str) -> None:
        """Show why fetching waits, beside the progress."""
        self._counter.why = why

    def advised(self, advice: str) -> None:
        """Print which settings were found."""
        self._call.say(advice)

    def fetched(self, stopped: str) -> None:  # noqa: ARG002
        """Print the number of requests, their duration and the credits."""
        self._call.say(f"Fetched{' now' if self._is_resumed else ''}: {self._counter.summary()}")

    def published(self, published: Published) -> None:
        """Print the summary of a run; what it left undone comes last, see `answer`."""
        from firmlake.terminal.runs import show_summary

        self._call.show(partial(show_summary, published.summary, published.failed, is_resumed=self._is_resumed))

    def priced(self, planned: Planned) -> None:
        """Print what the rest of the list will cost, after a sample of it."""
        from firmlake.terminal.plan import describe_prices

        self._call.say("\nThe rest of the list, judged by what was fetched so far:")
        for line in describe_prices(planned, self._call.settings().run.credit_price):
            self._call.say(line)

    def written(self, written: Written) -> None:
        """Print which file was written, and which columns had to be renamed in it."""
        from firmlake.terminal.company_lists import describe_written

        for line in describe_written(written):
            self._call.say(line)


def answer(call: Call, published: Sequence[Published], *, has_steps: bool = False) -> int:
    """Print published runs as JSON if `--json` is set, then the most serious shortfall, and return its exit code.

    The last line on stderr says what happened, even after `--out` has named its file.

    Args:
        call: The command.
        published: The runs.
        has_steps: Whether there may be several runs because of `--expand`; the JSON is then a list.
    """
    import msgspec

    from firmlake.enrich.run import shortfall
    from firmlake.report.summary import summary_of_nothing
    from firmlake.warehouse.lists import held_name

    # `list_name` of a summary is the file that was read, `company_list` the name of the list in the warehouse.
    summaries = [{**msgspec.structs.asdict(each.summary), "company_list": held_name(each.run)} for each in published]
    if has_steps:
        content: Any = {"runs": summaries}
    else:
        content = summaries[0] if summaries else {**summary_of_nothing(), "company_list": ""}
    call.answer(content, lambda: None)
    error = shortfall(published)
    if error:
        call.say(f"firmlake: {error}")
    return error.exit_code if error else EXIT_DONE
