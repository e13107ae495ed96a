"""The help fits a terminal of 80 columns."""

from __future__ import annotations

import subprocess
import sys

from click.testing import CliRunner

from firmlake.cli import firmlake


def test_every_command_has_a_summary_that_is_not_cut():
    shown = CliRunner().invoke(firmlake, ["--help"], terminal_width=80, standalone_mode=False).output
    assert "..." not in shown.partition("Fetch:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    for name, command in firmlake.commands.items():
        summary = command.short_help
        assert summary
        assert len(summary) <= 55
        assert any(line.split() == [name, *summary.split()] for line in shown.splitlines()), name


def test_the_sandbox_is_called_as_its_users_call_it():
    done = subprocess.run([sys.executable, "-m", "firmlake", "sandbox", "--help"], capture_output=True, text=True)
    assert done.stdout.startswith("usage: firmlake sandbox ")
