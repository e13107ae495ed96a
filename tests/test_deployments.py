"""What is shipped for a server and a container fits the code: entrypoints, parameters, tags, files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
AUTOMATIONS = yaml.safe_load((ROOT / "automations.yaml").read_text())["automations"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each["name"])
def test_a_deployment_names_a_flow_and_its_parameters(deployment):
    module, name = deployment["entrypoint"].removeprefix("firmlake.flows.").split(".")
    found = [
        node
        for node in ast.parse((ROOT / f"flows/{module}.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    typed = found[0].args
    optional = [*typed.args[len(typed.args) - len(typed.defaults) :], *typed.kwonlyargs]
    optional = [
        each.arg for each, default in zip(optional, [*typed.defaults, *typed.kw_defaults], strict=True) if default
    ]
    assert list(deployment["parameters"]) == optional  # a person is asked for the others
    is_part = deployment["name"] == "portfolio"  # of a backfill: each has a data folder of its own
    several, one = {"limit": 4, "collision_strategy": "ENQUEUE"}, {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert deployment["concurrency_limit"] == (several if is_part else one)


def test_the_deployment_by_approval_waits_for_it():
    """The setting is off by default, so contacts were added at once."""
    [found] = [each for each in DEPLOYMENTS if each["name"] == "by-approval"]
    assert found["parameters"]["overrides"] == {"lists.needs_approval": "true"}


def test_every_flow_has_a_deployment():
    entrypoints = {each["entrypoint"].rpartition(".")[0] for each in DEPLOYMENTS}
    flows = {f"firmlake.flows.{path.stem}" for path in (ROOT / "flows").glob("*.py") if "\n@job(" in path.read_text()}
    assert flows == entrypoints


def test_schedules_have_a_time_zone():
    schedules = [schedule for each in DEPLOYMENTS for schedule in each.get("schedules", [])]
    assert schedules
    assert all(schedule["timezone"] for schedule in schedules)


@pytest.mark.parametrize("flow", ["export", "load"])
def test_an_enrichment_that_may_have_published_starts_the_export_and_the_load(flow):
    [started] = [each for each in DEPLOYMENTS if each["entrypoint"].startswith(f"firmlake.flows.{flow}.")]
    [trigger] = started["triggers"]
    assert trigger["expect"] == ["prefect.flow-run.Completed", "prefect.flow-run.Failed"]
    enrich = {each["name"] for each in DEPLOYMENTS if each["entrypoint"] == "firmlake.flows.enrich.enrich"}
    assert trigger["match_related"]["prefect.resource.name"] in enrich
    assert trigger["match_related"]["prefect.resource.role"] == "deployment"


def test_automations_watch_the_runs_that_the_deployments_tag():
    tags = {f"prefect.tag.{tag}" for each in DEPLOYMENTS for tag in each["tags"]}
    related = [each["trigger"]["match_related"] for each in AUTOMATIONS if "match_related" in each["trigger"]]
    assert {each["prefect.resource.id"] for each in related if each["prefect.resource.role"] == "tag"} <= tags
    names = {each["prefect.resource.name"] for each in related if each["prefect.resource.role"] == "deployment"}
    assert names == {"weekly"} <= {each["name"] for each in DEPLOYMENTS}


def test_the_automation_for_a_missing_generation_waits_for_the_event_that_the_flow_emits():
    """From the last event on, or if there never was one; see the comment in the file."""
    [stale] = [each["trigger"] for each in AUTOMATIONS if each["name"] == "firmlake stale"]
    assert [trigger["after"] == trigger["expect"] for trigger in stale["triggers"]] == [True, False]
    text = (ROOT / "flows/artifacts.py").read_text()
    for trigger in stale["triggers"]:
        assert trigger["within"] == stale["within"] == 8 * 86_400
        assert f'"{trigger["expect"][0]}"' in text
        assert f'"{trigger["match"]["prefect.resource.id"].removesuffix("*")}' in text.replace('f"', '"')


def test_names_of_deployments_are_unique_since_triggers_go_by_them():
    names = [each["name"] for each in DEPLOYMENTS]
    assert len(set(names)) == len(names)


def test_the_automation_for_alerts_waits_for_the_event_that_the_flow_emits_and_tells_what_it_has():
    [alerts] = [each for each in AUTOMATIONS if each["name"] == "firmlake alerts"]
    text = (ROOT / "flows/artifacts.py").read_text()
    assert f'"{alerts["trigger"]["expect"][0]}"' in text
    assert "{{ event.payload.text }}" in alerts["actions"][0]["body"]
    assert '"text": text' in text


def test_every_automation_tells_somebody_or_ends_the_run_which_is_told():
    told = {event for each in AUTOMATIONS if each["name"] == "firmlake failed" for event in each["trigger"]["expect"]}
    for automation in AUTOMATIONS:
        [action] = automation["actions"]
        assert action.get("block_document_id") == "BLOCK_ID" or f"prefect.flow-run.{action['state'].title()}" in told


def test_a_pod_mounts_the_data_where_the_image_has_it_and_is_its_user():
    image = (ROOT / "Dockerfile").read_text()
    job = json.loads((ROOT / "config/prefect-kubernetes.json").read_text())["job_configuration"]["job_manifest"]
    pod = job["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert f"VOLUME {mounts['data']}\n" in image
    assert f"USER {pod['securityContext']['runAsUser']}\n" in image
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert "ENTRYPOINT" not in image  # Prefect's workers give the whole command


def test_the_image_is_built_from_the_lock_and_from_files_that_there_are():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    sources = [part.split()[1:-1] for part in lines if part.startswith("COPY ") and "--from" not in part]
    kept = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    for source in (each for sources_of in sources for each in sources_of):
        assert (ROOT / source).exists()
        assert source.removeprefix("./") in kept
    for lock in ("requirements-runtime.lock", "requirements-build.lock"):
        assert any("--require-hashes" in line and lock in line for line in lines)


def test_the_image_holds_what_runs_and_nothing_that_tests():
    runtime, full = (
        {line.split("==")[0] for line in (ROOT / name).read_text().splitlines() if "==" in line and line[0] != " "}
        for name in ("requirements-runtime.lock", "requirements.lock")
    )
    assert runtime < full
    assert not runtime & {"pytest", "moto", "mypy", "ruff", "hypothesis", "flask", "boto3", "schemathesis", "deltalake"}
    assert {"duckdb", "httpx", "polars", "prefect", "pyarrow", "obstore", "psycopg"} <= runtime


def test_locks_hold_hashes_and_no_address():
    for lock in ROOT.glob("requirements*.lock"):
        lines = lock.read_text().splitlines()
        assert not [line for line in lines if "://" in line]
        assert all(line.startswith((" ", "#")) or "==" in line for line in lines)
        assert any("--hash=sha256:" in line for line in lines)
