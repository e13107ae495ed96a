"""The export flow: what `enrich` published leaves, once; a deployed flow without a place to export to is skipped."""

from __future__ import annotations

import json

import pytest

from .support import FLOWS, settings_for, write_list


@pytest.mark.slow
def test_the_newest_generation_leaves_and_the_second_time_nothing_is_done(run_flow, sandbox, tmp_path, monkeypatch):
    from prefect.flows import load_flow_from_entrypoint

    write_list(tmp_path / "list.csv", 5)
    assert run_flow(tmp_path / "list.csv").state == "Completed"
    export = load_flow_from_entrypoint(f"{FLOWS / 'export.py'}:export")
    overrides = settings_for(sandbox, tmp_path / "data", export__target=tmp_path / "out", export__tables="companies")
    first, again = (export(None, overrides, return_state=True) for _ in range(2))
    assert (first.name, again.name) == ("Completed", "Completed")
    assert "5 rows" in first.message
    assert first.message.startswith("Exported ")
    assert again.message.startswith("Already there")
    assert json.loads((tmp_path / "out/latest.json").read_text())["export_id"] == first.result()
    failed = export(None, settings_for(sandbox, tmp_path / "data"), return_state=True)
    assert (failed.name, failed.message.split(".")[0]) == ("Failed", "No export target is named")
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    skipped = export(None, settings_for(sandbox, tmp_path / "data"), return_state=True)
    assert (skipped.name, skipped.message.split(":")[0], skipped.result()) == ("Completed", "Skipped", "")
