"""The flow `replay` on a Dask cluster and an S3 server gives what one process gives, also when a worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firmlake.core.folders import Folders
from firmlake.delivery.destination import open_destination
from firmlake.rebuild.archive import archive
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import open_warehouse
from firmlake_sandbox import Sandbox

from .support import ByHand, killed_at_last, settings_for, wait_until, write_list

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

pytest.importorskip("prefect_dask")


@pytest.fixture
def lake(sandbox: Sandbox, tmp_path: Path) -> Folders:
    """Two runs of many shards, of which the second fetches companies of the first again."""
    folders = Folders(tmp_path / "lake")
    for count in (1500, 300):
        write_list(tmp_path / "list.csv", count)
        settings = settings_for(sandbox, folders.data, run__shard_companies=100, run__refresh_after_days=0)
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "firmlake", "run", str(tmp_path / "list.csv"), *flags]
        environment = {**os.environ, "FIRMLAKE_API_TOKEN": sandbox.token}
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=tmp_path, timeout=120)
    return folders


def content(folders: Folders) -> dict[str, Any]:
    with open_warehouse(folders) as connection:
        return {name: found for name, found in content_hashes(connection).items() if name != "loads"}


def test_two_workers_of_which_one_is_killed_give_what_one_process_gives(lake: Folders, bucket: str, tmp_path: Path):
    target = open_destination(bucket)
    archive(lake, target)
    by_hand, union = ByHand(tmp_path / "by_hand", "replay"), Folders(tmp_path / "union")

    def staged() -> list[str]:
        return [name for name in target.sizes("staged") if name.endswith(".json")]

    with killed_at_last(by_hand.start(bucket, "--name", "one", settings={"paths.data": str(union.data)})) as process:
        wait_until(lambda: len(staged()) > 1, 200, "shards staged")
        workers = [pid for pid, line in by_hand.process_ids().items() if "spawn_main" in line]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        at_kill = len(staged())
        ended = by_hand.end(process, 200)
    assert ended.code == 0, ended.err
    assert at_kill < len(staged()) == 18, "it was killed in the middle"
    assert "2 runs replayed into" in ended.err
    assert content(union) == content(lake)
    assert by_hand.processes() == []


def test_a_damaged_run_is_left_out_and_named_and_the_other_is_published(lake: Folders, tmp_path: Path):
    target, union = open_destination(str(tmp_path / "archive")), Folders(tmp_path / "union")
    archive(lake, target)
    segment = min((tmp_path / "archive" / "landing").rglob("shard=*/*.zst"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    command = (str(tmp_path / "archive"), "--name", "one")
    by_hand = ByHand(tmp_path / "by_hand", "replay")
    ended = by_hand.end(by_hand.start(*command, settings={"paths.data": str(union.data)}), 200)
    assert ended.code == 1, ended.err
    assert "1 run replayed into" in ended.err
    assert str(segment) in ended.err
    (run_id,) = (part.removeprefix("run=") for part in segment.parts if part.startswith("run="))
    with open_warehouse(union) as connection:
        ((loaded,),) = connection.execute("SELECT run_id FROM runs").fetchall()
    assert loaded != run_id
