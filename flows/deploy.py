"""Create or update everything on a Prefect server: the work pool, the deployments and the automations.

    python flows/deploy.py            # can be repeated: existing objects are updated
    python flows/deploy.py --check    # only checks that the variables in prefect.yaml are set

The command deploys prefect.yaml and applies automations.yaml. Automations send notices to the notification block that
`--block` names, whatever its type. A schedule that was paused or resumed on the server stays so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import UUID

import click
import yaml

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_ROOT = Path(__file__).resolve().parents[1]
_DEPLOYMENTS = _ROOT / "prefect.yaml"
_AUTOMATIONS = _ROOT / "automations.yaml"
_KUBERNETES = _ROOT / "config/prefect-kubernetes.json"
_BLOCK_ID = "BLOCK_ID"
_OPTIONAL = {"LAKE_ARCHIVE"}
"""Variables whose deployments are skipped while they are empty."""
_VARIABLE = re.compile(r"\{\{\s*\$(\w+)\s*\}\}")
_BLOCKS_MAX = 200


@click.command()
@click.option(
    "--block", default="firmlake-notice", show_default=True, help="Notification block to send notifications to."
)
@click.option("--pool-type", default="process", show_default=True, help="Type of a work pool that does not exist yet.")
@click.option("--check", is_flag=True, help="Only check that the variables are set.")
def deploy(block: str, pool_type: str, check: bool) -> NoReturn:
    """Create or update the work pool, the deployments and the automations on the server that PREFECT_API_URL names."""
    try:
        _check_variables(_DEPLOYMENTS.read_text())
        if not check:
            _apply(block, pool_type)
    except FirmlakeError as error:
        echo(f"firmlake: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    sys.exit(0)


def _check_variables(text: str) -> None:
    """Refuse variables without a value: Prefect would deploy an empty text in their place.

    Raises:
        UsageError: A variable that the file names is not set, empty, or a relative path.
    """
    if unset := sorted(
        {name for name in {*_VARIABLE.findall(text)} - _OPTIONAL if not os.environ.get(name, "").strip()}
    ):
        raise UsageError(
            f"Nothing is deployed: {' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set",
            "Set LAKE_HOME to the folder of this clone and LAKE_LIST to the company list, as the worker sees them",
        )
    for name in set(_VARIABLE.findall(text)):
        value = os.environ.get(name, "").strip()
        if value and "://" not in value and not Path(value).is_absolute():
            raise UsageError(
                f"Nothing is deployed: {name} is {value}, relative to a folder that the worker does not know",
                "Give the whole path, as the worker sees it",
            )


def _apply(block: str, pool_type: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url:
        raise UsageError("No Prefect server is named", "Set PREFECT_API_URL, such as http://127.0.0.1:4200/api")
    with get_client(sync_client=True) as client:
        if client.api_healthcheck():
            raise FirmlakeError(f"Prefect's server at {client.api_url} does not answer", "Start it, then deploy again")
        described = yaml.safe_load(_DEPLOYMENTS.read_text())["deployments"]
        for pool in sorted({each["work_pool"]["name"] for each in described}):
            _make_pool(client, pool, pool_type)
        active = _read_schedules(client)
        _deploy_all()
        _restore_schedules(client, active)
        notices = _find_block(client, block)
        for made in yaml.safe_load(_AUTOMATIONS.read_text())["automations"]:
            _put_automation(client, made, notices)
    if notices is None:
        echo(
            f"No notifications are sent: the server has no notification block named {block}. Create one on its page "
            "Blocks (Slack, Microsoft Teams, e-mail, webhook), then run this again",
            err=True,
        )


def _make_pool(client: SyncPrefectClient, name: str, kind: str) -> None:
    """Create a work pool, or bring the job template of a Kubernetes pool up to date."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    template = cast("dict[str, Any]", json.loads(_KUBERNETES.read_text()))
    try:
        found = client.read_work_pool(name)
    except ObjectNotFound:
        wanted = template if kind == "kubernetes" else {}  # {} selects the default of Prefect for the type
        client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=wanted))
        echo(f"Work pool {name}: created, type {kind}")
        return
    if found.type == "kubernetes" and found.base_job_template != template:
        client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
        echo(f"Work pool {name}: updated")


def _deploy_all() -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(_DEPLOYMENTS)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)  # noqa: S603 - Prefect's own command
    if done.returncode:
        raise FirmlakeError(
            f"Prefect rejected prefect.yaml: {(done.stderr or done.stdout).strip()}",
            "Correct the file, then deploy again",
        )
    names = [each["name"] for each in yaml.safe_load(_DEPLOYMENTS.read_text())["deployments"]]
    echo(f"Deployments: {', '.join(names)}")


def _read_schedules(client: SyncPrefectClient) -> dict[tuple[UUID, str | None], bool]:
    """Read which schedules are active, by deployment and slug."""
    found = client.read_deployments()
    return {(each.id, schedule.slug): schedule.active for each in found for schedule in each.schedules}


def _restore_schedules(client: SyncPrefectClient, active: dict[tuple[UUID, str | None], bool]) -> None:
    """Pause or resume schedules as they were: Prefect sets those in prefect.yaml to what the file says."""
    for deployment in client.read_deployments():
        for schedule in deployment.schedules:
            was_active = active.get((deployment.id, schedule.slug), schedule.active)
            if was_active != schedule.active:
                client.update_deployment_schedule(deployment.id, schedule.id, active=was_active)
                echo(f"Schedule of {deployment.name}: stays {'active' if was_active else 'paused'}")


def _find_block(client: SyncPrefectClient, name: str) -> str | None:
    """Find the id of a notification block by its name alone."""
    blocks = client.request("POST", "/block_documents/filter", json={"limit": _BLOCKS_MAX}).json()
    return next((str(each["id"]) for each in blocks if each["name"] == name), None)


def _put_automation(client: SyncPrefectClient, described: dict[str, Any], block: str | None) -> None:
    """Create an automation, or update the one with its name and remove others with this name.

    One that has not changed is left alone: an update would begin its time to wait anew.
    """
    from prefect.events.schemas.automations import AutomationCore

    name = described["name"]
    if block is None and any(_BLOCK_ID in map(str, action.values()) for action in described["actions"]):
        echo(f"Automation {name}: skipped, because it needs a notification block")
        return
    actions = [
        {**each, **({"block_document_id": block} if "block_document_id" in each else {})}
        for each in described["actions"]
    ]
    wanted = AutomationCore.model_validate({**described, "actions": actions})
    found = client.read_automations_by_name(name)
    for other in found[1:]:
        client.delete_automation(other.id)
    if not found:
        client.create_automation(wanted)
    elif is_changed := wanted != AutomationCore.model_validate(found[0].model_dump(exclude={"id"})):
        client.update_automation(found[0].id, wanted)
    echo(f"Automation {name}: {'created' if not found else 'updated' if is_changed else 'unchanged'}")


if __name__ == "__main__":
    deploy()
