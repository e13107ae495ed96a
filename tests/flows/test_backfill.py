"""A backfill on a real server with a work pool: killed and started again, nothing is started, paid or lost twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from firmlake.core.folders import Folders
from firmlake.warehouse.generations import ask
from firmlake_sandbox import Sandbox
from postgres import serve_postgres

from .support import ROOT, ByHand, killed_at_last, settings_for, wait_until, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LIMIT = 20


class Prefect:
    """A server, a work pool and its workers, as processes."""

    def __init__(self, by_hand: ByHand, environment: dict[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.api = f"http://127.0.0.1:{port}/api"
        self.environment = {
            **by_hand.environment,
            **environment,
            "PREFECT_HOME": str(by_hand.folder / "server"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "LAKE_HOME": str(ROOT),
            "LAKE_LIST": "/srv/list.csv",
        }
        self._folder = by_hand.folder
        self._processes = [self._start("server", "start", "--port", str(port))]

    def deploy(self) -> None:
        """Make the deployment as it is shipped."""
        wait_until(self._is_healthy, 120, "a healthy server")
        self.environment["PREFECT_API_URL"] = self.api
        self._run("work-pool", "create", "firmlake", "--type", "process")
        self._run("--no-prompt", "deploy", "--name", "portfolio")

    def start_worker(self, name: str) -> None:
        self._processes.append(self._start("worker", "start", "--pool", "firmlake", "--name", name))

    def runs(self) -> list[dict[str, Any]]:
        found = httpx.post(f"{self.api}/flow_runs/filter", json={}, trust_env=False).raise_for_status().json()
        return [run for run in found if run["deployment_id"]]

    def stop(self) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)

    def _is_healthy(self) -> bool:
        try:
            return httpx.get(f"{self.api}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{arguments[0]}.txt").open("ab") as log:
            command = [str(Path(sys.executable).with_name("prefect")), *arguments]
            return subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def _run(self, *arguments: str) -> None:
        process = self._start(*arguments)
        assert process.wait(120) == 0, (self._folder / f"{arguments[0]}.txt").read_text()


@pytest.fixture
def by_hand(tmp_path: Path) -> ByHand:
    return ByHand(tmp_path / "by_hand", "backfill")


@pytest.fixture
def store() -> Iterator[str]:
    with serve_postgres() as server:
        yield server.url


@pytest.fixture
def prefect(by_hand: ByHand, sandbox: Sandbox) -> Iterator[Prefect]:
    started = Prefect(by_hand, {"FIRMLAKE_API_TOKEN": sandbox.token})
    try:
        started.deploy()
        yield started
    finally:
        started.stop()


def test_a_backfill_that_is_killed_and_started_again_pays_once_and_ends_as_the_worst(
    prefect: Prefect, by_hand: ByHand, sandbox: Sandbox, store: str, tmp_path: Path
):
    """Three portfolios, two workers, one allowance; a company of one of them fails."""
    lists, home, archived = tmp_path / "lists", tmp_path / "home", tmp_path / "archive"
    lists.mkdir()
    companies = [write_list(lists / f"{name}.csv", 300, seed) for seed, name in enumerate(("north", "south", "west"))]
    sandbox.set_options(requests_per_minute=LIMIT, rate_limit_kind="sliding-window")
    sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "companies": [companies[1][7]], "status": 500}])
    settings = settings_for(
        sandbox, home, api__requests_per_minute=LIMIT, api__throttle_store=store, run__shard_companies=100
    )
    arguments = (str(lists), "--name", "one", "--archive", str(archived))
    by_hand.environment["PREFECT_API_URL"] = prefect.api
    for name in ("one", "two"):
        prefect.start_worker(name)

    with killed_at_last(by_hand.start(*arguments, settings=settings)) as process:
        wait_until(lambda: len(prefect.runs()) == 3, what="three runs")
        process.kill()
    ended = by_hand.end(by_hand.start(*arguments, settings=settings), 400)

    assert ended.code == 3, ended.err
    counts = "Backfill one: 1 published, some companies failed, 2 done; south: Published, but 1 company failed"
    assert ended.error.startswith(counts)
    assert len(prefect.runs()) == 3, "the second start found the runs of the first"
    summary = sandbox.ledger()["summary"]
    assert summary["busiest_minute"] <= LIMIT
    assert summary["companies_charged_again"] == 0
    of_portfolios = [Folders(home / "portfolios" / name) for name in ("north", "south", "west")]
    held = [ask(each, "SELECT count(*), count(paid_at) FROM companies")[1][0] for each in of_portfolios]
    assert [company_count for company_count, _ in held] == [300, 300, 300]
    assert sum(paid_count for _, paid_count in held) == summary["credits_charged"]
    assert len(list(archived.glob("landing/run=*"))) == 3

    sandbox.set_faults([])
    again = by_hand.end(by_hand.start(*arguments, settings=settings), 400)
    assert again.code == 0, again.err
    names = [run["name"].partition(" ")[0] for run in prefect.runs()]
    assert sorted(names) == ["north", "south", "south", "west"], "only what failed was started again"
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0
