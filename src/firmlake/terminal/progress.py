"""Progress on stderr while a run fetches: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from firmlake.api.exchange import Answer
from firmlake.core.settings import NameSettings
from firmlake.terminal.echo import echo

__all__ = ["Counter", "duration", "show_progress"]

_LINE_EVERY_SECONDS = 5.0


class Counter:
    """Counts answers from any thread, and describes the progress.

    Args:
        expected: The number of requests, or of `unit`, that the plan expects.
        names: The names of the response headers that report credits.
        unit: What is counted instead of requests; `count` is then told how many are done.

    Attributes:
        why: Why fetching waits; empty while it does not wait.
    """

    def __init__(self, expected: int, names: NameSettings, unit: str = "") -> None:
        self.expected = expected
        self.done = 0
        self.why = ""
        self._unit = unit
        self.answered = 0
        self.repeated = 0
        self._charged_header = names.credits_charged_header.lower()
        self._remaining_header = names.credits_remaining_header.lower()
        self._credits = 0
        self._remaining = ""
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def count(self, answer: Answer, done: int | None = None) -> None:
        """Count one answer. `done` is the number of units done so far; None counts successful answers."""
        is_good = answer.status == 200 and not answer.error
        with self._lock:
            self.answered += is_good
            self.repeated += not is_good
            self.done = self.answered if done is None else done
            charged = answer.headers.get(self._charged_header, "")
            self._credits += int(charged) if charged.isascii() and charged.isdigit() else 0
            self._remaining = answer.headers.get(self._remaining_header, self._remaining)

    def line(self) -> str:
        """Describe the progress and the time left."""
        left = max(self.expected - self.done, 0) * self._seconds() / max(self.done, 1)
        of = f"{self.expected:,} {self._unit}" if self._unit else f"about {self.expected} requests"
        parts = [f"{self.done} of {of}", *self._parts()]
        # The time left comes first, since a narrow terminal cuts off the end.
        line = ", ".join([f"{duration(left)} to go", *parts] if self.done else parts)
        return f"{line}; {self.why}" if self.why else line

    def summary(self) -> str:
        """Describe the totals at the end."""
        return ", ".join([f"{self.answered} requests in {duration(self._seconds())}", *self._parts()])

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)

    def _parts(self) -> Iterator[str]:
        requests = " requests" if self._unit else ""
        yield f"{(self.answered + self.repeated) / self._seconds() * 60:,.0f}{requests} a minute"
        if self.repeated:
            yield f"{self.repeated} failed or refused"
        if self._credits or self._remaining:
            yield f"{self._credits} credits spent" + (f" and {self._remaining} left" if self._remaining else "")


@contextmanager
def show_progress(counter: Counter) -> Iterator[None]:
    """Show a bar on a terminal, otherwise a line every few seconds."""
    stop = threading.Event()
    show = _show_bar if sys.stderr.isatty() else _show_lines
    thread = threading.Thread(target=show, args=(counter, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# ---------------------------------------------------------------------------------------------------------------------


def _show_lines(counter: Counter, stop: threading.Event) -> None:
    while not stop.wait(_LINE_EVERY_SECONDS):
        echo(counter.line(), err=True)


def _show_bar(counter: Counter, stop: threading.Event) -> None:
    columns = BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f} %  {task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=max(counter.expected, 1))
        while not stop.wait(0.1):
            total = max(counter.expected, counter.done, 1)
            progress.update(task, completed=counter.done, total=total, description=counter.line())
