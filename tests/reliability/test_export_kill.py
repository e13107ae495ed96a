"""Kill -9 of an export at any change of a file: readers see the export before or the new one, and the next goes on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delivery.conftest import add_week
from delivery.reading import follow
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from support import export

pytestmark = pytest.mark.reliability

KILLS = 8


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A folder of one generation that was exported, and then a second generation."""
    folders = Folders(tmp_path_factory.mktemp("lake") / "data")
    add_week(folders, 0)
    first = export(folders, Request(), Folder(folders.data / "out")).record
    add_week(folders, 1)
    return folders, first


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["whole", "changes"])
def test_a_killed_export_is_harmless(lake, tmp_path, mode):
    folders, first = lake
    chance, target = random.Random(mode), tmp_path / "out"
    expected = export(folders, Request(mode=mode), _copied(folders, tmp_path / "undisturbed")).record
    kills = 0
    for _ in range(KILLS):
        _copied(folders, target)
        killed = _export(folders, target, mode, chance.randrange(1, 330))
        kills += killed
        assert follow(target)[1].delivery_id in (first.delivery_id, expected.delivery_id)
        assert not _export(folders, target, mode, 0)
        assert follow(target)[1] == expected
        assert not [path for path in folders.state.iterdir() if path.name not in ("lock", "exports")]
    assert kills > KILLS / 3


def _copied(folders, target):
    subprocess.run(["rm", "-rf", str(target)], check=True)
    subprocess.run(["cp", "-a", str(folders.data / "out"), str(target)], check=True)
    return Folder(target)


def _export(folders, target, mode, count):
    """Whether it was killed."""
    killed = [str(Path(__file__).with_name("killed.py")), str(count)] if count else ["-m", "firmlake"]
    flags = ["--changes"] if mode == "changes" else []
    command = [sys.executable, *killed, "export", str(target), "--data", str(folders.data), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0
