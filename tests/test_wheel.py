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
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def build(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=60)
    [wheel] = folder.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel") / "first")


@pytest.fixture
def run(wheel: Path, tmp_path: Path):
    """Run a command in an empty folder, where the unpacked wheel comes before the checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIRMLAKE_", "LAKE_"))}

    def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**kept, "PYTHONPATH": str(tmp_path / "site"), **variables}
        where = tmp_path / "empty"
        return subprocess.run(
            [sys.executable, *command], cwd=where, env=environment, capture_output=True, text=True, timeout=100
        )

    return run


def test_two_builds_give_the_same_bytes(wheel: Path, tmp_path: Path):
    again = build(tmp_path / "second")
    assert again.name == wheel.name == f"firmlake-{__version__}-py3-none-any.whl"
    assert again.read_bytes() == wheel.read_bytes()


def test_the_demo_runs_in_an_empty_folder_with_its_list_and_its_alert_rules(run):
    assert run("-c", "import firmlake; print(firmlake.__file__)").stdout.count("/site/")
    done = run("-m", "firmlake", "demo")
    assert done.returncode == 0, done.stderr
    rules = run(
        "-m", "firmlake", "query", "SELECT count(*) FROM alert_rules", "--data", "data/sandbox", "--format", "csv"
    )
    assert int(rules.stdout.split()[-1]) > 5, rules.stderr


@pytest.mark.parametrize("flow", ["enrich", "backfill", "replay", "service_lists", "add_contacts"])
def test_a_flow_starts_as_a_module_of_the_package(run, flow: str):
    done = run("-m", f"firmlake.flows.{flow}", "--help")
    assert (done.returncode, "--config FILE" in done.stdout) == (0, True), done.stderr


def test_deployments_need_no_checkout(run):
    done = run("-m", "firmlake.flows.deploy", "--check", LAKE_HOME="/srv/lake", LAKE_LIST="/srv/list.csv")
    assert done.returncode == 0, done.stderr
    load = "import sys; from prefect.flows import load_flow_from_entrypoint as load; flow = load(sys.argv[1])"
    done = run("-c", f"{load}; print(flow.name, flow.fn.__code__.co_filename)", "firmlake.flows.export.export")
    assert done.stdout.startswith("export "), done.stderr
    assert "/site/firmlake/flows/" in done.stdout
