"""Commands that messages name can be pasted: they repeat the folders of this call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmlake.terminal.echo import echo, repeating

GIVEN = "--config client.toml --data 'clients/a b'"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Run `firmlake replay`, then go on", f"Run `firmlake replay {GIVEN}`, then go on"),
        ("`firmlake run L --config x.toml`", "`firmlake run L --config x.toml --data 'clients/a b'`"),
        ('`firmlake query "FROM runs"` or `run`', f'`firmlake query "FROM runs" {GIVEN}` or `run`'),
        ("Try `firmlake demo` and `firmlake sandbox --help`", "Try `firmlake demo` and `firmlake sandbox --help`"),
        ("firmlake: `firmlake --help` shows all", "firmlake: `firmlake --help` shows all"),
    ],
)
def test_commands_repeat_the_options_that_they_lack(message, expected, capsys):
    with repeating({"--config": "client.toml", "--data": "clients/a b"}):
        echo(message)
    echo(message, err=True)
    assert capsys.readouterr() == (f"{expected}\n", f"{message}\n")


def test_every_command_in_a_message_stands_between_backticks_by_which_it_is_found():
    package = Path(__file__).parents[2] / "src" / "firmlake"
    bare = re.compile(r'echo\(f?"[^"`]*\bfirmlake [a-z]')
    assert not [path for path in package.rglob("*.py") if bare.search(path.read_text())]
