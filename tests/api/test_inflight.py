"""Requests in flight follow the latency of the service, in simulated time."""

import heapq
import random
import statistics

import pytest

from firmlake.api.inflight import InFlight


def simulate(time, threads, workers, needs_seconds):
    """Let threads ask a service that has some workers; give seconds for each answer and the bound after each."""
    gate, chance, free, end = InFlight(threads), random.Random(3), [time.now] * workers, time.now + 60
    took, bounds = [], []

    def work():
        while time.now < end:
            gate.enter(time.sleep)
            began = time.now
            done = max(heapq.heappop(free), began) + needs_seconds(chance)
            heapq.heappush(free, done)
            time.sleep(done - began)
            gate.leave("financials", time.now - began)
            took.append(time.now - began)
            bounds.append(gate.limit)

    assert time.run(*[work] * threads) == [None] * threads
    return took, bounds


def test_the_first_request_goes_alone_until_it_is_answered():
    gate, waits = InFlight(8), []

    def answer_after_three(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            gate.leave("financials", 0.5)

    gate.enter(answer_after_three)
    gate.enter(answer_after_three)
    assert (len(waits), gate.limit) == (3, 2)


def test_refusals_teach_nothing():
    gate = InFlight(8)
    for _ in range(50):
        gate.enter(pytest.fail)
        gate.leave("financials", None)
    assert gate.limit == 1


def leave_all(gate, seconds, times, endpoint="financials"):
    for _ in range(times):
        gate.enter(pytest.fail)
        gate.leave(endpoint, seconds)


def test_a_service_that_keeps_its_pace_gets_all_threads():
    gate = InFlight(8)
    leave_all(gate, 0.3, 200)
    assert gate.limit == 8


def test_single_late_answers_change_nothing():
    gate = InFlight(8)
    for _ in range(60):
        leave_all(gate, 0.3, 9)
        leave_all(gate, 2.0, 1)
    assert gate.limit == 8


def test_answers_twice_as_slow_take_requests_back_until_one_alone_shows_what_is_usual_now():
    gate, bounds = InFlight(8), []
    leave_all(gate, 0.3, 200)
    for _ in range(400):
        leave_all(gate, 0.7, 1)
        bounds.append(gate.limit)
    assert sorted(set(bounds[: bounds.index(1)]), reverse=True) == [8, 6, 4, 3, 2]
    assert bounds[-1] == 8


def test_each_endpoint_has_its_own_usual_time():
    gate = InFlight(8)
    for _ in range(200):
        leave_all(gate, 0.1, 1, "lookalikes")
        leave_all(gate, 2.0, 1, "financials")
    assert gate.limit == 8


def test_an_overloaded_service_answers_sooner_and_no_less(time):
    """Two workers, twelve threads: all at once would wait six times as long as needed."""
    took, bounds = simulate(time, 12, 2, lambda chance: 0.3 * chance.lognormvariate(0, 0.3))
    later = took[len(took) // 2 :]
    assert statistics.median(later) < 0.75
    assert len(took) > 0.95 * 60 * 2 / 0.3138
    assert statistics.mean(bounds) < 5
