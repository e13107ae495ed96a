"""Kills `firmlake forget` at many points and finishes it: `python -P killed_points.py FOLDER FIRST STEP`.

Each point gives a line of JSON. Modules are imported once, and each attempt runs in a fork, which is several times
faster than new processes.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import firmlake.cli
import firmlake.cli.forget
import firmlake.forget.forget
import firmlake.rebuild.verify  # noqa: F401 - imported once for all forks
from firmlake.core.folders import Folders
from forget.world import NAME, SPELLED, now, places_of

_KILLED = Path(__file__).parent.parent / "reliability" / "killed.py"


def forked(work: Callable[[], object]) -> int:
    """Run work in a fork; return how it ended: 0, an exit code, or minus the signal."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        work()
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def forget(world: Path, kill_at: int, *subject: str) -> Callable[[], object]:
    """Return the work of one call, which is killed at its n-th change of a file; 0 never."""

    def work() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = [str(_KILLED), str(kill_at), "forget", *subject, "--data", str(world / "data"), "--json"]
        runpy.run_path(str(_KILLED), run_name="__main__")

    return work


def check(world: Path) -> None:
    """Assert that nobody is named, no unfinished file is left, and the data folder agrees."""
    from firmlake.rebuild.verify import verify

    assert places_of(world, *SPELLED) == set(), places_of(world, *SPELLED)
    assert not list(world.rglob(".*.part*")), list(world.rglob(".*.part*"))
    assert all(each.agrees for each in verify(Folders(world / "data"), now))


def main(folder: Path, first: int, step: int) -> None:
    world, template = folder / "world", folder / "template"
    kill_at = first
    while True:
        shutil.rmtree(world, ignore_errors=True)
        shutil.copytree(template, world, symlinks=True)
        killed = forked(forget(world, kill_at, "person", NAME))
        result = {"kill_at": kill_at, "killed": killed, "ended": None, "checked": None}
        if killed == -signal.SIGKILL:
            has_begun = (world / "data" / "state" / "forgotten.json").exists()
            result["ended"] = forked(forget(world, 0, *(() if has_begun else ("person", NAME))))
            result["checked"] = forked(lambda: check(world))
        sys.stdout.write(f"{json.dumps(result)}\n")
        sys.stdout.flush()
        if killed != -signal.SIGKILL:
            return
        kill_at += step


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
