"""Deployments on a real server: what `python -m firmlake.flows.deploy` makes, however often."""

from __future__ import annotations

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
    archive = pool.ask("GET", "deployments/name/replay/archive")
    pool.ask("POST", f"deployments/{archive['id']}/pause_deployment")
    pool.ask("PATCH", f"deployments/{archive['id']}", {"parameters": {**archive["parameters"], "workers": 4}})
    pool.deploy()
    archive = pool.ask("GET", "deployments/name/replay/archive")
    assert (archive["paused"], archive["parameters"]["workers"]) == (True, 4), "what a person set stays"
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
