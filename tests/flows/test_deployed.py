"""A deployed run on a real server whose worker is stopped or killed."""

from __future__ import annotations

import os
import signal

import pytest

from lake import wait_until

from .support import Pool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_a_worker_that_is_stopped_leaves_its_run_crashed_with_our_line_and_one_that_is_killed_leaves_it_running(
    by_hand, real_server, sandbox
):
    by_hand.write(60)
    for name, value in (("companies_per_request", 5), ("threads", 1)):
        by_hand.set(f"api__{name}", value)
    pool = Pool(by_hand, real_server)

    def start_and_end_worker(number):
        sandbox.set_faults([{"kind": "delay", "seconds": 3.0}])
        before = by_hand.requests()
        with pool.worker() as worker:
            run_id = pool.start_run()
            wait_until(lambda: by_hand.requests() > before + 1, 180, "requests")
            os.kill(worker.pid, number)
        return lambda: pool.ask("GET", f"flow_runs/{run_id}")["state"]

    state = start_and_end_worker(signal.SIGTERM)
    wait_until(lambda: state()["type"] not in ("RUNNING", "CANCELLING"), 60, "a last state")
    assert state()["type"] == "CRASHED"
    assert state()["message"].startswith("The process of this run was ended from outside")
    state = start_and_end_worker(signal.SIGKILL)
    sandbox.set_faults([])
    wait_until(lambda: state()["type"] != "RUNNING", 240, "the end of the run")
    assert state()["type"] == "COMPLETED", state()
    watches = lambda: [line for line in by_hand.processes().values() if "watch.py" in line]  # noqa: E731
    wait_until(lambda: not watches(), 60, "no watch is left")
