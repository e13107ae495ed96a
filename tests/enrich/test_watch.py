"""A run that has stalled ends itself, and says so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from firmlake.core.errors import InterruptedRunError, Stopped
from firmlake.enrich.shards import Watch, work_watched


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_sign_of_life_keeps_it_going_and_zero_never_ends_it(tmp_path: Path):
    clock, stop = Clock(), threading.Event()
    watch, never = Watch(30, tmp_path, clock), Watch(0, tmp_path, clock)
    for minute in range(0, 100, 29):
        clock.now = minute * 60
        watch.check(stop)
        never.check(stop)
        watch.note()
    assert not stop.is_set()
    clock.now += 31 * 60
    watch.check(stop)
    watch.close()
    assert stop.is_set()
    assert never.error is None
    assert str(watch.error).startswith("The run stalled: nothing arrived for 30 minutes")


def test_its_threads_are_stopped_and_the_run_says_why(tmp_path: Path):
    clock, stop = Clock(), threading.Event()
    watch = Watch(1, tmp_path, clock)

    def hang() -> None:
        clock.now = 100.0
        assert stop.wait(60)
        raise InterruptedRunError("Interrupted")

    with pytest.raises(Stopped, match="stalled"):
        work_watched(hang, stop, watch)
    watch.close()
