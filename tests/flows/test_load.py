"""The load flow: what is published leaves once; a deployed flow without a target is skipped."""

from __future__ import annotations

import duckdb
import pytest

from delivery.conftest import add_week

from .support import FLOWS


@pytest.mark.slow
def test_the_newest_generation_is_loaded_and_the_second_time_nothing_is_done(enrich, folders, tmp_path, monkeypatch):
    from prefect.flows import load_flow_from_entrypoint

    add_week(folders, 0)
    load = load_flow_from_entrypoint(f"{FLOWS / 'load.py'}:load")
    data = {"paths.data": str(folders.data)}
    overrides = {**data, "load.target": f"duckdb:{tmp_path / 'target.duckdb'}", "load.tables": "companies,runs"}
    first, again = (load(overrides=overrides, return_state=True) for _ in range(2))
    assert [(state.name, state.message.split(":")[0]) for state in (first, again)] == [
        ("Completed", "Loaded into duckdb"),
        ("Completed", "Already there"),
    ]
    with duckdb.connect(str(tmp_path / "target.duckdb")) as target:
        assert target.execute("SELECT load_id FROM firmlake._firmlake_loads").fetchall() == [(first.result(),)]
    failed = load(overrides=data, return_state=True)
    assert (failed.name, failed.message.split(".")[0]) == ("Failed", "No target is named")
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    skipped = load(overrides=data, return_state=True)
    assert (skipped.name, skipped.message.split(":")[0], skipped.result()) == ("Completed", "Skipped", "")
    empty = {**overrides, "paths.data": str(tmp_path / "new")}
    skipped = load(overrides=empty, return_state=True)
    assert (skipped.name, skipped.message) == ("Completed", "Skipped: no run has ended yet")
