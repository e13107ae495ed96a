"""The flows that hand data on: what is published leaves once; a deployed flow without a target is skipped."""

from __future__ import annotations

import pytest

from delivery.conftest import add_week

from .support import FLOWS

# The flow, its settings beside the data folder, and the beginnings of its messages: done, done before, no target.
DELIVERIES = [
    ("load", {"target": "duckdb:{}/target.duckdb", "tables": "runs"}, "Loaded into duckdb", "No target is named"),
    ("export", {"target": "{}/out", "tables": "companies"}, "Exported ", "No export target is named"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings", "done", "no_target"), DELIVERIES)
def test_the_newest_generation_leaves_and_the_second_time_nothing_is_done(
    enrich, folders, tmp_path, monkeypatch, name, settings, done, no_target
):
    from prefect.flows import load_flow_from_entrypoint

    add_week(folders, 0)
    flow = load_flow_from_entrypoint(f"{FLOWS / name}.py:{name}")
    data = {"paths.data": str(folders.data)}
    overrides = {**data, **{f"{name}.{key}": value.format(tmp_path) for key, value in settings.items()}}
    first, again = (flow(overrides=overrides, return_state=True) for _ in range(2))
    assert [state.name for state in (first, again)] == ["Completed", "Completed"]
    assert first.message.startswith(done)
    assert again.message.startswith("Already there")
    assert first.result()
    failed = flow(overrides=data, return_state=True)
    assert (failed.name, failed.message.split(".")[0]) == ("Failed", no_target)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    skipped = flow(overrides=data, return_state=True)
    assert (skipped.name, skipped.message.split(":")[0], skipped.result()) == ("Completed", "Skipped", "")
    empty = {**overrides, "paths.data": str(tmp_path / "new")}
    skipped = flow(overrides=empty, return_state=True)
    assert (skipped.name, skipped.message) == ("Completed", "Skipped: no run has ended yet")
