"""`python flows/deploy.py`: nothing without its variables; the same automations however often it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from firmlake.core.errors import UsageError

from .support import ROOT

if TYPE_CHECKING:
    from prefect import Flow

AUTOMATIONS = yaml.safe_load((ROOT / "automations.yaml").read_text())["automations"]


def test_a_variable_without_a_value_is_refused_before_a_server_is_asked(
    flow_modules: None, monkeypatch: pytest.MonkeyPatch
):
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


def test_every_variable_of_the_file_is_asked_for(flow_modules: None, monkeypatch: pytest.MonkeyPatch):
    from deploy import _check_variables

    named = set(re.findall(r"\$\{?(LAKE_\w+)", (ROOT / "prefect.yaml").read_text()))
    for name in named:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as refused:
        _check_variables((ROOT / "prefect.yaml").read_text())
    assert all(name in refused.value.message for name in named - {"LAKE_ARCHIVE"})


@pytest.mark.slow
def test_automations_are_updated_not_made_twice_and_those_made_twice_earlier_go(
    enrich: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from prefect.client.orchestration import get_client
    from prefect.events.schemas.automations import AutomationCore

    from deploy import _put_automation

    [described] = [{**each, "name": "twice"} for each in AUTOMATIONS if each["name"] == "firmlake silent"]
    with get_client(sync_client=True) as client:
        for _ in range(2):
            client.create_automation(AutomationCore.model_validate(described))
        _put_automation(client, described | {"description": "changed"}, None)
        _put_automation(client, described | {"description": "changed"}, None)
        assert [each.description for each in client.read_automations_by_name("twice")] == ["changed"]
        [notice] = [{**each, "name": "notice"} for each in AUTOMATIONS if each["name"] == "firmlake failed"]
        _put_automation(client, notice, None)
        assert client.read_automations_by_name("notice") == []
    assert capsys.readouterr().out.splitlines() == [
        "Automation twice: updated",
        "Automation twice: unchanged",
        "Automation notice: skipped, because it needs a notification block",
    ]


@pytest.mark.slow
def test_a_schedule_that_was_paused_or_resumed_on_the_server_stays_so(
    enrich: Flow[..., Any], capsys: pytest.CaptureFixture[str]
):
    """Otherwise a deployment after an upgrade would start the runs that somebody has paused."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule

    from deploy import _read_schedules, _restore_schedules

    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(enrich)

        def deploy() -> Any:
            schedules = [
                DeploymentScheduleCreate(schedule=CronSchedule(cron=cron), active=active, slug=slug)
                for cron, active, slug in (("0 3 * * 1", True, "night"), ("0 6 * * *", False, "morning"))
            ]
            deployment_id = client.create_deployment(flow_id, name="schedules", schedules=schedules)
            return client.read_deployment(deployment_id)

        made = deploy()
        for schedule in made.schedules:
            client.update_deployment_schedule(made.id, schedule.id, active=not schedule.active)
        active = _read_schedules(client)
        deploy()
        _restore_schedules(client, active)
        assert {each.slug: each.active for each in client.read_deployment(made.id).schedules} == {
            "night": False,
            "morning": True,
        }
        client.delete_deployment(made.id)
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "Schedule of schedules: stays active",
        "Schedule of schedules: stays paused",
    ]
