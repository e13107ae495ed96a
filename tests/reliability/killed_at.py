"""Runs firmlake and kills it at a named instant: `python killed_at.py INSTANT run LIST`."""

import os
import signal
import sys
from pathlib import Path

from firmlake.cli import main
from firmlake.enrich import run as runner

BEFORE = {
    "begun": "fetch_shards",
    "after the last answer": "_publish",
    "ended": "publish_run",
    "loaded": "renew_index",
}
"""The function of the runner whose call is the instant; its name is all that this test knows of it."""


def kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_answer() -> None:
    """Kill the process when half of the second answer is written."""
    write, answers = os.write, []

    def write_half(file: int, content: bytes) -> int:
        if "/shard=" in str(Path(f"/proc/self/fd/{file}").readlink()):
            answers.append(file)
        if len(answers) == 2:
            write(file, bytes(content)[: len(content) // 2])
            kill()
        return write(file, content)

    os.write = write_half


instant = sys.argv.pop(1)
if instant == "in an answer":
    kill_in_answer()
else:
    assert hasattr(runner, BEFORE[instant])
    setattr(runner, BEFORE[instant], kill)
main()
