"""A run and its worker, on a real server: what becomes of the run when the worker is stopped or killed."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from firmlake_sandbox import Sandbox

from .support import ByHand, Pool, request_count, settings_for, wait_until, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
SLOW = {"kind": "delay", "seconds": 3.0}


@pytest.fixture
def pool(by_hand: ByHand, real_server: str, sandbox: Sandbox) -> Pool:
    write_list(by_hand.folder / "list.csv", 60)
    settings = settings_for(
        sandbox, by_hand.folder / "data", api__companies_per_request=5, api__threads=1, run__check="false"
    )
    variables = {f"FIRMLAKE_{key.replace('.', '__').upper()}": value for key, value in settings.items()}
    return Pool(by_hand, real_server, **variables, FIRMLAKE_API_TOKEN=sandbox.token)


def test_a_worker_that_is_stopped_leaves_its_run_crashed_with_our_line_and_one_that_is_killed_leaves_it_running(
    pool: Pool, sandbox: Sandbox, by_hand: ByHand
):
    def state(run_id: str) -> dict[str, Any]:
        return pool.ask("GET", f"flow_runs/{run_id}")["state"]

    sandbox.set_faults([SLOW])
    with pool.worker() as worker:
        stopped = pool.start_run()
        wait_until(lambda: request_count(sandbox) > 1, 180, "requests")
        os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: state(stopped)["type"] not in ("RUNNING", "CANCELLING"), 60, "a last state")
    assert state(stopped)["type"] == "CRASHED"
    assert state(stopped)["message"].startswith("The process of this run was ended from outside")

    before = request_count(sandbox)
    with pool.worker() as worker:
        killed = pool.start_run()
        wait_until(lambda: request_count(sandbox) > before + 1, 180, "requests")
        os.kill(worker.pid, signal.SIGKILL)
    sandbox.set_faults([])
    wait_until(lambda: state(killed)["type"] != "RUNNING", 240, "the end of the run")
    assert state(killed)["type"] == "COMPLETED", state(killed)
    assert wait_until(lambda: not [each for each in by_hand.processes() if "watch.py" in each], 60, "no watch is left")
