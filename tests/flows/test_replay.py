"""The flow `replay` on a Dask cluster and an S3 server gives what one process gives, also when a worker is killed."""

from __future__ import annotations

import os
import signal

import pytest

from firmlake.core.folders import Folders
from firmlake.delivery.destination import open_destination
from firmlake.rebuild.archive import archive
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import open_warehouse
from lake import Lake, killed_at_last, wait_until

from .support import ByHand

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

pytest.importorskip("prefect_dask")


@pytest.fixture
def lake(sandbox, tmp_path):
    """Two runs of many shards, of which the second fetches companies of the first again."""
    lake = Lake(tmp_path / "lake", sandbox, run__shard_companies=100, run__refresh_after_days=0)
    for count in (1500, 300):
        lake.write(count)
        assert lake.run().code == 0
    return lake.folders


@pytest.fixture
def union(tmp_path):
    """Where all is replayed into."""
    return ByHand(tmp_path / "union")


def content(folders: Folders):
    with open_warehouse(folders) as connection:
        return {name: found for name, found in content_hashes(connection).items() if name != "loads"}


def test_two_workers_of_which_one_is_killed_give_what_one_process_gives(lake, bucket, union):
    target = open_destination(bucket)
    archive(lake, target)

    def staged():
        return [name for name in target.sizes("staged") if name.endswith(".json")]

    with killed_at_last(union.flow(bucket, "--name", "one", name="replay")) as process:
        wait_until(lambda: len(staged()) > 1, 200, "shards staged")
        workers = [pid for pid, line in union.processes().items() if "spawn_main" in line]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        at_kill = len(staged())
        ended = union.ended(process, 200)
    assert ended.code == 0, ended.err
    assert at_kill < len(staged()) == 18, "it was killed in the middle"
    assert "2 runs replayed into" in ended.err
    assert content(union.folders) == content(lake)
    assert union.processes() == {}


def test_a_damaged_file_is_named_and_nothing_is_published(lake, union, tmp_path):
    archive(lake, open_destination(str(tmp_path / "archive")))
    segment = min((tmp_path / "archive" / "landing").rglob("shard=*/*.zst"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    ended = union.run_flow(str(tmp_path / "archive"), "--name", "one", name="replay", seconds=200)
    assert ended.code == 1, ended.err
    assert str(segment) in ended.err
    assert not union.folders.warehouse.exists()
