"""Progress on stderr while a run fetches: a bar on a terminal, otherwise a line every 5 to 60 seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from firmlake.api.exchange import Answer, read_credits
from firmlake.api.requests import Request
from firmlake.core.settings import ApiSettings
from firmlake.core.text import count_of, duration, redact, shown
from firmlake.terminal.echo import echo

_LINES_APART, _LINES_APART_AT_MOST = 5.0, 60.0
"""Seconds between two lines. A tenth of the time so far is enough: hours of lines would fill a mail of cron."""
_LEFT_AT_LEAST = 1.0
"""The lowest estimate of the seconds left, as long as answers are missing."""


class Counter:
    """Counts answers from any thread, and describes the progress.

    Args:
        expected: The number of requests, or of `unit`, that the plan expects.
        api: The allowance, and the names of the response headers that report credits.
        unit: What to count instead of requests; the caller then passes the number done to `count`.
        clock: Returns seconds.

    Attributes:
        why: Why fetching waits; empty while it does not wait.
    """

    def __init__(
        self, expected: int, api: ApiSettings, unit: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.expected = expected
        self.done = 0
        self.why = ""
        self._unit = unit
        self._per_minute = 0 if unit else api.requests_per_minute  # the allowance counts requests only
        self._sent = self._answered = self._repeated = 0
        self._failed = set[Request]()
        self._charged_header = api.names.credits_charged_header.lower()
        self._remaining_header = api.names.credits_remaining_header.lower()
        self._credits: int | None = None
        self._remaining: int | None = None
        self._clock = clock
        self._began = self._last = clock()
        self._lock = threading.Lock()

    def count(self, answer: Answer, done: int | None = None) -> None:
        """Count one answer. `done` is the number of units done so far; None counts successful answers."""
        with self._lock:
            self._sent += 1
            self._answered += answer.is_success
            self._repeated += answer.attempt > 1
            (self._failed.discard if answer.is_success else self._failed.add)(answer.request)
            self.done = self._answered if done is None else done
            self._last = self._clock()
            charged = read_credits(answer.headers.get(self._charged_header, ""))
            self._credits = self._credits if charged is None else (self._credits or 0) + charged
            remaining = read_credits(answer.headers.get(self._remaining_header, ""))
            self._remaining = self._remaining if remaining is None else remaining

    def line(self) -> str:
        """Describe the reason for waiting, the time left and the progress, in this order of importance."""
        if self.done > self.expected:
            of = f"{self.done:,} {self._unit or 'requests'}, more than the {self.expected:,} expected"
        else:
            of = f"{self.done:,} of {'' if self._unit else 'about '}{self.expected:,} {self._unit or 'requests'}"
        parts = [of, *self._parts()]
        left = self.seconds_left()
        is_known = left > (_LEFT_AT_LEAST if self.why else 0)  # the reason for waiting says until when
        line = ", ".join([f"{duration(left)} to go", *parts] if is_known else parts)
        return f"{self.why}; {line}" if self.why else line

    def seconds_left(self) -> float:
        """Estimate the time left at the measured pace or the allowance, whichever is slower; 0 if unknown.

        The estimate goes down even while no answer arrives, as between a burst and the next window of the allowance.
        """
        pace = self.seconds() / self.done if self.done else 0.0
        allowed = 60 / self._per_minute if self._per_minute else 0.0
        left = max(self.expected - self.done, 0) * max(pace, allowed)
        return max(left - (self._clock() - self._last), _LEFT_AT_LEAST) if left else 0.0

    def share(self) -> float:
        """Return the share done. It stays below 1, because more requests may come than expected."""
        return min(self.done / max(self.expected, 1), 0.99)

    def summary(self) -> str:
        """Describe the totals at the end."""
        return ", ".join([f"{count_of(self._sent, 'request')} in {duration(self.seconds())}", *self._parts()])

    def seconds(self) -> float:
        """Return the time so far."""
        return max(self._clock() - self._began, 1e-3)

    def _parts(self) -> Iterator[str]:
        requests = " requests" if self._unit else ""
        pace = self._sent / self.seconds() * 60
        if not (self.why or 0 < self._per_minute < pace):  # right after a burst, the mean exceeds the allowance
            yield f"{pace:,.0f}{requests} a minute"
        yield from [f"{self._repeated:,} sent again"] if self._repeated else []
        yield from [f"{len(self._failed):,} failed or refused"] if self._failed else []
        spent = "" if self._credits is None else f"{count_of(self._credits, 'credit')} spent"
        left = "" if self._remaining is None else f"{self._remaining:,} left"
        if self._credits or left:
            yield " and ".join(filter(None, (spent, left)))


@contextmanager
def show_progress(counter: Counter) -> Iterator[None]:
    """Show a bar on a terminal, otherwise a line every 5 to 60 seconds."""
    stop = threading.Event()
    show = _show_bar if sys.stderr.isatty() else _show_lines
    thread = threading.Thread(target=show, args=(counter, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _show_lines(counter: Counter, stop: threading.Event) -> None:
    said = ""
    while not stop.wait(min(max(counter.seconds() / 10, _LINES_APART), _LINES_APART_AT_MOST)):
        if (line := counter.line()) != said:
            echo(line, err=True)
        said = line


def _show_bar(counter: Counter, stop: threading.Event) -> None:
    # The text wraps on a narrow terminal; text from outside is not markup.
    text = TextColumn(
        "{task.percentage:>3.0f} %  {task.description}", markup=False, table_column=Column(no_wrap=False, ratio=1)
    )
    columns = BarColumn(bar_width=10), text
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        while not stop.wait(0.1):
            progress.update(task, completed=counter.share(), description=shown(redact(counter.line())))
