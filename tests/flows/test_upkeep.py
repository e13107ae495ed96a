"""Upkeep is the command of the same name; beside a run it is skipped, and what fails fails the flow with its line."""

from __future__ import annotations

from pathlib import Path

from firmlake.core.folders import Folders
from firmlake.core.lock import lock

from .support import FLOWS


def test_upkeep_writes_metrics_is_skipped_beside_a_run_and_fails_with_the_line_of_the_command(enrich, tmp_path: Path):
    from prefect.flows import load_flow_from_entrypoint

    upkeep = load_flow_from_entrypoint(f"{FLOWS / 'upkeep.py'}:upkeep")
    folders = Folders(tmp_path / "data")
    overrides = {"paths.data": str(folders.data)}

    def run(command: str, target: str = ""):
        return upkeep(command, target, None, None, overrides, return_state=True)

    assert run("metrics").name == "Completed"
    assert (folders.data / "metrics.prom").read_text().endswith("# EOF\n")
    skipped = run("archive")
    assert (skipped.name, skipped.message.split(":")[0]) == ("Completed", "Skipped")
    with lock(folders, "a run"):
        beside = run("prune")
    assert (beside.name, beside.message.split(" by ")[0]) == ("Completed", f"Skipped: {folders.data} is in use")
    failed = run("report")
    assert (failed.name, "does not exist yet" in failed.message) == ("Failed", True)
