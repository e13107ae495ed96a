"""A client whose time is simulated, and services that are functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest

from firmlake.api.authorization import Token
from firmlake.api.client import Access, Client
from firmlake.api.connection import Timing
from firmlake.api.exchange import Answer
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.settings import ApiSettings

from .throttle.simulation import VirtualTime

CANARY = "canary/01+23456789~abc.def=="
"""Holds what JSON, addresses and base64 spell otherwise."""


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def landed() -> list[Answer]:
    """Every attempt of the clients of a test, in order."""
    return []


ClientMaker = Callable[..., Client]


@pytest.fixture
def make_client(time: VirtualTime, landed: list[Answer]) -> Iterator[ClientMaker]:
    """Make a client that talks to a function of the test, or, without one, to `base_url`."""
    clients = []

    def make(handler: Handler | None = None, **options: object) -> Client:
        own = {"throttle", "token", "on_answer", "stop", "on_wait", "sleep"} & options.keys()
        arguments = {name: options.pop(name) for name in own}
        api = ApiSettings(**{"base_url": "https://service.test", "requests_per_minute": 0} | options)
        client = Client(
            Access(api, arguments.pop("token", Token(CANARY)), arguments.pop("throttle", Throttle())),
            transport=_Transport(handler) if handler else None,
            timing=Timing(time.clock, arguments.pop("sleep", time.sleep), lambda: 1.0, time.utc),
            **{"on_answer": landed.append} | arguments,
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


Handler = Callable[[httpx.Request], httpx.Response]


class _Transport(httpx.BaseTransport):
    """Answers by a function; unlike httpx.MockTransport it streams, and the same answer may be given twice."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._handler(request)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content))


def script(*answers: httpx.Response | Exception) -> Handler:
    """Give answers one after the other, the last one for ever."""
    left = itertools.chain(answers, itertools.repeat(answers[-1]))

    def handle(request: httpx.Request) -> httpx.Response:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handle
