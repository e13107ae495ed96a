"""Never more requests than the allowance in any 60 s, by the service's own times, also over restarts and processes."""

from __future__ import annotations

import random
import time

import pytest

from firmlake.api import requests
from firmlake.api.authorization import Token
from firmlake.api.client import Access, Client
from firmlake.api.connection import Timing
from firmlake.api.throttle.stores import FileStore
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.company import Company
from firmlake.core.settings import ApiSettings
from lake import TOKEN
from postgres import serve_postgres

from .support import sized

LIMIT = 30
KINDS = ("fixed-window", "sliding-window", "token-bucket")


@pytest.fixture
def postgres():
    with serve_postgres() as server:
        yield server


class _Time:
    """Real time that can be moved on, together with the service's."""

    def __init__(self, sandbox) -> None:
        self.sandbox, self.ahead = sandbox, 0.0

    def clock(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.sandbox.advance(0, rate_seconds=seconds)
        self.ahead += seconds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("minutes", sized([2], [10, 30]))
def test_the_allowance_is_kept_and_used_also_across_restarts(kind, minutes, sandbox, tmp_path, record_property):
    sandbox.set_options(requests_per_minute=LIMIT, rate_limit_kind=kind)
    when, chance, sent = _Time(sandbox), random.Random(kind), 0
    company = Company("BE", "0403227515")
    began = when.clock()
    while when.clock() - began < 60 * minutes:  # a process that ends; the next one finds what it left
        throttle = Throttle(FileStore(tmp_path / "key", lambda: int(when.clock() * 1e9)), LIMIT)
        api = ApiSettings(base_url=sandbox.base_url, requests_per_minute=LIMIT)
        with Client(Access(api, Token(TOKEN), throttle), timing=Timing(when.clock, when.sleep)) as client:
            for _ in range(chance.randrange(1, 2 * LIMIT)):
                client.send(requests.bulk(api, "lookalikes", [company], None, None))
                sent += 1
                if when.clock() - began >= 60 * minutes:
                    break
    summary = sandbox.ledger()["summary"]
    refused = summary["by_outcome"].get("429", 0)
    record_property("window", f"{kind}: {summary['busiest_minute']} of {LIMIT}, {sent} in {minutes} min, {refused} 429")
    sandbox.set_options(requests_per_minute=0)
    assert summary["busiest_minute"] <= LIMIT
    assert refused < 0.005 * sent
    assert sent >= 0.96 * LIMIT * minutes


@pytest.mark.reliability
@pytest.mark.timeout(200)
@pytest.mark.parametrize("store", ["file", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_two_processes_of_one_key_share_one_allowance(store, sandbox, make_lake, tmp_path, record_property, request):
    """With a file they are on one machine; with PostgreSQL they are on two, which have no file in common."""
    if store == "postgresql":
        store = request.getfixturevalue("postgres").url
    sandbox.set_options(requests_per_minute=10, rate_limit_kind="sliding-window")
    settings = {"api__requests_per_minute": 10, "api__throttle_store": store}
    lakes = [make_lake(200, name, **settings) for name in ("one", "two")]
    for lake in lakes:
        temporary = tmp_path if store == "file" else tmp_path / lake.list.parent.name / "tmp"
        temporary.mkdir(exist_ok=True, parents=True)
        lake.environment["TMPDIR"] = str(temporary)
    processes = [lake.start("run", str(lake.list)) for lake in lakes]
    results = [lake.end(process, 180) for lake, process in zip(lakes, processes, strict=True)]
    summary = sandbox.ledger()["summary"]
    sandbox.set_options(requests_per_minute=0)
    assert [result.code for result in results] == [0, 0], results
    record_property("window", f"{summary['busiest_minute']} of 10, {summary['requests']} requests")
    assert summary["busiest_minute"] <= 10
    assert summary["by_outcome"].get("429", 0) == 0
