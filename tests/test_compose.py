"""compose.yaml fits the image, the settings and itself. No engine runs here, so it is checked as data."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from firmlake.core.settings import KEYS
from firmlake.core.settings_layers import DEFAULT_FILE, NOT_SETTINGS

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def test_images_are_named_with_a_version_and_without_a_registry():
    for service in SERVICES.values():
        name, _, version = service["image"].partition(":")
        assert version
        assert version != "latest"
        assert "." not in name.split("/")[0], "a registry's host"


def test_services_wait_only_for_services_that_can_tell_that_they_are_ready():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, name
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]


def test_volumes_and_secrets_are_declared():
    for service in SERVICES.values():
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert {name for name in named if not name.startswith(".")} <= set(COMPOSE["volumes"])
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])


def test_our_variables_are_settings_and_what_prefect_yaml_asks_for_is_set():
    known = {"FIRMLAKE_" + key.upper().replace(".", "__") for key in KEYS} | set(NOT_SETTINGS)
    for service in SERVICES.values():
        given = service.get("environment", {})
        assert {name for name in given if name.startswith("FIRMLAKE_")} <= known
    asked = set(re.findall(r"\{\{ \$(\w+) \}\}", (ROOT / "prefect.yaml").read_text()))
    assert asked <= set(SERVICES["deploy"]["environment"])


def test_nothing_secret_stands_in_the_file():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("PASSWORD", "SECRET", "AUTH")):
                assert value.startswith("${"), name


def test_prefects_server_answers_only_those_who_know_its_authentication_string():
    assert SERVICES["server"]["environment"]["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_API_AUTH_STRING}"
    for name in ("deploy", "worker"):
        assert SERVICES[name]["environment"]["PREFECT_API_AUTH_STRING"].startswith("${PREFECT_API_AUTH_STRING:?"), name


def test_the_worker_serves_the_pool_of_the_deployments_and_writes_where_the_image_has_its_volume():
    pools = {each["work_pool"]["name"] for each in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]}
    assert {SERVICES["worker"]["command"][-1]} == pools
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["worker"]["volumes"])
    assert f"VOLUME {mounts['data']}\n" in (ROOT / "Dockerfile").read_text()


def test_the_worker_reads_the_settings_of_this_folder_where_a_command_looks_for_them():
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["worker"]["volumes"])
    home = SERVICES["worker"]["environment"]["LAKE_HOME"]
    assert mounts["./config"] == f"{home}/{DEFAULT_FILE.parent}"
    assert f"WORKDIR {home}\n" in (ROOT / "Dockerfile").read_text()
