"""A run and its worker, on a real server: what becomes of the run when the worker is stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from firmlake_sandbox import Sandbox

from .support import ROOT, ByHand, request_count, wait_until, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
SLOW = {"kind": "delay", "seconds": 3.0}


class Pool:
    """A work pool with a process worker, and the deployment `enrich/weekly`."""

    def __init__(self, by_hand: ByHand, api: str, sandbox: Sandbox) -> None:
        self.api, self._folder = api, by_hand.folder
        write_list(by_hand.folder / "list.csv", 60)
        self._environment = {
            **by_hand.environment,
            "PREFECT_API_URL": api,
            "PREFECT_HOME": str(by_hand.folder / "worker"),
            "LAKE_HOME": str(by_hand.folder),
            "LAKE_LIST": str(by_hand.folder / "list.csv"),
            "FIRMLAKE_PATHS__DATA": str(by_hand.folder / "data"),
            "FIRMLAKE_API__BASE_URL": sandbox.base_url,
            "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
            "FIRMLAKE_API__COMPANIES_PER_REQUEST": "5",
            "FIRMLAKE_API__THREADS": "1",
            "FIRMLAKE_API_TOKEN": sandbox.token,
        }
        deploy = [sys.executable, "-m", "firmlake.flows.deploy"]
        done = subprocess.run(deploy, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr

    def start_worker(self) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("prefect")), "worker", "start", "--pool", "firmlake"]
        log = (self._folder / "worker.log").open("ab")
        with log:
            return subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def start_run(self) -> str:
        weekly = self.ask("GET", "deployments/name/enrich/weekly")
        created = self.ask("POST", f"deployments/{weekly['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
        return str(created["id"])

    def state(self, run_id: str) -> dict[str, Any]:
        return self.ask("GET", f"flow_runs/{run_id}")["state"]

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        answer = httpx.request(method, f"{self.api}/{path}", json=content, trust_env=False, timeout=60)
        return answer.raise_for_status().json()


@pytest.fixture
def pool(by_hand: ByHand, real_server: str, sandbox: Sandbox) -> Pool:
    return Pool(by_hand, real_server, sandbox)


def test_a_worker_that_is_stopped_leaves_its_run_crashed_with_our_line_and_one_that_is_killed_leaves_it_running(
    pool: Pool, sandbox: Sandbox, by_hand: ByHand
):
    sandbox.set_faults([SLOW])
    worker = pool.start_worker()
    stopped = pool.start_run()
    wait_until(lambda: request_count(sandbox) > 1, 180, "requests")
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait(60)
    wait_until(lambda: pool.state(stopped)["type"] not in ("RUNNING", "CANCELLING"), 60, "a last state")
    state = pool.state(stopped)
    assert state["type"] == "CRASHED"
    assert state["message"].startswith("The process of this run was ended from outside"), state["message"]

    before = request_count(sandbox)
    worker = pool.start_worker()
    killed = pool.start_run()
    wait_until(lambda: request_count(sandbox) > before + 1, 180, "requests")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait(60)
    sandbox.set_faults([])
    wait_until(lambda: pool.state(killed)["type"] != "RUNNING", 240, "the end of the run")
    assert pool.state(killed)["type"] == "COMPLETED", pool.state(killed)
    left = wait_until(lambda: not [each for each in by_hand.processes() if "watch.py" in each], 60, "no watch is left")
    assert left
