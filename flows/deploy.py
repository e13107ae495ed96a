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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

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
    """Refuse variables without a value: Prefect would deploy an empty text in their place.

    Raises:
        UsageError: A variable that the file names is not set, empty, or a relative path.
    """
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
        described = yaml.safe_load(_DEPLOYMENTS.read_text())["deployments"]
        for pool in sorted({each["work_pool"]["name"] for each in described}):
            _make_pool(client, pool, pool_type)
        before = {each.id: each for each in client.read_deployments()}
        _deploy_all()
        for after in client.read_deployments():
            if earlier := before.get(after.id):
                keep_changes(client, earlier, after, _templated(described, after.name), force=force)
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


def _deploy_all() -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(_DEPLOYMENTS)]
    done = subprocess.run(  # noqa: S603 - Prefect's own command
        command, env=without_token(os.environ), capture_output=True, text=True
    )
    if done.returncode:
        raise FirmlakeError(
            f"Prefect rejected prefect.yaml: {(done.stderr or done.stdout).strip()}",
            "Correct the file, then deploy again",
        )
    names = [each["name"] for each in yaml.safe_load(_DEPLOYMENTS.read_text())["deployments"]]
    echo(f"Deployments: {', '.join(names)}")


class Change(NamedTuple):
    """Something that the server had before a deployment and that differs from prefect.yaml now.

    Attributes:
        what: A parameter, a schedule, the job variables, or the deployment's pause.
        was: Its value before the deployment.
        is_now: Its value in prefect.yaml.
        restore: Sets it again to what it was; None if prefect.yaml or a variable decides.
    """

    what: str
    was: object
    is_now: object
    restore: Callable[[], object] | None


def keep_changes(
    client: SyncPrefectClient,
    before: DeploymentResponse,
    after: DeploymentResponse,
    templated: set[str],
    *,
    force: bool,
) -> None:
    """Set again what a person had set on the server and the deployment of prefect.yaml has replaced, and say so.

    Args:
        client: The client of the server.
        before: The deployment before.
        after: The deployment as prefect.yaml made it.
        templated: Its parameters that variables of the environment set.
        force: Keep what prefect.yaml says, and only say what that has replaced.
    """
    for what, was, is_now, restore in _find_changes(client, before, after, templated):
        if force or not restore:
            echo(f"{after.name}: {what} {_said(was)} is replaced by {_said(is_now)}")
        else:
            restore()
            echo(f"{after.name}: {what} stays {_said(was)} (prefect.yaml: {_said(is_now)}; --force takes that)")


def _find_changes(
    client: SyncPrefectClient, before: DeploymentResponse, after: DeploymentResponse, templated: set[str]
) -> Iterator[Change]:
    if before.paused != after.paused:
        restore = client.pause_deployment if before.paused else client.resume_deployment
        yield Change("the deployment", _pause(before.paused), _pause(after.paused), partial(restore, after.id))
    parameters = dict(after.parameters)
    for name in after.parameters.keys() & before.parameters.keys():
        was, is_now = before.parameters[name], after.parameters[name]
        if was != is_now:
            set_again = partial(_set_parameter, client, after, parameters, name, was)
            yield Change(f"parameter {name}", was, is_now, None if name in templated else set_again)
    if before.job_variables != after.job_variables:  # without values, since the environment may hold a secret
        yield Change("the set of job variables", "of the server", "that of prefect.yaml", None)
    now = {each.slug: each for each in after.schedules if each.slug}
    for slug in sorted(now.keys() - {each.slug for each in before.schedules}):
        yield Change(f"schedule {slug}", "none", _when(now[slug]), None)  # deleted there, or new in prefect.yaml
    for each in before.schedules:
        if each.slug in now:
            yield from _find_schedule_changes(client, after, each, now[each.slug])
        elif each.id not in {one.id for one in after.schedules}:
            add = partial(client.create_deployment_schedules, after.id, [(each.schedule, bool(each.active))])
            yield Change("a schedule that was added", _when(each), "none", add)


def _find_schedule_changes(
    client: SyncPrefectClient, of: DeploymentResponse, was: DeploymentSchedule, now: DeploymentSchedule
) -> Iterator[Change]:
    update = partial(client.update_deployment_schedule, of.id, now.id)
    if was.schedule != now.schedule:
        yield Change(f"schedule {now.slug}", _when(was), _when(now), partial(update, schedule=was.schedule))
    if was.active != now.active:
        paused = _pause(not was.active), _pause(not now.active)
        yield Change(f"schedule {now.slug}", *paused, partial(update, active=was.active))


def _set_parameter(
    client: SyncPrefectClient, deployment: DeploymentResponse, parameters: dict[str, Any], name: str, value: object
) -> None:
    from prefect.client.schemas.actions import DeploymentUpdate

    parameters[name] = value
    client.update_deployment(deployment.id, DeploymentUpdate(parameters=parameters))


def _templated(described: list[dict[str, Any]], name: str) -> set[str]:
    """Return the parameters of a deployment that variables of the environment set."""
    return {
        parameter
        for each in described if each["name"] == name
        for parameter, value in each.get("parameters", {}).items() if _VARIABLE.search(str(value))
    }  # fmt: skip


def _when(schedule: DeploymentSchedule) -> str:
    """Describe the times of a schedule: `0 3 * * 1 Europe/Brussels`."""
    fields = schedule.schedule.model_dump(mode="json", exclude_none=True)
    return " ".join(str(fields[name]) for name in ("cron", "interval", "rrule", "timezone") if name in fields)


def _pause(is_paused: bool) -> str:
    return "paused" if is_paused else "active"


def _said(value: object) -> str:
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
