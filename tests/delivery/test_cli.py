"""`firmlake export`: settings and flags, what it prints, and its exit codes."""

from __future__ import annotations

import json

import pytest

from lake import Lake

from .reading import follow


@pytest.fixture
def call(lake, tmp_path, monkeypatch):
    """Call the command on the lake; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: Lake(tmp_path).call("export", *arguments, "--data", str(lake.data))


def test_it_says_what_it_exported_and_the_second_time_that_there_is_nothing_to_do(call, tmp_path):
    code, out, err = call("out", "--table", "companies", "--table", "runs")
    assert (code, out.strip()) == (0, str(follow(tmp_path / "out")[0]))
    assert "companies: 3 rows" in err
    code, out, err = call("out", "--table", "companies", "--table", "runs", "--json")
    content = json.loads(out)
    assert (code, content["is_new"], content["rows"]) == (0, False, {"companies": 3, "runs": 3})


def test_settings_name_the_target_and_flags_override_them(call, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRMLAKE_EXPORT__TARGET", str(tmp_path / "set"))
    monkeypatch.setenv("FIRMLAKE_EXPORT__TABLES", "runs")
    assert call("--format", "csv")[0] == 0
    manifest = follow(tmp_path / "set")[1]
    assert (manifest.format, [table.name for table in manifest.tables]) == ("csv", ["runs"])


def test_scripts_go_to_stdout_alone(call):
    code, out, _ = call("out", "--table", "runs", "--dbt")
    assert (code, "version: 2" in out) == (0, True)
