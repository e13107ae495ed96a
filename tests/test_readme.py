"""The README is true: its commands, files, tables and exit codes are those of the project."""

import re
from pathlib import Path

import click
import pytest

from firmlake.core import errors
from firmlake.core.settings import Settings
from firmlake.core.settings_layers import load_settings
from firmlake.tables.schemas import TABLES
from support import commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data/README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_command_it_names_exists():
    blocks = "".join(re.findall(r"```sh\n(.*?)```", README, re.S))
    named = set(re.findall(r"`(?:\.venv/bin/)?firmlake ([a-z-]+)", README))
    named |= set(re.findall(r"firmlake ([a-z-]+)", blocks))
    assert len(named) > 8
    assert named <= commands().keys()


def test_every_table_is_named_in_it():
    assert set(TABLES) <= set(re.findall(r"`(\w+)`", README))


def test_every_exit_code_is_explained_in_it():
    rows = re.findall(r"^\| ([\d, ]+) \|", README, re.M)
    documented = {int(code) for row in rows for code in row.split(",")}
    assert documented == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path):
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text())
    assert not [target for target in targets if not (path.parent / target).exists()]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path):
    sections = "|".join(Settings.__struct_fields__)
    for key in set(re.findall(rf"`((?:{sections})\.[a-z_.]+)`", path.read_text())):
        if not key.endswith(".py"):
            settings, _ = load_settings(flags={}, environment={})
            value: object = settings
            for name in key.split("."):
                value = getattr(value, name)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_every_option_that_is_named_exists(path: Path):
    known = commands()
    for name, line in re.findall(r"(?:^|[`\s/])firmlake ([a-z-]+)([^`\n]*)", path.read_text(), re.M):
        command: click.Command | None = known.get(name)
        words = line.partition(" #")[0].split()
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if command and name != "sandbox":
            options = {option for parameter in command.params for option in parameter.opts}
            named = {found for word in words for found in re.findall(r"^--[a-z]+(?:-[a-z]+)*", word)}
            assert named <= options, line


def test_both_commands_stand_in_marked_blocks_for_ci():
    for mark in ("first", "tests"):
        assert re.search(rf"<!-- {mark} -->\n```sh\n[^\n]+\n```", README)
