"""The services of compose.yaml as processes, with their own commands and environments: a weekly run, then its export.

No container engine runs here. PostgreSQL is Debian's, moto's server stands for MinIO, and `/firmlake` is a folder with
what the Dockerfile copies. Hosts become loopback addresses; nothing else of the file is changed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import pytest
import yaml

from lake import wait_until
from postgres import serve_postgres

from .conftest import is_healthy
from .support import ROOT, ByHand

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
COMPANIES = 60


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def make_image(folder):
    """Copy what the Dockerfile copies into `/firmlake`."""
    _, _, last_stage = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")
    for line in last_stage.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                target = folder / source
                target.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, target)


class Engine:
    """Starts services as `docker compose up` would, but without a container."""

    def __init__(self, folder, variables, places):
        self.folder, self._variables, self._places = folder, variables, places
        self._machine = ByHand(folder / "machine")
        self._machine.environment = {name: self._machine.environment[name] for name in ("HOME", "NO_COLOR")}

    def resolve(self, text):
        """Fill in the variables of .env; hosts and folders become those of this machine."""
        text = re.sub(r"\$\{(\w+)(?::[-?][^}]*)?\}", lambda found: self._variables.get(found[1], ""), text)
        for inside, outside in self._places.items():
            text = text.replace(inside, outside)
        return text

    def environment(self, name):
        from temporary_server import server_settings

        own = server_settings() if "env_file" in SERVICES[name] else {}
        own |= {key: self.resolve(value) for key, value in SERVICES[name]["environment"].items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        image = {"LAKE_HOME": self.resolve("/firmlake"), "PATH": path, "DO_NOT_TRACK": "1"}
        return {**self._machine.variables(), **image, "PYTHONPATH": str(ROOT / "src"), **own}

    @contextmanager
    def up(self, name, *more):
        command = [self.resolve(part) for part in SERVICES[name]["command"]]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *more],
                cwd=self.resolve("/firmlake"),
                env=self.environment(name),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()


def test_the_weekly_run_is_fetched_published_and_exported_and_what_a_person_set_on_the_server_stays(
    sandbox, s3, tmp_path, flow_modules
):
    make_image(tmp_path / "firmlake")
    (tmp_path / "firmlake/lists").mkdir()
    ByHand(tmp_path / "lists").write(COMPANIES, tmp_path / "firmlake/lists/companies.csv")
    (tmp_path / "token").write_text(f"{sandbox.token}\n")
    api = f"http://127.0.0.1:{(port := free_port())}"
    with serve_postgres(port=free_port()) as database:
        database.run("CREATE USER prefect SUPERUSER PASSWORD 'planted-secret'")
        database.run("CREATE DATABASE prefect OWNER prefect")
        variables = {
            "PREFECT_DATABASE_PASSWORD": "planted-secret",
            "STORE_PASSWORD": "planted-other",
            "PREFECT_API_AUTH_STRING": "firmlake:planted-third",
            "FIRMLAKE_API__BASE_URL": sandbox.base_url,
        }
        places = {
            "@database/": f"@127.0.0.1:{database.port}/",
            "http://server:4200": api,
            "http://127.0.0.1:4200": api,
            "http://store:9000": s3,
            "0.0.0.0": "127.0.0.1",
            "/run/secrets/token": str(tmp_path / "token"),
            "/firmlake": str(tmp_path / "firmlake"),
        }
        engine = Engine(tmp_path, variables, places)
        httpx.put(f"{s3}/lake", trust_env=False).raise_for_status()  # what the service `bucket` does
        auth = ("firmlake", "planted-third")
        with (
            engine.up("server", "--port", str(port)),
            httpx.Client(base_url=f"{api}/api", trust_env=False, timeout=60, auth=auth) as client,
        ):
            wait_until(lambda: is_healthy(api), 180, "a healthy server")
            assert httpx.post(f"{api}/api/flow_runs/filter", json={}, trust_env=False).status_code == 401
            deploy_twice(engine, client)
            with engine.up("worker"):
                run_weekly(engine, client)
    assert "exports/latest.json" in httpx.get(f"{s3}/lake", trust_env=False).text
    assert "planted" not in engine.log("server") + engine.log("worker") + engine.log("deploy")


def deploy_twice(engine, client):
    """Deploy; let a person pause and change a deployment; deploy again. Nothing is deployed without LAKE_LIST."""

    def deploy():
        with engine.up("deploy") as process:
            assert process.wait(180) == 0, engine.log("deploy")
        return client.get("/deployments/name/replay/archive").json()

    made = deploy()
    client.post(f"/deployments/{made['id']}/pause_deployment").raise_for_status()
    changed = {"parameters": {**made["parameters"], "workers": 4}}
    client.patch(f"/deployments/{made['id']}", json=changed).raise_for_status()
    again = deploy()
    assert (again["paused"], again["parameters"]["workers"]) == (True, 4)
    automations = client.post("/automations/filter", json={}).json()
    assert len({each["name"] for each in automations}) == len(automations)

    prefect, file = Path(sys.executable).with_name("prefect"), str(ROOT / "prefect.yaml")
    command, environment = [prefect, "--no-prompt", "deploy", "--all", "--prefect-file", file], {"LAKE_LIST": ""}
    environment = engine.environment("deploy") | environment
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (refused.returncode, "LAKE_LIST: is not set" in refused.stdout + refused.stderr) == (1, True)

    described = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    active = [each for each in described if any(schedule["active"] for schedule in each.get("schedules", []))]
    waiting = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}

    def scheduled():
        """Runs that wait for their time, once there are some of each active schedule: a server's scheduler may fail."""
        runs = client.post("/flow_runs/filter", json=waiting).json()
        return runs if len({run["deployment_id"] for run in runs}) == len(active) else None

    zone = ZoneInfo("Europe/Brussels")
    times = [run["expected_start_time"] for run in wait_until(scheduled, 120, "scheduled runs")]
    at = [datetime.fromisoformat(time).astimezone(zone) for time in times]
    assert {f"{moment:%H:%M}" for moment in at} >= {"03:00", "12:00", "12:30", "01:00", "04:00", "20:00", "06:30"}


def run_weekly(engine, client):
    weekly = client.get("/deployments/name/enrich/weekly").json()
    scheduled = {"state": {"type": "SCHEDULED"}}
    run_id = client.post(f"/deployments/{weekly['id']}/create_flow_run", json=scheduled).json()["id"]

    def ended(run):
        return run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

    wait_until(lambda: ended(client.get(f"/flow_runs/{run_id}").json()), 180, "the end of the run")
    run = client.get(f"/flow_runs/{run_id}").json()
    assert run["state_name"] == "Completed", run["state"]["message"] + engine.log("worker")
    assert run["name"].startswith("weekly companies 2")
    assert sorted(run["tags"]) == ["firmlake", "paid"]
    of_run = {"logs": {"flow_run_id": {"any_": [run_id]}}, "sort": "TIMESTAMP_DESC", "limit": 1}
    said = f"{COMPANIES} of {COMPANIES} companies asked for"
    wait_until(lambda: said in client.post("/logs/filter", json=of_run).json()[0]["message"], 60, "the last line")
    of_export = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}, "flows": {"name": {"any_": ["export"]}}}
    exports = wait_until(lambda: client.post("/flow_runs/filter", json=of_export).json(), 180, "the export")
    assert exports[0]["state"]["message"].startswith("Exported ")
