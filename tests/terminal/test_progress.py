"""The progress of fetching: why it waits, how long it takes at least, and never more than everything."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from firmlake.core.settings import ApiSettings
from firmlake.terminal import progress
from firmlake.terminal.progress import Counter

REASON = "the service allows 200 requests a minute and these are used up; the next request is sent at 12:34:56 UTC"


def answer(request=0, attempt=1, is_success=True, **headers):
    return SimpleNamespace(is_success=is_success, error="", headers=headers, request=request, attempt=attempt)


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def counter_after(seconds, requests, expected=1200, per_minute=200, idle=0):
    clock = Clock()
    counter = Counter(expected, ApiSettings(requests_per_minute=per_minute), clock=clock)
    clock.seconds = seconds - idle
    for _ in range(requests):
        counter.count(answer())
    clock.seconds = seconds
    return counter


def test_the_reason_for_waiting_comes_first():
    counter = counter_after(3, 200)
    assert counter.line().startswith("5 min to go, 200 of about 1,200 requests")
    counter.why = REASON
    assert counter.line().startswith(REASON)
    assert "a minute," not in counter.line().removeprefix(REASON), "a rate above the allowance looks like a breach"


def test_a_rate_above_the_allowance_is_not_told():
    assert "a minute" not in counter_after(2, 117).summary()
    assert counter_after(60, 117).summary() == "117 requests in 60 s, 117 a minute"
    assert "120 a minute" in counter_after(50, 100, per_minute=0).summary(), "without an allowance there is none above"


def test_each_request_sent_counts_once_and_one_that_was_answered_in_the_end_did_not_fail():
    counter = counter_after(60, 0)
    for request, attempt, is_good in ((1, 1, False), (2, 1, True), (1, 2, False), (2, 2, True), (3, 1, False)):
        counter.count(answer(request, attempt, is_good))
    assert counter.summary() == "5 requests in 60 s, 5 a minute, 2 sent again, 2 failed or refused"
    counter.count(answer(1, 3))
    assert counter.summary() == "6 requests in 60 s, 6 a minute, 3 sent again, 1 failed or refused"
    assert counter.done == 3, "of those expected"


def test_while_a_run_waits_no_line_promises_the_end_in_a_second_or_comes_twice(monkeypatch):
    lines, waits = [], iter([False, False, True])
    counter = counter_after(50, 119, expected=120, idle=40)
    counter.why = REASON
    monkeypatch.setattr(progress, "echo", lambda line, err: lines.append(line))
    progress._show_lines(counter, SimpleNamespace(wait=lambda _seconds: next(waits)))
    assert lines == [f"{REASON}; 119 of about 120 requests"]


@pytest.mark.parametrize(("seconds", "apart"), [(3, 5), (300, 30), (9000, 60)])
def test_lines_of_a_long_run_come_less_often(seconds, apart):
    waits = []
    progress._show_lines(counter_after(seconds, 1), SimpleNamespace(wait=lambda wait: waits.append(wait) or True))
    assert waits == [apart]


def test_credits_left_have_separators_and_another_text_is_not_taken_for_them():
    counter = counter_after(60, 1)
    for left in ("1999948", "plenty"):
        counter.count(answer(**{"x-credits-remaining": left}))
    assert counter.summary().endswith("1,999,948 left")


@pytest.mark.parametrize(
    ("seconds", "requests", "per_minute", "idle", "left"),
    [
        (2, 200, 200, 0, 300),  # a burst does not promise more than the allowance
        (59, 200, 200, 57, 243),  # while the allowance is used up, the time left goes down
        (400, 1199, 200, 30, 1),  # but is never over
        (600, 600, 200, 0, 600),  # a slow service is measured
        (2, 200, 0, 0, 10),  # no allowance
        (50, 0, 200, 0, 310),  # nothing answered yet
        (50, 0, 0, 0, 0),
    ],
)
def test_the_time_left_is_that_of_the_slower_of_measured_pace_and_allowance(seconds, requests, per_minute, idle, left):
    assert counter_after(seconds, requests, per_minute=per_minute, idle=idle).seconds_left() == pytest.approx(left)


def test_more_requests_than_expected_are_neither_more_than_everything_nor_the_end():
    counter = counter_after(10, 4, expected=3)
    assert counter.share() < 1
    assert counter.line().startswith("4 requests, more than the 3 expected")


def test_the_reason_is_on_a_screen_of_80_columns(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, width=80, force_terminal=True))
    counter = counter_after(3, 200)
    counter.why = f"{REASON} [bold]\x1b[2J"

    class Twice:
        left = 2

        def wait(self, _seconds):
            self.left -= 1
            return self.left < 0

    progress._show_bar(counter, Twice())
    drawn = " ".join(screen.getvalue().split())
    for word in (*REASON.split(), "[bold]\\x1b[2J", "to", "go"):
        assert word in drawn
