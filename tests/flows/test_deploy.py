"""`python flows/deploy.py`: nothing without its variables; the same automations however often it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from firmlake.core.errors import UsageError

from .support import ROOT

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
    monkeypatch.setenv("LAKE_LIST", "list.csv")
    assert CliRunner().invoke(deploy, ["--check"]).exit_code == 0


def test_every_variable_of_the_file_is_asked_for(flow_modules: None, monkeypatch: pytest.MonkeyPatch):
    from deploy import _check_variables

    named = set(re.findall(r"\$\{?(LAKE_\w+)", (ROOT / "prefect.yaml").read_text()))
    for name in named:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError) as refused:
        _check_variables((ROOT / "prefect.yaml").read_text())
    assert all(name in refused.value.message for name in named - {"LAKE_ARCHIVE"})


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
        "Automation twice: updated",
        "Automation notice: skipped, because it needs a notification block",
    ]
