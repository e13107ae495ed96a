"""A forecast says what a run would wait for, in its words, and leaves the state as it is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.throttle.throttle import forecast
from firmlake.api.throttle.window import SECOND, Window, answered, take

NOW = 10_000 * SECOND
LIMIT = 20


def used(seconds_ago: float, count: int = LIMIT) -> Window:
    return Window(arrivals=[NOW - int(seconds_ago * SECOND)] * count)


@pytest.mark.parametrize(
    ("window", "wait", "why"),
    [
        (Window(), 0, ""),
        (used(10), 50.1, f"waiting for the allowance: {LIMIT} requests were sent with this key in the last minute"),
        (used(59.5), 0, ""),
        (Window(paused_at=NOW - SECOND, paused_until=NOW + 30 * SECOND), 30, "refuses further requests for now"),
        (Window(spacing=5 * SECOND, due=NOW + 17 * SECOND, paused_at=NOW), 17, "the service refused faster requests"),
    ],
)
def test_the_first_request_waits_for_what_a_run_would_name(window, wait, why):
    before = msgspec.msgpack.encode(window)
    told = forecast(window, LIMIT, 3, NOW)
    assert told.wait_seconds == pytest.approx(wait, abs=0.001)
    assert why in told.why
    assert bool(told.why) == (wait > 0)
    assert msgspec.msgpack.encode(window) == before


@given(st.integers(1, 200), st.lists(st.integers(0, 70), max_size=40), st.integers(0, LIMIT), st.integers(0, 4))
def test_the_last_request_is_sent_when_a_run_would_send_it(count, ago, learned, spacing):
    """Against a run request by request; beyond what is simulated the forecast may differ by a request's share."""
    arrivals = sorted(NOW - seconds * SECOND for seconds in ago)
    window = Window(arrivals=arrivals, learned_limit=learned, spacing=spacing * SECOND, paused_at=NOW)
    told = forecast(window, LIMIT, count, NOW)
    clock = NOW
    for _ in range(count):
        grant, seconds = take(window, LIMIT, clock)
        while grant is None:
            clock += int(seconds * SECOND) + 1
            grant, seconds = take(window, LIMIT, clock)
        answered(window, grant, clock)
    taken = (clock - NOW) / SECOND
    if clock - NOW < 600 * SECOND:  # a run then goes faster again, as an experiment
        assert told.minutes * 60 == pytest.approx(taken, abs=62)


def test_a_service_that_allows_less_is_told():
    told = forecast(Window(learned_limit=5), LIMIT, 60, NOW)
    assert told.pace == "5 requests a minute, because the service allows no more"
    assert 11 < told.minutes < 13


def test_what_the_allowance_holds_is_sent_at_once():
    assert forecast(Window(), LIMIT, LIMIT, NOW).minutes == 0
    assert forecast(used(10, LIMIT - 3), LIMIT, 3, NOW).minutes == 0
