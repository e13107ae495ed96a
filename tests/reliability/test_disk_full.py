"""A disk that is full, or may only be read: the command says so in one line, and goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .support import assert_whole, sized

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may mount a small disk")

COUNT, THREADS = 200, 4
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


@pytest.mark.parametrize("kilobytes", sized([], [300, *FULL]))
def test_a_full_disk_ends_the_run_in_one_line_and_the_next_run_goes_on(
    kilobytes, make_lake, undisturbed, record_property
):
    expected = undisturbed(COUNT, shard_companies=50)
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
        assert lake.ledger()["requests"] <= expected.requests + THREADS, "those in flight, whose answers found no room"


def fill(folder: Path) -> None:
    """Leave no room on a disk."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (65_536, 4096):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


@pytest.mark.reliability
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_export_to_a_full_disk_says_so_in_one_line_and_works_when_there_is_room(kind, make_lake):
    lake = make_lake(60)
    with small_disk(lake.data, 30_000):
        assert lake.run().code == 0
        fill(lake.data)
        for target in (lake.data / "exported", lake.folder / "elsewhere"):
            result = lake.call("export", str(target), "--format", kind)
            assert result.code == 1, result.out
            assert "No space left" in result.error_line
        (lake.data / "ballast").unlink()
        assert lake.call("export", str(lake.data / "exported"), "--format", kind).code == 0


@pytest.mark.reliability
@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_list_written_back_to_a_full_disk_says_so_in_one_line_and_leaves_nothing_there(ending, make_lake):
    lake = make_lake(200)
    assert lake.run().code == 0
    (listed,) = lake.call("list", "show", "--json").content
    with small_disk(lake.folder / "small", 24):
        path = lake.folder / "small" / f"list.{ending}"
        result = lake.call("list", "export", listed["list_name"], "--out", str(path))
        assert result.code == 1, result.out
        assert "No space left" in result.error_line
        assert "Make room" in result.error_line
        assert not list(path.parent.iterdir())


@pytest.mark.reliability
def test_a_data_folder_that_may_only_be_read_is_verified_and_exported(make_lake):
    lake = make_lake(60)
    with small_disk(lake.data, 30_000):
        assert lake.run().code == 0
        subprocess.run(["mount", "-o", "remount,ro", str(lake.data)], check=True)
        assert lake.call("verify", "--json").content["agrees"]
        for kind in ("csv", "parquet"):
            result = lake.call("export", str(lake.folder / kind), "--format", kind)
            assert result.code == 0, result.err
        assert lake.call("status").code == 0
        assert lake.call("query", "SELECT 1").code == 0
        result = lake.run()
        assert result.code == 1
        assert "Read-only file system" in result.error_line
