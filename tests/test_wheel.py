"""The wheel works alone: it holds the demo, the flows and what they deploy, and is built the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from firmlake import __version__

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[1]
_BUILD = "import sys; from hatchling.build import build_wheel as build; [build(folder) for folder in sys.argv[1:]]"
_FLOWS = """
import runpy, sys
for flow in ("enrich", "backfill", "replay", "service_lists", "add_contacts", "deploy"):
    assert "prefect" not in sys.modules
    sys.argv = [flow, "--check" if flow == "deploy" else "--help"]
    try:
        runpy.run_module(f"firmlake.flows.{flow}", run_name="__main__")
    except SystemExit as ended:
        assert ended.code == 0, flow
from prefect.flows import load_flow_from_entrypoint
flow = load_flow_from_entrypoint("firmlake.flows.deliveries.export")
print(flow.name, flow.fn.__code__.co_filename)
"""


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """Two wheels, built one after the other."""
    folders = [tmp_path_factory.mktemp("wheel") for _ in range(2)]
    subprocess.run([sys.executable, "-c", _BUILD, *folders], cwd=ROOT, check=True, capture_output=True, timeout=90)
    return [wheel for folder in folders for wheel in folder.iterdir()]


@pytest.fixture
def run(builds, tmp_path):
    """Run Python in an empty folder, where the unpacked wheel comes before the checkout."""
    with zipfile.ZipFile(builds[0]) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIRMLAKE_", "LAKE_"))}

    def run(*command, **variables):
        environment = {**kept, "PYTHONPATH": str(tmp_path / "site"), **variables}
        where, command = tmp_path / "empty", [sys.executable, *command]
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_two_builds_give_the_same_bytes(builds):
    first, second = builds
    assert second.name == first.name == f"firmlake-{__version__}-py3-none-any.whl"
    assert second.read_bytes() == first.read_bytes()


@pytest.mark.slow
def test_the_demo_runs_in_an_empty_folder_with_its_list_and_its_alert_rules(run):
    rules = ("query", "SELECT count(*) FROM alert_rules", "--data", "data/sandbox", "--format", "csv")
    code = "import firmlake.cli; print(firmlake.__file__); print(firmlake.cli.carry_out(('demo',)))"
    *_, ended, _, count = (told := run("-c", f"{code}; firmlake.cli.carry_out({rules})")).split()
    assert ("/site/" in told.partition("\n")[0], ended) == (True, "0")
    assert int(count) > 5


@pytest.mark.slow
def test_flows_start_as_modules_of_the_package_and_deployments_need_no_checkout(run):
    told = run("-c", _FLOWS, LAKE_HOME="/srv/lake", LAKE_LIST="/srv/list.csv")
    assert told.count("--config FILE") == 5
    *_, name, place = told.split()
    assert (name, "/site/firmlake/flows/" in place) == ("export", True)
