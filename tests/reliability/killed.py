"""Runs firmlake and kills it at its n-th change of a file: `python killed.py N run LIST`."""

import os
import signal
import sys

_left = int(sys.argv.pop(1))
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.symlink", "os.chmod", "os.truncate", "shutil.copyfile")


def _count() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in _CHANGES or (event == "open" and arguments[1] in ("w", "wb", "a+")):
        _count()


def _counted(function):
    def call(*arguments):
        _count()
        return function(*arguments)

    return call


sys.addaudithook(_watch)
os.fsync, os.write = _counted(os.fsync), _counted(os.write)

from firmlake.cli import main  # noqa: E402 - under the hook from its first import on

main()
