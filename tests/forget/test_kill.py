"""A forget that is killed at any change of a file is finished by the next one, which is told no name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request, deliver
from firmlake.delivery.destination import Folder
from firmlake.forget.copies import note_archive
from firmlake.rebuild.archive import archive
from support import DAY, export

from .support import make_weeks, now

_PARTS = 6
_STEP = int(os.environ.get("FORGET_KILL_STEP", "24"))
"""One of so many changes of a file is tried; 6 tries them all, which takes most of an hour of one processor."""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A data folder with an archive, an export and a loaded database."""
    folder = tmp_path_factory.mktemp("kill")
    world = folder / "world"
    folders = make_weeks(Folders(world / "data"), 1)
    archive(folders, Folder(world / "archive"))
    note_archive(folders, str(world / "archive"))
    export(folders, Request(format="csv"), Folder(world / "export"), now=now)
    deliver(folders, Request(target=f"duckdb:{world / 'target.duckdb'}"), now=lambda: now() - DAY)
    world.rename(folder / "template")
    return folder


@pytest.mark.reliability
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(_PARTS))
def test_the_next_forget_finishes_what_a_killed_one_began(template, part):
    """Each part begins at another change of a file."""
    script = Path(__file__).parent / "killed_points.py"
    arguments = [str(template), str(1 + part), str(_STEP)]
    folders = os.pathsep.join([str(script.parent.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-P", str(script), *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": folders},
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) > 3, done.stderr
    assert results[-1]["killed"] == 0, done.stderr
    for each in results[:-1]:
        assert each == {"kill_at": each["kill_at"], "killed": -signal.SIGKILL, "ended": 0, "checked": 0}, done.stderr
