"""One sandbox for each test process, as new for every test."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import firmlake_sandbox
from firmlake_sandbox import Sandbox

from .calls import Api


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[tuple[Sandbox, dict[str, Any]]]:
    with firmlake_sandbox.start("secret,second", requests_per_minute=0) as sandbox:
        yield sandbox, sandbox.control("GET", "options")


@pytest.fixture
def sandbox(shared_sandbox: tuple[Sandbox, dict[str, Any]]) -> Sandbox:
    sandbox, options = shared_sandbox
    sandbox.set_options(**options)
    sandbox.reset()
    return sandbox


@pytest.fixture(scope="session")
def connection() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=10) as client:
        yield client


@pytest.fixture
def api(sandbox: Sandbox, connection: httpx.Client) -> Api:
    return Api(sandbox, connection)


@pytest.fixture(scope="session")
def companies() -> list[str]:
    """Some companies that are found in week 0 of seed 0."""
    from firmlake_sandbox.numbers import parse_number
    from firmlake_sandbox.world import World, is_found

    return [
        country + number
        for country, number in firmlake_sandbox.sample_numbers(400, seed=5)
        if is_found(World(), parse_number(country, number) or 0)
    ][:300]
