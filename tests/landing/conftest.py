"""Fetching of a run's shards by a client whose waits take no time, and what came of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firmlake.api.authorization import Token
from firmlake.api.client import Access, Client
from firmlake.api.connection import Timing
from firmlake.api.throttle.throttle import Throttle
from firmlake.core.settings import Settings
from firmlake.landing.fetch import Fetcher
from firmlake.landing.progress import load_progress
from lake import TOKEN
from support import NOON


class Clock:
    """Time passes only while somebody sleeps, and for all sleepers at once."""

    def __init__(self):
        self.now = 0.0
        self._lock = threading.Lock()

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        until = self.now + seconds
        with self._lock:
            self.now = max(self.now, until)


@pytest.fixture
def fetch(sandbox: Any) -> Callable[..., Any]:
    """Fetch the shards of a run."""

    def nothing():
        pass

    def fetch(run, of_runs=None, *, token=TOKEN, before_each=nothing, on_works=nothing, looks_closer=False, **api):
        api = {"base_url": sandbox.base_url, "requests_per_minute": 0, **api}
        settings = msgspec.convert({"api": api, "run": of_runs or {}}, Settings)
        clock = Clock()
        access, timing = Access(settings.api, Token(token), _Gate(before_each)), Timing(clock, clock.sleep, lambda: 0.5)
        with Client(access, timing=timing) as client:
            fetcher = Fetcher(client, settings, run, on_works=on_works, now=lambda: NOON, looks_closer=looks_closer)
            try:
                return [fetcher.fetch_shard(shard) for shard in range(1, run.plan.shard_count + 1)]
            finally:
                fetcher.close()

    return fetch


class _Gate(Throttle):
    """Calls something before each request leaves."""

    def __init__(self, before_each):
        super().__init__()
        self._before_each = before_each

    def acquire(self, sleep, tell):
        self._before_each()
        return super().acquire(sleep, tell)


def name_of(company):
    return company.country + company.company_number


def requests(sandbox):
    return sandbox.ledger(summary=True)["summary"]["requests"]


def held(run):
    """What came of each company and dataset, with its records as received."""
    return {
        (company, dataset): (
            track.status,
            [bytes(raw) for part in track.parts for raws in part.records.values() for raw in raws],
        )
        for shard in run.shards()
        for company, dataset, track in load_progress(run, shard, keep_records=True).tracks()
    }


def statuses(run, dataset=None):
    return Counter(status for (_, name), (status, _) in held(run).items() if dataset in (None, name))


def failed(run):
    return {key for key, (status, _) in held(run).items() if status == "failed"}
