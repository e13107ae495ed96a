"""`python -m firmlake.flows.deploy`: nothing without its variables; the same automations however often it runs."""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from firmlake.core.errors import UsageError

from .conftest import load_flow
from .support import ROOT

TIMES = (("0 3 * * 1", True, "night"), ("0 6 * * *", False, "morning"), ("0 12 * * *", True, "noon"))
AUTOMATIONS = yaml.safe_load((ROOT / "automations.yaml").read_text())["automations"]


def test_a_variable_without_a_value_is_refused_before_a_server_is_asked(flow_modules, monkeypatch):
    from deploy import deploy

    monkeypatch.setenv("LAKE_HOME", str(ROOT))
    for value in ("", " "):
        monkeypatch.setenv("LAKE_LIST", value)
        ended = CliRunner().invoke(deploy, [])
        assert (ended.exit_code, "LAKE_LIST is not set" in ended.stderr) == (2, True)
    monkeypatch.setenv("LAKE_LIST", "lists/list.csv")
    ended = CliRunner().invoke(deploy, ["--check"])
    assert (ended.exit_code, "LAKE_LIST is lists/list.csv, relative" in ended.stderr) == (2, True)
    for value in ("/srv/list.csv", "s3://lists/list.csv"):
        monkeypatch.setenv("LAKE_LIST", value)
        assert CliRunner().invoke(deploy, ["--check"]).exit_code == 0


def test_every_variable_of_the_file_is_asked_for(flow_modules, monkeypatch):
    from deploy import _check_variables

    named = set(re.findall(r"\$\{?(LAKE_\w+)", (ROOT / "prefect.yaml").read_text()))
    for name in named:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as refused:
        _check_variables((ROOT / "prefect.yaml").read_text())
    assert all(name in refused.value.message for name in named - {"LAKE_ARCHIVE"})


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_what_a_person_set_on_the_server_stays_and_is_named(prefect, capsys, force):
    """Otherwise a deployment after an upgrade would start runs that somebody has paused, and lift their budgets."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
    from prefect.client.schemas.schedules import CronSchedule

    from deploy import keep_changes

    tuesday = CronSchedule(cron="15 5 * * 2", timezone="UTC")
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(load_flow("enrich"))

        def deploy(company_list):
            schedules = [
                DeploymentScheduleCreate(schedule=CronSchedule(cron=cron, timezone="UTC"), active=active, slug=slug)
                for cron, active, slug in TIMES
            ]
            parameters = {"company_list": company_list, "max_credits": None, "sql": ""}
            deployment_id = client.create_deployment(
                flow_id,
                name="kept",
                schedules=schedules,
                parameters=parameters,
                paused=False,
                job_variables={"env": {}},
            )
            return client.read_deployment(deployment_id)

        made = deploy("old.csv")
        given = {"company_list": "mine.csv", "max_credits": 500, "sql": ""}
        client.update_deployment(made.id, DeploymentUpdate(parameters=given, job_variables={"env": {"KEY": "secret"}}))
        morning, night, noon = sorted(made.schedules, key=lambda each: str(each.slug))
        client.delete_deployment_schedule(made.id, noon.id)
        client.update_deployment_schedule(made.id, night.id, schedule=tuesday)
        client.update_deployment_schedule(made.id, morning.id, active=True)
        client.pause_deployment(made.id)
        before = client.read_deployment(made.id)
        keep_changes(client, before, deploy("new.csv"), {"company_list"}, force=force)
        after = client.read_deployment(made.id)
        times = {each.slug: (each.schedule.cron, each.active) for each in after.schedules}
        client.delete_deployment(made.id)
    told = sorted(capsys.readouterr().out.splitlines())
    if force:
        assert (after.paused, after.parameters["max_credits"]) == (False, None)
        assert times == {slug: (cron, active) for cron, active, slug in TIMES}
        assert told == [
            "kept: parameter company_list mine.csv is replaced by new.csv",
            "kept: parameter max_credits 500 is replaced by null",
            "kept: schedule morning active is replaced by paused",
            "kept: schedule night 15 5 * * 2 UTC is replaced by 0 3 * * 1 UTC",
            "kept: schedule noon none is replaced by 0 12 * * * UTC",
            "kept: the deployment paused is replaced by active",
            "kept: the set of job variables of the server is replaced by that of prefect.yaml",
        ]
        return
    assert (after.paused, after.parameters) == (True, given | {"company_list": "new.csv"}), "LAKE_LIST names the list"
    assert times == {"night": ("15 5 * * 2", True), "morning": ("0 6 * * *", True), "noon": ("0 12 * * *", True)}
    assert told == [
        "kept: parameter company_list mine.csv is replaced by new.csv",
        "kept: parameter max_credits stays 500 (prefect.yaml: null; --force takes that)",
        "kept: schedule morning stays active (prefect.yaml: paused; --force takes that)",
        "kept: schedule night stays 15 5 * * 2 UTC (prefect.yaml: 0 3 * * 1 UTC; --force takes that)",
        "kept: schedule noon none is replaced by 0 12 * * * UTC",
        "kept: the deployment stays paused (prefect.yaml: active; --force takes that)",
        "kept: the set of job variables of the server is replaced by that of prefect.yaml",
    ]


@pytest.mark.slow
def test_an_automation_that_somebody_disabled_stays_so_unless_forced(prefect, capsys):
    from prefect.client.orchestration import get_client
    from prefect.events.schemas.automations import AutomationCore

    from deploy import _put_automation

    [described] = [{**each, "name": "muted"} for each in AUTOMATIONS if each["name"] == "firmlake silent"]
    with get_client(sync_client=True) as client:
        made = AutomationCore.model_validate(described).model_copy(update={"enabled": False})
        client.create_automation(made)
        states = []
        for force in (False, True):
            _put_automation(client, described, None, force=force)
            states += [each.enabled for each in client.read_automations_by_name("muted")]
    assert states == [False, True]
    assert capsys.readouterr().out.splitlines() == [
        "Automation muted: stays paused (automations.yaml: active; --force takes that)",
        "Automation muted: unchanged",
        "Automation muted: paused is replaced by active",
        "Automation muted: updated",
    ]
