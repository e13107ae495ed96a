"""What is shipped for a server, a container and a monitor fits the code and itself: data that nobody runs here."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from firmlake.core.settings import KEYS
from firmlake.core.settings_layers import DEFAULT_FILE, NOT_SETTINGS
from firmlake.report import status

ROOT = Path(__file__).parents[1]


def read(name):
    return (ROOT / name).read_text()


DEPLOYMENTS = yaml.safe_load(read("prefect.yaml"))["deployments"]
AUTOMATIONS = {each["name"]: each for each in yaml.safe_load(read("automations.yaml"))["automations"]}
COMPOSE = yaml.safe_load(read("compose.yaml"))
SERVICES = COMPOSE["services"]
JOB = json.loads(read("config/prefect-kubernetes.json"))
RULES = [rule for group in yaml.safe_load(read("config/prometheus-rules.yml"))["groups"] for rule in group["rules"]]
IMAGE = read("Dockerfile")

# --- deployments and automations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each["name"])
def test_a_deployment_names_a_flow_and_its_parameters(deployment):
    module, name = deployment["entrypoint"].removeprefix("firmlake.flows.").split(".")
    nodes = ast.parse(read(f"flows/{module}.py")).body
    typed = next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name).args
    optional = [*typed.args[len(typed.args) - len(typed.defaults) :], *typed.kwonlyargs]
    defaults = [*typed.defaults, *typed.kw_defaults]
    optional = [each.arg for each, default in zip(optional, defaults, strict=True) if default]
    assert list(deployment["parameters"]) == optional  # a person is asked for the others
    is_part = deployment["name"] == "portfolio"  # of a backfill: each has a data folder of its own
    several, one = {"limit": 4, "collision_strategy": "ENQUEUE"}, {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert deployment["concurrency_limit"] == (several if is_part else one)


def test_every_flow_has_a_deployment_whose_name_is_unique_and_whose_schedule_has_a_time_zone():
    entrypoints = {each["entrypoint"].rpartition(".")[0] for each in DEPLOYMENTS}
    flows = {f"firmlake.flows.{path.stem}" for path in (ROOT / "flows").glob("*.py") if "\n@job(" in path.read_text()}
    assert flows == entrypoints
    names = [each["name"] for each in DEPLOYMENTS]
    assert len(set(names)) == len(names), "triggers go by them"
    schedules = [schedule for each in DEPLOYMENTS for schedule in each.get("schedules", [])]
    assert schedules
    assert all(schedule["timezone"] for schedule in schedules)
    (by_approval,) = [each for each in DEPLOYMENTS if each["name"] == "by-approval"]
    assert by_approval["parameters"]["overrides"] == {"lists.needs_approval": "true"}, "it is off by default"


@pytest.mark.parametrize("flow", ["export", "load"])
def test_an_enrichment_that_may_have_published_starts_the_export_and_the_load(flow):
    [started] = [each for each in DEPLOYMENTS if each["entrypoint"] == f"firmlake.flows.deliveries.{flow}"]
    [trigger] = started["triggers"]
    assert trigger["expect"] == ["prefect.flow-run.Completed", "prefect.flow-run.Failed"]
    enrich = {each["name"] for each in DEPLOYMENTS if each["entrypoint"] == "firmlake.flows.enrich.enrich"}
    assert trigger["match_related"]["prefect.resource.name"] in enrich
    assert trigger["match_related"]["prefect.resource.role"] == "deployment"


def test_automations_watch_the_runs_that_the_deployments_tag():
    tags = {f"prefect.tag.{tag}" for each in DEPLOYMENTS for tag in each["tags"]}
    triggers = [each["trigger"] for each in AUTOMATIONS.values()]
    related = [each["match_related"] for each in triggers if "match_related" in each]
    assert {each["prefect.resource.id"] for each in related if each["prefect.resource.role"] == "tag"} <= tags
    names = {each["prefect.resource.name"] for each in related if each["prefect.resource.role"] == "deployment"}
    assert names == {"weekly"} <= {each["name"] for each in DEPLOYMENTS}


def test_automations_wait_for_the_events_that_the_flow_emits_and_tell_somebody_or_end_the_run_which_is_told():
    text = read("flows/artifacts.py")
    stale, alerts = (AUTOMATIONS[f"firmlake {name}"]["trigger"] for name in ("stale", "alerts"))
    # From the last event on, or if there never was one; see the comment in the file.
    assert [trigger["after"] == trigger["expect"] for trigger in stale["triggers"]] == [True, False]
    for trigger in stale["triggers"]:
        assert trigger["within"] == stale["within"] == 8 * 86_400
        assert f'"{trigger["expect"][0]}"' in text
        assert f'"{trigger["match"]["prefect.resource.id"].removesuffix("*")}' in text.replace('f"', '"')
    assert f'"{alerts["expect"][0]}"' in text
    assert "{{ event.payload.text }}" in AUTOMATIONS["firmlake alerts"]["actions"][0]["body"]
    assert '"text": text' in text
    for automation in AUTOMATIONS.values():
        [action] = automation["actions"]
        told = AUTOMATIONS["firmlake failed"]["trigger"]["expect"]
        assert action.get("block_document_id") == "BLOCK_ID" or f"prefect.flow-run.{action['state'].title()}" in told


# --- the image and its locks -----------------------------------------------------------------------------------------


def test_the_image_is_built_from_the_lock_and_from_files_that_there_are():
    lines = IMAGE.splitlines()
    copied = [part.split()[1:-1] for part in lines if part.startswith("COPY ") and "--from" not in part]
    kept = {line.removeprefix("!") for line in read(".dockerignore").splitlines() if line.startswith("!")}
    for source in (each for sources in copied for each in sources):
        assert (ROOT / source).exists()
        assert source.removeprefix("./") in kept
    for lock in ("requirements-runtime.lock", "requirements-build.lock"):
        assert any("--require-hashes" in line and lock in line for line in lines)


def test_the_image_holds_what_runs_and_nothing_that_tests_and_locks_hold_hashes_and_no_address():
    runtime, full = (
        {line.split("==")[0] for line in read(name).splitlines() if "==" in line and line[0] != " "}
        for name in ("requirements-runtime.lock", "requirements.lock")
    )
    assert runtime < full
    assert not runtime & {"pytest", "moto", "mypy", "ruff", "hypothesis", "flask", "boto3", "schemathesis", "deltalake"}
    assert {"duckdb", "httpx", "polars", "prefect", "pyarrow", "obstore", "psycopg"} <= runtime
    for lock in ROOT.glob("requirements*.lock"):
        lines = lock.read_text().splitlines()
        assert not [line for line in lines if "://" in line]
        assert all(line.startswith((" ", "#")) or "==" in line for line in lines)
        assert any("--hash=sha256:" in line for line in lines)


# --- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job():
    """The job of a run, as the worker makes it of the template and the default values of its variables."""
    from prefect.utilities.templating import apply_values

    given = {
        "name": "weekly-customers",
        "command": ["prefect", "flow-run", "execute"],
        "env": [{"name": "PREFECT_API_URL", "value": "http://prefect:4200/api"}],
        "labels": {"prefect.io/flow-name": "enrich"},
    }
    defaults = {key: each["default"] for key, each in JOB["variables"]["properties"].items() if "default" in each}
    return apply_values(JOB["job_configuration"]["job_manifest"], defaults | given)


def test_the_job_fits_the_schema_and_a_field_in_the_wrong_place_is_found(job):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    assert "{{" not in json.dumps(job)
    wrong = json.loads(json.dumps(job))
    wrong["spec"]["template"]["spec"]["parallelism"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_a_pod_has_limits_no_rights_and_the_user_and_volume_of_the_image_and_shares_the_node_of_its_claim(job):
    template = job["spec"]["template"]
    pod, [container] = template["spec"], template["spec"]["containers"]
    assert all(container["resources"][kind].keys() == {"cpu", "memory"} for kind in ("limits", "requests"))
    assert (pod["securityContext"]["runAsNonRoot"], pod["restartPolicy"]) == (True, "Never")
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert job["spec"]["backoffLimit"] == 0, "Prefect decides whether a run is repeated"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"VOLUME {mounts['data']}\n" in IMAGE
    assert f"USER {pod['securityContext']['runAsUser']}\n" in IMAGE
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert "ENTRYPOINT" not in IMAGE  # Prefect's workers give the whole command
    # The parent of a backfill and its portfolios use one claim at the same time, and one lock of one kernel.
    [rule] = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    [claim] = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if volume["name"] == "data"]
    assert template["metadata"]["labels"] == {"firmlake.data-claim": claim}


# --- compose.yaml ----------------------------------------------------------------------------------------------------


def test_services_have_versions_wait_for_what_can_tell_that_it_is_ready_and_name_what_is_declared():
    for name, service in SERVICES.items():
        image, _, version = service["image"].partition(":")
        assert version not in ("", "latest")
        assert "." not in image.split("/")[0], "a registry's host"
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, name
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert {volume for volume in named if not volume.startswith(".")} <= set(COMPOSE["volumes"])
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])


def test_our_variables_are_settings_what_prefect_yaml_asks_for_is_set_and_nothing_secret_stands_there():
    known = {"FIRMLAKE_" + key.upper().replace(".", "__") for key in KEYS} | set(NOT_SETTINGS)
    for service in SERVICES.values():
        given = service.get("environment", {})
        assert {name for name in given if name.startswith("FIRMLAKE_")} <= known
        for name, value in given.items():
            assert value.startswith("${") or not re.search("PASSWORD|SECRET|AUTH", name), name
    asked = set(re.findall(r"\{\{ \$(\w+) \}\}", read("prefect.yaml")))
    assert asked <= set(SERVICES["deploy"]["environment"])
    assert SERVICES["server"]["environment"]["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_API_AUTH_STRING}"
    for name in ("deploy", "worker"):
        assert SERVICES[name]["environment"]["PREFECT_API_AUTH_STRING"].startswith("${PREFECT_API_AUTH_STRING:?"), name


def test_the_worker_serves_the_pool_writes_where_the_image_has_its_volume_and_reads_the_settings_of_this_folder():
    worker = SERVICES["worker"]
    assert {worker["command"][-1]} == {each["work_pool"]["name"] for each in DEPLOYMENTS}
    mounts, home = dict(volume.split(":")[:2] for volume in worker["volumes"]), worker["environment"]["LAKE_HOME"]
    assert f"VOLUME {mounts['data']}\n" in IMAGE
    assert mounts["./config"] == f"{home}/{DEFAULT_FILE.parent}"
    assert f"WORKDIR {home}\n" in IMAGE


# --- alerts and the dashboard ----------------------------------------------------------------------------------------


def test_every_alert_and_panel_asks_for_metrics_that_are_written():
    # Some metrics are only there under some conditions, so the names are taken from the source.
    named = re.findall(r'(?:yield|yield \(\n\s+|\n    \()\s*"(\w+)"', Path(status.__file__).read_text())
    names = {*named, "oldest_answer_timestamp_seconds", "newest_answer_timestamp_seconds"}
    board = json.loads(read("config/grafana-dashboard.json"))
    assert len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    asked = [[target["expr"] for panel in board["panels"] for target in panel["targets"]], [r["expr"] for r in RULES]]
    for expressions in asked:
        found = {name for expression in expressions for name in re.findall(r"firmlake_(\w+)", expression)}
        assert found
        assert found <= names, found - names


def test_every_alert_says_what_it_is_and_links_to_a_heading_of_the_runbook():
    headings = re.findall(r"^#+ (.+)$", read("docs/runbook.md"), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for rule in RULES:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (page, anchor in anchors) == ("docs/runbook.md", True), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
