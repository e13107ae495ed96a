"""A forget that is killed at any change of a file is finished by the next one, which is told no name."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from firmlake.rebuild.verify import verify

from .everything import places_of
from .support import NAME, SPELLED, make_weeks, now

_KILLED = Path(__file__).parent.parent / "reliability" / "killed.py"


@pytest.fixture(scope="module")
def weeks(tmp_path_factory) -> Folders:
    return make_weeks(Folders(tmp_path_factory.mktemp("weeks") / "data"), 2)


def run(data: Path, kill_at: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(_KILLED), str(kill_at), "forget", *arguments, "--data", str(data), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=data.parent)


@pytest.mark.reliability
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(6))
def test_the_next_forget_finishes_what_a_killed_one_began(weeks, tmp_path, part):
    """Every change of a file is tried, a sixth of them in each part."""
    reached = 0
    for kill_at in range(1 + part, 400, 6):
        data = tmp_path / f"data{kill_at}"
        shutil.copytree(weeks.data, data, symlinks=True)
        killed = run(data, kill_at, "person", NAME)
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        reached += 1
        has_begun = (data / "state" / "forgotten.json").exists()
        ended = run(data, 0, *(() if has_begun else ("person", NAME)))
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["forgotten"]
        assert places_of(data, *SPELLED) == set(), kill_at
        folders = Folders(data)
        assert all(check.agrees for check in verify(folders, now, memory_limit="100MB"))
        assert not list(data.rglob(".*.part*"))
        shutil.rmtree(data)
    assert reached > 3
