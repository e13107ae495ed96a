"""What a throttle asks of any store, and what it does when the store is away."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from firmlake.api.exchange import Answer
from firmlake.api.requests import Request
from firmlake.api.throttle.stores import Slot
from firmlake.api.throttle.throttle import Throttle, open_throttle
from firmlake.core.errors import EXIT_STOPPED, SettingsError, ThrottleStoreError
from firmlake.core.settings import ApiSettings

from .simulation import VirtualTime

REQUEST = Request("lookalikes", "POST", "/v1/companies/lookalikes")


class Store:
    """A store in memory; it can be away for a number of times."""

    name = "the store"

    def __init__(self, clock):
        self.clock, self.content, self.away_count = clock, b"", 0

    @contextmanager
    def hold(self):
        if self.away_count:
            self.away_count -= 1
            raise ThrottleStoreError("The store does not answer")
        slot = Slot(self.content, self.clock())
        yield slot
        self.content = slot.content

    def close(self):
        """Nothing is open."""


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def store(time):
    return Store(time.clock_ns)


@pytest.fixture
def throttle(store):
    return Throttle(store, 3)


def answer(time, status=200, **headers):
    return Answer(REQUEST, 1, status, "", headers, b"", time.utc(), 0.1, 0)


def test_state_and_time_are_those_of_the_store(throttle, store, time):
    for _ in range(3):
        throttle.observe(throttle.acquire(time.sleep), answer(time))
    before = time.now
    Throttle(store, 3).acquire(time.sleep)
    assert 60 <= time.now - before <= 61


def test_a_store_that_comes_back_is_waited_for(throttle, store, time):
    store.away_count = 4
    before = time.now
    throttle.acquire(time.sleep)
    assert time.now - before == pytest.approx(7)


def test_a_store_that_stays_away_stops_the_run_and_grants_nothing(throttle, store, time):
    store.away_count = 1000
    with pytest.raises(ThrottleStoreError) as error:
        throttle.acquire(time.sleep)
    assert error.value.exit_code == EXIT_STOPPED
    assert store.content == b""


def test_an_answer_counts_although_the_store_is_away(throttle, store, time, caplog):
    grant = throttle.acquire(time.sleep)
    store.away_count = 1
    throttle.observe(grant, answer(time))
    assert caplog.messages == ["The store does not answer"]


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("postgresql://user:planted-secret@host/name", "holds a password"),
        ("postgresql://host/name?password=planted-secret", "holds a password"),
        ("postgresql://host:planted-secret/name?x=y", "is not an address"),
    ],
)
def test_an_address_with_a_secret_or_none_is_refused_without_showing_it(address, what):
    with pytest.raises(SettingsError, match=what) as error:
        open_throttle(ApiSettings(throttle_store=address), "key")
    assert "planted-secret" not in str(error.value)


def test_without_a_store_a_client_sends_nothing_more(make_client, throttle, store, landed):
    """The first request waits for it in vain; the others do not wait again."""
    store.away_count = 7
    client = make_client(throttle=throttle)
    for _ in range(3):
        with pytest.raises(ThrottleStoreError):
            client.send(REQUEST)
    assert landed == []
