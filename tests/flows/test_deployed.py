"""What `python -m firmlake.flows.deploy` makes of prefect.yaml and automations.yaml on a real server."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import pytest
import yaml

from .support import ROOT, ByHand, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_servers_clock_has_the_next_runs_of_the_schedules_and_of_no_other(by_hand: ByHand, real_server: str):
    """A server whose scheduler fails looks well, deploys, and never starts a run."""
    places = {"LAKE_HOME": str(ROOT), "LAKE_LIST": "/srv/list.csv", "PREFECT_API_URL": real_server}

    prefect = str(Path(sys.executable).with_name("prefect"))

    def run(*command: str, **others: str) -> subprocess.CompletedProcess[str]:
        environment = {**by_hand.environment, **places, **others}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)

    for _ in range(2):
        done = run(sys.executable, "-m", "firmlake.flows.deploy")
        assert done.returncode == 0, done.stdout + done.stderr
    refused = run(prefect, "--no-prompt", "deploy", "--all", LAKE_LIST="")
    assert refused.returncode == 1
    assert "LAKE_LIST: is not set" in refused.stdout + refused.stderr, refused.stdout + refused.stderr
    automations = httpx.post(f"{real_server}/automations/filter", json={}, trust_env=False).json()
    assert len({each["name"] for each in automations}) == len(automations)
    scheduled = wait_until(lambda: _scheduled(real_server), 120, "scheduled runs")
    at = [
        datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo("Europe/Brussels")) for run in scheduled
    ]
    assert {(moment.hour, moment.minute) for moment in at} >= {
        (3, 0),
        (12, 0),
        (12, 30),
        (1, 0),
        (4, 0),
        (20, 0),
        (6, 30),
    }
    assert 0 in {moment.weekday() for moment in at}
    assert all(run["parameters"]["overrides"] == {} for run in scheduled)


def _scheduled(api: str):
    """Runs that wait for their time, once there are some of each active schedule."""
    described = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    active = [each for each in described if any(schedule["active"] for schedule in each.get("schedules", []))]
    scheduled = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    runs = httpx.post(f"{api}/flow_runs/filter", json=scheduled, trust_env=False).json()
    return runs if len({run["deployment_id"] for run in runs}) == len(active) else None
