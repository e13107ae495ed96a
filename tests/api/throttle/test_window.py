"""One key's allowance as a value: never more than the limit in any 60 s, as the service sees it."""

from hypothesis import given
from hypothesis import strategies as st

from firmlake.api.throttle.window import (
    HOLD_SECONDS,
    SECOND,
    WINDOW_SECONDS,
    Allowance,
    Window,
    answered,
    learn,
    refused,
    take,
)

DELAY = st.floats(0, HOLD_SECONDS)


def busiest_minute(arrivals):
    arrivals = sorted(arrivals)
    return max(sum(begin <= at < begin + 60 * SECOND for at in arrivals) for begin in arrivals)


def take_or_wait(window, limit, now):
    """Give the grant and the time it was given at."""
    for _ in range(100):
        grant, seconds = take(window, limit, now)
        if grant is not None:
            return grant, now
        now += int(seconds * SECOND) + 1
    raise AssertionError("no grant ever comes")


@given(st.lists(st.tuples(st.floats(0, 30), DELAY, DELAY), max_size=120), st.integers(1, 12))
def test_no_minute_of_the_service_holds_more_than_the_limit(requests, limit):
    """Whatever the pauses, the ways and the answers: arrival is at most a second after the grant."""
    window, now, arrivals, open_grants = Window(), 0, [], []
    for pause, way, back in requests:
        now += int(pause * SECOND)
        for due in sorted(due for due in open_grants if due[0] <= now):
            answered(window, due[1], due[0])
            open_grants.remove(due)
        grant, now = take_or_wait(window, limit, now)
        arrivals.append(now + int(way * SECOND))
        open_grants.append((now + int((way + back) * SECOND), grant))
    assert not arrivals or busiest_minute(arrivals) <= limit


def test_the_whole_allowance_may_be_used_at_once_and_again_a_minute_later():
    window, now = Window(), 0
    for _ in range(200):
        grant, seconds = take(window, 200, now)
        assert seconds == 0
        answered(window, grant, now)
    grant, seconds = take(window, 200, now)
    assert (grant, seconds) == (None, WINDOW_SECONDS)
    assert take(window, 200, now + int(WINDOW_SECONDS * SECOND))[1] == 0


def test_a_request_nobody_answers_counts_from_its_latest_arrival():
    window = Window()
    take(window, 1, 0)
    assert take(window, 1, 0) == (None, WINDOW_SECONDS + HOLD_SECONDS)


def test_the_first_refusal_spreads_requests_and_more_of_them_slow_down():
    window = Window()
    spacings = []
    for minute in range(3):
        now = minute * 60 * SECOND + SECOND
        grant, now = take_or_wait(window, 200, now)
        refused(window, 200, grant, now, 1.0)
        spacings.append(round(window.spacing / SECOND, 3))
    assert spacings == [0.3, 0.376, 0.47] or spacings == [0.3, 0.375, 0.469]


def test_refusals_of_one_burst_count_once():
    window = Window()
    grants = [take(window, 200, SECOND)[0] for _ in range(4)]
    for grant in grants:
        refused(window, 200, grant, 2 * SECOND, None)
    assert (window.paused_at, window.paused_until) == (2 * SECOND, 3 * SECOND)


def test_a_service_that_wants_a_gap_between_any_two_requests_refuses_once():
    """Gateways with a smoothing limit do. When requests could be early, 60 took 47 minutes instead of 19 seconds."""
    window, now, last, refusals = Window(), SECOND, 0, 0
    for _ in range(60):
        grant, now = take_or_wait(window, 200, now)
        if now - last < 0.2 * SECOND:
            refused(window, 200, grant, now, None)
            refusals += 1
        else:
            last = now
        answered(window, grant, now)
    assert refusals == 1
    assert now < 20 * SECOND


def test_pauses_without_a_hint_grow_to_a_minute():
    window, now, pauses = Window(), SECOND, []
    for _ in range(9):
        grant, now = take_or_wait(window, 200, now)
        refused(window, 200, grant, now, None)
        pauses.append((window.paused_until - now) / SECOND)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_lone_refusal_does_not_slow_down_and_ten_calm_minutes_allow_bursts_again():
    window = Window()
    for minute in (0, 5):
        grant, now = take_or_wait(window, 200, minute * 60 * SECOND + SECOND)
        refused(window, 200, grant, now, None)
    assert round(window.spacing / SECOND, 1) == 0.3
    take(window, 200, now + 601 * SECOND)
    assert window.spacing == 0


def test_a_lower_limit_of_the_service_is_kept_and_a_higher_one_is_not():
    for said, granted in ((3, 3), (300, 5)):
        window = Window()
        learn(window, 5, 0, Allowance(said, None, None))
        assert sum(take(window, 5, 0)[0] is not None for _ in range(9)) == granted


def test_a_limit_that_sinks_counts_what_was_sent_before():
    window = Window()
    for at in range(5):
        answered(window, take(window, 5, at * SECOND)[0], at * SECOND)
    learn(window, 5, 0, Allowance(2, None, None))
    _, now = take_or_wait(window, 5, 4 * SECOND)
    assert now >= 3 * SECOND + WINDOW_SECONDS * SECOND, "when only one of the last two still counts"


def test_an_allowance_that_others_have_used_up_is_waited_for():
    window = Window()
    take(window, 200, SECOND)
    learn(window, 200, SECOND, Allowance(None, 0, 20.0))
    assert take(window, 200, SECOND) == (None, 20.0)


def test_an_allowance_that_we_have_used_up_ourselves_needs_no_pause():
    """A token bucket says nothing is left at each request that spends the token just refilled."""
    window = Window()
    for _ in range(190):
        take(window, 200, SECOND)
    learn(window, 200, SECOND, Allowance(None, 0, 60.0))
    assert take(window, 200, SECOND)[1] == 0
