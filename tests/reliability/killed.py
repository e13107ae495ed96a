"""Runs firmlake and kills it at an instant: `python killed.py INSTANT run LIST`.

INSTANT is a number n, for the n-th change of a file; "in an answer", for half of the second answer; or a key of BEFORE.
"""

import os
import signal
import sys
from pathlib import Path

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.symlink", "os.chmod", "os.truncate", "shutil.copyfile")
BEFORE = {
    "begun": "fetch_shards",
    "after the last answer": "_publish",
    "ended": "publish_run",
    "loaded": "renew_index",
}
"""The function of the runner whose call is the instant; its name is all that this test knows of it."""


def kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_change(left: int) -> None:
    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            kill()

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in _CHANGES or (event == "open" and arguments[1] in ("w", "wb", "a+")):
            count()

    def counted(function):
        return lambda *arguments: (count(), function(*arguments))[1]

    sys.addaudithook(watch)
    os.fsync, os.write = counted(os.fsync), counted(os.write)


def kill_in_answer() -> None:
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
if instant.isdecimal():
    kill_at_change(int(instant))  # from the first import on
elif instant == "in an answer":
    kill_in_answer()
else:
    from firmlake.enrich import run as runner

    assert hasattr(runner, BEFORE[instant])
    setattr(runner, BEFORE[instant], kill)

from firmlake.cli import main  # noqa: E402

main()
