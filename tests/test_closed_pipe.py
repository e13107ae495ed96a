"""Whoever reads the output may leave early, as `| head` does: the command ends quietly, as SIGPIPE would end it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firmlake.core.errors import EXIT_SIGPIPE
from support import ACME, publish_list, slow, with_views


@pytest.mark.parametrize(
    "arguments",
    [
        ["changes"],
        ["query", "FROM range(3)", "--format", "csv"],
        *slow(
            ["query", "FROM range(100000)"],
            ["query", "FROM range(100000)", "--format", "csv"],
            ["query", "FROM range(3)", "--json"],
            ["changes", "--format", "csv"],
            ["status"],
            ["config", "show"],
            ["sandbox", "--dialect", "help"],
        ),
    ],
)
def test_a_pipe_that_is_closed_early_ends_the_command_quietly(arguments, folders):
    publish_list(folders, [ACME])
    with_views(folders)
    command = [
        sys.executable,
        "-m",
        "firmlake",
        *arguments,
        *([] if arguments[0] in ("config", "sandbox") else ["--data", folders.data]),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()  # before anything is written, so that small output fails too
        assert process.stderr.read() == ""
    assert process.returncode == EXIT_SIGPIPE
