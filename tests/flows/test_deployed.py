"""Deployments on a real server: what `python -m firmlake.flows.deploy` makes, and runs whose worker is lost."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from lake import wait_until

from .support import ROOT, Pool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_the_servers_clock_has_the_next_runs_of_the_schedules_and_of_no_other(by_hand, real_server):
    """A server whose scheduler fails looks well, deploys, and never starts a run."""
    pool = Pool(by_hand, real_server, LAKE_HOME="/srv", LAKE_LIST="/srv/list.csv")
    pool.deploy()
    by_hand.environment["LAKE_LIST"] = ""
    prefect = str(Path(sys.executable).with_name("prefect"))
    command = [prefect, "--no-prompt", "deploy", "--all", "--prefect-file", str(ROOT / "prefect.yaml")]
    refused = by_hand.ended(by_hand.start(code=["-c", f"import os; os.execv({prefect!r}, {command!r})"]), 120)
    assert (refused.code, "LAKE_LIST: is not set" in refused.out + refused.err) == (1, True)
    automations = pool.ask("POST", "automations/filter", {})
    assert len({each["name"] for each in automations}) == len(automations)
    scheduled = wait_until(lambda: _scheduled(pool), 120, "scheduled runs")
    zone = ZoneInfo("Europe/Brussels")
    at = [datetime.fromisoformat(run["expected_start_time"]).astimezone(zone) for run in scheduled]
    assert {f"{moment:%H:%M}" for moment in at} >= {"03:00", "12:00", "12:30", "01:00", "04:00", "20:00", "06:30"}
    assert 0 in {moment.weekday() for moment in at}
    assert all(run["parameters"]["overrides"] == {} for run in scheduled)


def _scheduled(pool):
    """Runs that wait for their time, once there are some of each active schedule."""
    described = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    active = [each for each in described if any(schedule["active"] for schedule in each.get("schedules", []))]
    runs = pool.ask("POST", "flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}})
    return runs if len({run["deployment_id"] for run in runs}) == len(active) else None


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
