"""The help fits a terminal of 80 columns."""

from __future__ import annotations

import subprocess
import sys

import click
from click.testing import CliRunner

from firmlake.cli import firmlake
from support import commands


def test_every_command_has_a_summary_that_is_not_cut():
    shown = CliRunner().invoke(firmlake, ["--help"], terminal_width=80, standalone_mode=False).output
    assert "..." not in shown.partition("Fetch:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    listed = {words[0]: words[1:] for words in map(str.split, shown.splitlines()) if words}
    assert all(listed[name] for name in commands())


def test_every_option_says_what_it_does():
    inner = [each for group in commands().values() for each in getattr(group, "commands", {"": group}).values()]
    options = [
        (each.name, one.name, one.help) for each in inner for one in each.params if isinstance(one, click.Option)
    ]
    assert len(options) > 200
    assert not [each for each in options if not each[-1]]


def test_the_sandbox_is_called_as_its_users_call_it():
    done = subprocess.run([sys.executable, "-m", "firmlake", "sandbox", "--help"], capture_output=True, text=True)
    assert done.stdout.startswith("usage: firmlake sandbox ")
