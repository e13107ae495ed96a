"""Create or update everything on a Prefect server: the work pool, the deployments and the automations.

    python -m firmlake.flows.deploy            # can be repeated: existing objects are updated
    python -m firmlake.flows.deploy --check    # only checks that the variables in prefect.yaml are set
    python -m firmlake.flows.deploy --force    # also takes back what somebody changed on the server

The command deploys prefect.yaml and applies automations.yaml. Automations send notices to the notification block that
`--block` names, whatever its type. What a person set on the server stays: a paused deployment, parameters, schedules, a
disabled automation. Each is named on a line of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click
import yaml

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.process import without_token
from firmlake.terminal.echo import echo

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import DeploymentSchedule
    from prefect.client.schemas.responses import DeploymentResponse

_ROOT = Path(__file__).resolve().parents[1]
"""The top of the checkout, or the folder of the installed package, to which the wheel adds the files below."""
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
@click.option("--force", is_flag=True, help="Take prefect.yaml's values where somebody changed them on the server.")
def deploy(block: str, pool_type: str, check: bool, force: bool) -> NoReturn:
    """Create or update the work pool, the deployments and the automations on the server that PREFECT_API_URL names."""
    try:
        _check_variables(_DEPLOYMENTS.read_text())
        if not check:
            _apply(block, pool_type, force=force)
    except FirmlakeError as error:
        echo(f"firmlake: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    sys.exit(0)


def _check_variables(text: str) -> None:
    """Refuse variables with a relative path, or without a value, in whose place Prefect would deploy an empty text."""
    if unset := sorted(
        {name for name in {*_VARIABLE.findall(text)} - _OPTIONAL if not os.environ.get(name, "").strip()}
    ):
        raise UsageError(
            f"Nothing is deployed: {' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} not set",
            "Set LAKE_HOME to the folder of config/ and data/, LAKE_LIST to the company list, as the worker sees them",
        )
    for name in set(_VARIABLE.findall(text)):
        value = os.environ.get(name, "").strip()
        if value and "://" not in value and not Path(value).is_absolute():
            raise UsageError(
                f"Nothing is deployed: {name} is {value}, relative to a folder that the worker does not know",
                "Give the whole path, as the worker sees it",
            )


def _apply(block: str, pool_type: str, *, force: bool) -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url:
        raise UsageError("No Prefect server is named", "Set PREFECT_API_URL, such as http://127.0.0.1:4200/api")
    with get_client(sync_client=True) as client:
        if client.api_healthcheck():
            raise FirmlakeError(f"Prefect's server at {client.api_url} does not answer", "Start it, then deploy again")
        file = yaml.safe_load(_DEPLOYMENTS.read_text())
        for pool in sorted({each["work_pool"]["name"] for each in file["deployments"]}):
            _make_pool(client, pool, pool_type)
        known = {(each.name, each.entrypoint): each for each in client.read_deployments()}
        file["deployments"] = [
            with_changes(each, known.get((each["name"], each["entrypoint"])), force=force)
            for each in file["deployments"]
        ]
        _deploy_all(file)
        notices = _find_block(client, block)
        for made in yaml.safe_load(_AUTOMATIONS.read_text())["automations"]:
            _put_automation(client, made, notices, force=force)
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


def _deploy_all(file: dict[str, Any]) -> None:
    with NamedTemporaryFile("w", suffix=".yaml") as written:
        yaml.safe_dump(file, written)
        written.flush()
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", written.name]
        done = subprocess.run(  # noqa: S603 - Prefect's own command
            command, env=without_token(os.environ), capture_output=True, text=True
        )
    if done.returncode:
        raise FirmlakeError(
            f"Prefect rejected prefect.yaml: {(done.stderr or done.stdout).strip()}",
            "Correct the file, then deploy again",
        )
    echo(f"Deployments: {', '.join(each['name'] for each in file['deployments'])}")


def with_changes(described: dict[str, Any], server: DeploymentResponse | None, *, force: bool) -> dict[str, Any]:
    """Put into a deployment of prefect.yaml what a person set on the server, and name each difference.

    Parameters that a variable of the environment sets follow the variable. A schedule that the server lacks comes back.
    `server` is None for a new deployment. `force` keeps what prefect.yaml says, and only names what that replaces.
    """
    if server is None:
        return described
    parameters = described["parameters"]
    free = {name for name, value in parameters.items() if not _VARIABLE.search(str(value))}
    file = {
        "the deployment": _pause(bool(described.get("paused"))),
        **{f"parameter {name}": parameters[name] for name in free},
        **{f"schedule {each['slug']}": each for each in described.get("schedules", ())},
    }
    changed = {
        "the deployment": _pause(server.paused),
        **{f"parameter {name}": value for name, value in server.parameters.items() if name in free},
        **{f"schedule {each['slug']}": each for each in map(_as_in_file, server.schedules)},
    }
    for what in sorted(file.keys() | changed.keys()):
        was, is_now = _said(changed.get(what, "none")), _said(file.get(what, "none"))
        if was != is_now and (force or what not in changed):
            echo(f"{server.name}: {what} {was} is replaced by {is_now}")
        elif was != is_now:
            echo(f"{server.name}: {what} stays {was} (prefect.yaml: {is_now}; --force takes that)")
    kept = file if force else {**file, **changed}
    return {
        **described,
        "paused": kept["the deployment"] == _pause(True),
        "parameters": {**parameters, **{name: kept[f"parameter {name}"] for name in free}},
        "schedules": [value for what, value in kept.items() if what.startswith("schedule ")],
    }


def _as_in_file(schedule: DeploymentSchedule) -> dict[str, Any]:
    fields = schedule.schedule.model_dump(mode="json", exclude_defaults=True)
    return {**fields, "slug": schedule.slug or str(schedule.id), "active": bool(schedule.active)}


def _pause(is_paused: bool) -> str:
    return "paused" if is_paused else "active"


def _said(value: object) -> str:
    """Describe a value of a deployment; a schedule by its times, such as `0 3 * * 1 Europe/Brussels`."""
    if isinstance(value, dict) and "slug" in value:
        times = (str(value[name]) for name in ("cron", "interval", "rrule", "timezone") if name in value)
        return f"{' '.join(times)}{'' if value['active'] else ', paused'}"
    return value if isinstance(value, str) and value else json.dumps(value)


def _find_block(client: SyncPrefectClient, name: str) -> str | None:
    """Find the id of a notification block by its name alone."""
    blocks = client.request("POST", "/block_documents/filter", json={"limit": _BLOCKS_MAX}).json()
    return next((str(each["id"]) for each in blocks if each["name"] == name), None)


def _put_automation(
    client: SyncPrefectClient, described: dict[str, Any], block: str | None, *, force: bool = False
) -> None:
    """Create an automation, or update the one with its name and remove others with this name.

    One that has not changed is left alone: an update would begin its time to wait anew. One that somebody disabled
    stays so.
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
    if found and found[0].enabled != wanted.enabled:
        was, is_now = _pause(not found[0].enabled), _pause(not wanted.enabled)
        echo(
            f"Automation {name}: {was} is replaced by {is_now}"
            if force
            else f"Automation {name}: stays {was} (automations.yaml: {is_now}; --force takes that)"
        )
        wanted = wanted if force else wanted.model_copy(update={"enabled": found[0].enabled})
    for other in found[1:]:
        client.delete_automation(other.id)
    if not found:
        client.create_automation(wanted)
    elif is_changed := wanted != AutomationCore.model_validate(found[0].model_dump(exclude={"id"})):
        client.update_automation(found[0].id, wanted)
    echo(f"Automation {name}: {'created' if not found else 'updated' if is_changed else 'unchanged'}")


if __name__ == "__main__":
    deploy()
