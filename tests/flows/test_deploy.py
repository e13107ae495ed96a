"""`python -m firmlake.flows.deploy`: nothing without its variables; the same automations however often it runs."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from firmlake.core.errors import UsageError

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


STAYS = """\
kept: parameter max_credits stays 500 (prefect.yaml: null; --force takes that)
kept: schedule added stays 0 9 * * * UTC (prefect.yaml: none; --force takes that)
kept: schedule morning stays 0 6 * * * UTC (prefect.yaml: 0 6 * * * UTC, paused; --force takes that)
kept: schedule night stays 15 5 * * 2 UTC (prefect.yaml: 0 3 * * 1 UTC; --force takes that)
kept: schedule noon none is replaced by 0 12 * * * UTC
kept: the deployment stays paused (prefect.yaml: active; --force takes that)
"""
FORCED = """\
kept: parameter max_credits 500 is replaced by null
kept: schedule added 0 9 * * * UTC is replaced by none
kept: schedule morning 0 6 * * * UTC is replaced by 0 6 * * * UTC, paused
kept: schedule night 15 5 * * 2 UTC is replaced by 0 3 * * 1 UTC
kept: schedule noon none is replaced by 0 12 * * * UTC
kept: the deployment paused is replaced by active
"""


def test_what_a_person_set_on_the_server_stays_and_is_named(flow_modules, capsys):
    """Otherwise a deployment after an upgrade would start runs that somebody has paused, and lift their budgets."""
    from prefect.client.schemas.objects import DeploymentSchedule
    from prefect.client.schemas.schedules import CronSchedule

    from deploy import with_changes

    def file(*times):
        return [{"cron": c, "timezone": "UTC", "slug": slug, "active": active} for c, active, slug in times]

    described = {"parameters": {"company_list": "{{ $LAKE_LIST }}", "max_credits": None}, "schedules": file(*TIMES)}
    on_server = ("15 5 * * 2", True, "night"), ("0 6 * * *", True, "morning"), ("0 9 * * *", True, "added")
    server = SimpleNamespace(
        name="kept", paused=True, parameters={"company_list": "mine.csv", "max_credits": 500, "gone": 1},
        schedules=[
            DeploymentSchedule(schedule=CronSchedule(cron=cron, timezone="UTC"), active=active, slug=slug)
            for cron, active, slug in on_server
        ],
    )  # fmt: skip
    kept = with_changes(described, server, force=False)
    assert (kept["paused"], kept["parameters"]) == (True, described["parameters"] | {"max_credits": 500})
    assert kept["schedules"] == file(*on_server[:2], TIMES[2], on_server[2])
    assert capsys.readouterr().out == STAYS
    assert with_changes(described, server, force=True) == described | {"paused": False}
    assert capsys.readouterr().out == FORCED
    assert with_changes(described, None, force=False) == described


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
