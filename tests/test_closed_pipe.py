"""The output may have no reader, or one that leaves: the command ends in good order, with a documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.core.errors import EXIT_DONE, EXIT_FAILED, EXIT_SIGPIPE, EXIT_USAGE
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


_FULL = Path("/dev/full")
_STREAMS = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", ["stdout", *slow("stdin", "stderr", "all")])
def test_a_command_whose_streams_are_closed_does_its_work(closed, folders):
    """A scheduler may close them. The next file opened must not become the stream that others print to."""
    publish_list(folders, [ACME])
    with_views(folders)
    shell = f'"$@" {_STREAMS[closed]}'
    command = [sys.executable, "-m", "firmlake", "status", "--data", str(folders.data)]
    ended = subprocess.run(["sh", "-c", shell, "sh", *command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (EXIT_DONE, "")


@pytest.mark.parametrize("arguments", [["status"], *slow(["status", "--json"], ["query", "FROM range(3)"], ["--help"])])
def test_a_full_disk_behind_stdout_is_one_line_and_exit_code_1(arguments, folders):
    publish_list(folders, [ACME])
    with_views(folders)
    command = [sys.executable, "-m", "firmlake", *arguments]
    environment = {**os.environ, "FIRMLAKE_PATHS__DATA": str(folders.data)}
    with _FULL.open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    assert (
        ended.stderr == "firmlake: Stdout or a file: No space left on device. Make room on the disk, then run again\n"
    )
    assert ended.returncode == EXIT_FAILED


def test_a_full_disk_behind_stderr_does_not_change_the_exit_code(folders):
    """Python would end with code 120, which is not documented."""
    command = [sys.executable, "-m", "firmlake", "status", "--data", str(folders.data / "missing")]
    with _FULL.open("w") as full:
        assert subprocess.run(command, stderr=full, check=False).returncode == EXIT_USAGE
