"""When retries are too many and when a service is left alone."""

import pytest

from firmlake.api.retry import CircuitBreaker
from firmlake.core.errors import ServiceError


@pytest.fixture
def breaker(time):
    return CircuitBreaker(time.clock, lambda: 1.0, failures_max=3, patience_seconds=120)


def fail(breaker, times):
    for _ in range(times):
        breaker.failed("status 503")


def seconds_to_enter(breaker, time):
    before = time.now
    breaker.enter(time.sleep)
    return time.now - before


def test_some_failures_in_a_row_change_nothing(breaker, time):
    for _ in range(5):
        fail(breaker, 2)
        breaker.succeeded()
    assert seconds_to_enter(breaker, time) == 0
    assert not breaker.is_open


def test_open_it_lets_one_probe_through_after_pauses_that_double(breaker, time):
    fail(breaker, 3)
    assert breaker.is_open
    assert [seconds_to_enter(breaker, time) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_failures_of_requests_under_way_do_not_lengthen_the_pause(breaker, time):
    fail(breaker, 10)
    assert seconds_to_enter(breaker, time) == 1


def test_of_all_waiting_threads_one_goes_out_at_a_time(breaker, time):
    fail(breaker, 3)
    began, entered = time.now, []

    def work():
        breaker.enter(time.sleep)
        entered.append(time.now - began)

    time.run(*[work] * 4)
    assert entered == [1, 3, 7, 15]


def test_one_success_closes_it_and_ends_the_waiting(breaker, time):
    fail(breaker, 3)
    breaker.enter(time.sleep)
    breaker.succeeded()
    assert not breaker.is_open
    assert seconds_to_enter(breaker, time) == 0
    fail(breaker, 3)
    assert seconds_to_enter(breaker, time) == 1, "pauses begin anew"


def test_a_probe_that_is_answered_closes_it_and_one_that_is_not_lengthens_the_pause(breaker, time):
    fail(breaker, 3)
    before, said = time.now, iter(["status 503", "status 503", ""])
    breaker.enter(time.sleep, lambda: next(said))
    assert not breaker.is_open
    assert breaker.failed_probe_count == 2
    assert time.now - before == 1 + 2 + 4


def test_it_gives_up_in_the_end_and_says_what_failed(breaker, time):
    fail(breaker, 3)
    (error,) = time.run(lambda: [breaker.enter(time.sleep) for _ in range(100)])
    assert isinstance(error, ServiceError)
    assert "for 2 minutes: status 503" in str(error)
    assert time.now - 1000 < 160
