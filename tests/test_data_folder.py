"""A mistyped data folder: commands that work on what is there name it, and make nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from firmlake.cli import firmlake
from firmlake.core.folders import Folders
from support import ACME, answer, commands, found, land, lookalike, make_run, publish_landed

_WORK = {
    "alerts": [],
    "archive": ["archive"],
    "changes": [],
    "company": ["BE", "0403227515", "--page", "page.html"],
    "contacts redrive": ["--list", "1"],
    "contacts status": [],
    "explore": ["--no-browser"],
    "export": ["export"],
    "forget": ["company", "BE", "0403227515"],
    "list export": ["customers", "--out", "list.csv"],
    "list remove": ["customers"],
    "list rename": ["customers", "others"],
    "list show": [],
    "load": ["duckdb:loaded.duckdb"],
    "mcp": [],
    "prune": [],
    "publish": [],
    "query": ["SELECT 1"],
    "redrive": [],
    "replay": [],
    "report": [],
    "status": ["--metrics", "metrics.prom"],
    "verify": [],
}
_DRY = {"forget": ["--dry-run"], "prune": ["--dry-run"], "verify": ["--forgotten"]}
_MAKE_OR_NEED_NONE = {
    "check", "config check", "config show", "contacts apply", "contacts plan", "demo", "match", "plan", "run",
    "sandbox", "service-lists",
}  # fmt: skip


def _names(known: dict[str, click.Command]) -> set[str]:
    inner = {name: each.commands for name, each in known.items() if isinstance(each, click.Group)}
    return known.keys() - inner.keys() | {f"{name} {each}" for name in inner for each in inner[name]}


def test_every_command_is_told_apart_by_whether_it_may_make_a_data_folder():
    assert _names(commands()) == _WORK.keys() | _MAKE_OR_NEED_NONE


@pytest.mark.parametrize(
    ("name", "arguments"), [*_WORK.items(), *((name, [*_WORK[name], *more]) for name, more in _DRY.items())]
)
def test_a_mistyped_data_folder_is_named_and_not_made(name, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(firmlake, [*name.split(), *arguments, "--data", "typo"], standalone_mode=False)
    assert (ran.return_value, list(tmp_path.iterdir())) == (2, [])
    assert f"The data folder {tmp_path / 'typo'} does not exist" in ran.stderr
    assert "Traceback" not in ran.stderr


_READ = _WORK.keys() - {"archive", "explore", "forget", "list remove", "list rename", "prune", "redrive", "replay"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [*((name, _WORK[name]) for name in sorted(_READ)), *((name, [*_WORK[name], *more]) for name, more in _DRY.items())],
)
def test_a_command_that_reads_writes_nothing_into_a_folder_that_holds_nothing_of_firmlake(
    name, arguments, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("letters").mkdir()
    Path("letters/dear.txt").touch()
    CliRunner().invoke(firmlake, [*name.split(), *arguments, "--data", "letters"], standalone_mode=False)
    assert [path.name for path in Path("letters").rglob("*")] == ["dear.txt"]


@pytest.mark.parametrize(
    ("has_landed", "step"),
    [(True, "Rebuild the warehouse with `firmlake replay --data"), (False, "`firmlake run LIST --data")],
)
def test_without_a_warehouse_landed_answers_are_replayed_and_only_an_empty_folder_needs_a_run(
    has_landed, step, folders: Folders
):
    folders.data.mkdir()
    if has_landed:
        run = make_run(folders, [ACME], ["lookalikes"])
        land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
        publish_landed(run)
        shutil.rmtree(folders.warehouse)
    for command in (["query", "SELECT 1"], ["changes"], ["report"], ["status"]):
        ran = CliRunner().invoke(firmlake, [*command, "--data", str(folders.data)], standalone_mode=False)
        assert step in ran.output
    assert Path(folders.warehouse).exists() is False
