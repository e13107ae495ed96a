"""Upkeep is the command of the same name; beside a run it is skipped, and what fails fails the flow with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from firmlake.core.work import lock
from forget.everything import places_of
from support import ACME, publish_list

from .support import FLOWS


@pytest.mark.slow
def test_upkeep_writes_metrics_is_skipped_beside_a_run_and_fails_with_the_line_of_the_command(enrich, tmp_path: Path):
    from prefect.flows import load_flow_from_entrypoint

    upkeep = load_flow_from_entrypoint(f"{FLOWS / 'upkeep.py'}:upkeep")
    folders = Folders(tmp_path / "data")
    overrides = {"paths.data": str(folders.data)}

    def run(command: str, target: str = ""):
        return upkeep(command, target, None, None, overrides, return_state=True)

    for command in ("metrics", "report"):
        early = run(command)
        assert (early.name, early.message) == ("Completed", "Skipped: no run has ended yet")
    assert not folders.data.exists()
    publish_list(folders, [ACME], cells=[{"note": "a cell"}])
    written = run("metrics")
    assert (written.name, written.message) == ("Completed", f"metrics: {folders.data / 'metrics.prom'}")
    assert (folders.data / "metrics.prom").read_text().endswith("# EOF\n")
    skipped = run("archive")
    assert (skipped.name, skipped.message.split(":")[0]) == ("Completed", "Skipped")
    with lock(folders, "a run"):
        beside = run("prune")
    assert (beside.name, beside.message.split(" by ")[0]) == ("Completed", f"Skipped: {folders.data} is in use")
    failed = run("archive", "nowhere://place")
    assert (failed.name, "nowhere" in failed.message) == ("Failed", True)


@pytest.mark.slow
def test_prune_takes_the_days_that_its_settings_name(enrich, folders: Folders):
    from prefect.flows import load_flow_from_entrypoint

    publish_list(
        folders, [ACME, None], cells=[{"note": "a cell"}, {"note": "a refused one"}], given="x", reason="no number"
    )
    upkeep = load_flow_from_entrypoint(f"{FLOWS / 'upkeep.py'}:upkeep")
    overrides = {"paths.data": str(folders.data), "privacy.keep_days.refused_lines": "5"}
    done = upkeep("prune", "", ["--staged-days=90"], None, overrides, return_state=True)
    assert done.name == "Completed", done.message
    assert places_of(folders.data, "a cell")
    assert not places_of(folders.data, "a refused one")
    assert upkeep("verify", "", None, None, overrides, return_state=True).message.startswith(
        "verify: The landed answers"
    )
