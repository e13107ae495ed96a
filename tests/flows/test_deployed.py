"""What `python -m firmlake.flows.deploy` makes of prefect.yaml and automations.yaml on a real server."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml

from .support import ROOT, ByHand, Pool, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_servers_clock_has_the_next_runs_of_the_schedules_and_of_no_other(by_hand: ByHand, real_server: str):
    """A server whose scheduler fails looks well, deploys, and never starts a run."""
    for _ in range(2):
        pool = Pool(by_hand, real_server, LAKE_LIST="/srv/list.csv")
    prefect = str(Path(sys.executable).with_name("prefect"))
    refused = subprocess.run(
        [prefect, "--no-prompt", "deploy", "--all"],
        cwd=ROOT,
        env={**by_hand.environment, "PREFECT_API_URL": real_server, "LAKE_HOME": "/srv", "LAKE_LIST": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (refused.returncode, "LAKE_LIST: is not set" in refused.stdout + refused.stderr) == (1, True)
    automations = pool.ask("POST", "automations/filter", {})
    assert len({each["name"] for each in automations}) == len(automations)
    scheduled = wait_until(lambda: _scheduled(pool), 120, "scheduled runs")
    at = [
        datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo("Europe/Brussels")) for run in scheduled
    ]
    times = {f"{moment:%H:%M}" for moment in at}
    assert times >= {"03:00", "12:00", "12:30", "01:00", "04:00", "20:00", "06:30"}
    assert 0 in {moment.weekday() for moment in at}
    assert all(run["parameters"]["overrides"] == {} for run in scheduled)


def _scheduled(pool: Pool):
    """Runs that wait for their time, once there are some of each active schedule."""
    described = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    active = [each for each in described if any(schedule["active"] for schedule in each.get("schedules", []))]
    scheduled = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    runs = pool.ask("POST", "flow_runs/filter", scheduled)
    return runs if len({run["deployment_id"] for run in runs}) == len(active) else None
