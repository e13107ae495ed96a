"""The Kubernetes job template makes a job that Kubernetes accepts, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate")

TEMPLATE = json.loads((Path(__file__).parents[1] / "config/prefect-kubernetes.json").read_text())
GIVEN = {
    "name": "weekly-customers",
    "command": ["prefect", "flow-run", "execute"],
    "env": [{"name": "PREFECT_API_URL", "value": "http://prefect:4200/api"}],
    "labels": {"prefect.io/flow-name": "enrich"},
}


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    """The job of a run, as the worker makes it of the template and the default values of its variables."""
    from prefect.utilities.templating import apply_values

    defaults = {key: each["default"] for key, each in TEMPLATE["variables"]["properties"].items() if "default" in each}
    made: dict[str, Any] = apply_values(TEMPLATE["job_configuration"]["job_manifest"], defaults | GIVEN)
    return made


def test_the_job_fits_the_schema(job: dict[str, Any]):
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    assert "{{" not in json.dumps(job)


def test_a_field_in_the_wrong_place_is_found(job: dict[str, Any]):
    wrong = json.loads(json.dumps(job))
    wrong["spec"]["template"]["spec"]["parallelism"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_a_pod_has_limits_and_no_rights(job: dict[str, Any]):
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert all(container["resources"][kind].keys() == {"cpu", "memory"} for kind in ("limits", "requests"))
    assert (pod["securityContext"]["runAsNonRoot"], pod["restartPolicy"]) == (True, "Never")
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert job["spec"]["backoffLimit"] == 0, "Prefect decides whether a run is repeated"


def test_all_pods_with_the_same_claim_share_a_node(job: dict[str, Any]):
    """The parent of a backfill and its portfolios use one claim at the same time, and one lock of one kernel."""
    template = job["spec"]["template"]
    [rule] = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    [claim] = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in template["spec"]["volumes"]
        if volume["name"] == "data"
    ]
    assert template["metadata"]["labels"] == {"firmlake.data-claim": claim}
