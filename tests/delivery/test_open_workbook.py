"""A workbook on a disk that is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmlake.delivery.list_workbook import open_workbook

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("is_by_row", [True, False])
def test_a_full_disk_is_named_and_nothing_stays_beside_the_file(is_by_row, tmp_path):
    with (
        FULL.open("wb", buffering=0) as file,
        pytest.raises(OSError, match="No space left") as caught,
        open_workbook(file, tmp_path, is_by_row=is_by_row) as book,
    ):
        book.add_worksheet("List").write_string(0, 0, "a")
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_by_row", [True, False])
def test_what_a_killed_process_left_is_removed_and_what_a_live_one_has_is_kept(is_by_row, tmp_path):
    killed = "import os, signal; from pathlib import Path; from firmlake.delivery.list_workbook import open_workbook\n"
    killed += "with open('a.xlsx', 'wb') as file, open_workbook(file, Path('.')): os.kill(os.getpid(), signal.SIGKILL)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, env=environment).returncode < 0
    [left] = tmp_path.glob(".sheets-*")
    with (tmp_path / "b.xlsx").open("wb") as first, open_workbook(first, tmp_path, is_by_row=is_by_row):
        assert not left.exists()
        [live] = tmp_path.glob(".sheets-*")
        with (tmp_path / "c.xlsx").open("wb") as second, open_workbook(second, tmp_path, is_by_row=is_by_row):
            assert live.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xlsx", "b.xlsx", "c.xlsx"]
