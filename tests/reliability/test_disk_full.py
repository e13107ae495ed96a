"""A disk that is full after so many bytes: the run says so in one line, and goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .support import assert_whole, sized

COUNT = 200
NEEDED_KB = 5200
"""What the disk must hold for a run over so many companies, roughly."""
FULL = [NEEDED_KB * part // 20 for part in range(1, 20)] + [24]


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a tmpfs; only root may."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: it takes root and the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("kilobytes", sized([], [300, *FULL]))
def test_a_full_disk_ends_the_run_in_one_line_and_the_next_run_goes_on(
    kilobytes, make_lake, undisturbed, record_property
):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT, run__shard_companies=50)
    with small_disk(lake.data, kilobytes):
        result = lake.run()
        record_property("ended", f"{kilobytes} kB: {result.code}")
        if result.code:
            assert result.code == 1
            assert str(lake.data) in result.error_line
        subprocess.run(["mount", "-o", "remount,size=64m", str(lake.data)], check=True)
        again = lake.run()
        assert again.code == 0, again.err
        assert_whole(lake, expected)
        assert lake.ledger()["requests"] <= expected.requests + 8 + 4
