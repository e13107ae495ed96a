"""Kill -9 at any moment: the next run goes on, and comes to what an undisturbed run comes to."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from .support import Lake, assert_whole, faults, sized

COUNT = 400
SHARD = 100
THREADS = 4
KILLS = 4
"""Of one lake, so that a run is killed again while it recovers; by default one."""
SLOW = {"kind": "delay", "seconds": 0.04}
SHARDS_PARTLY_FULL = COUNT // SHARD * 2
"""Smaller shards fill their last requests worse than the undisturbed run's single one."""


def kill_after_first_file(lake: Lake, process: subprocess.Popen[str], chance: random.Random) -> None:
    """Some time after the run began to write, evenly over all that it does."""
    _wait(process, lambda: (lake.data / "state/lock").exists())
    _leave_alone(process, chance.uniform(0, 1.8))


def kill_while_staging(lake: Lake, process: subprocess.Popen[str], chance: random.Random) -> None:
    """After so many staged files."""
    files = chance.randrange(1, 60)
    _wait(process, lambda: sum(1 for _ in lake.data.glob("staged/*/*/*")) >= files)


def kill_while_loading(lake: Lake, process: subprocess.Popen[str], chance: random.Random) -> None:
    """While the next generation is made, or shortly after it has its name."""
    _wait(process, lambda: any(lake.data.glob("warehouse/.gen_*")))
    _leave_alone(process, chance.uniform(0, 0.4))


def kill_at_file_call(lake: Lake, process: subprocess.Popen[str], chance: random.Random) -> None:
    """It kills itself at its n-th change of a file; see killed.py."""
    process.wait(60)


WAYS = (kill_after_first_file, kill_at_file_call, kill_while_loading, kill_while_staging)


@pytest.mark.parametrize("case", sized([(0, 1)], [(seed, KILLS) for seed in (0, *range(100, 170))]))
def test_killed_runs_are_continued_and_nothing_is_lost_double_or_paid_twice(
    case, sandbox, make_lake, undisturbed, record_property
):
    seed, kills = case
    expected, chance = undisturbed(COUNT), random.Random(seed)
    lake = make_lake(COUNT, run__shard_companies=SHARD)
    killed: Counter[str] = Counter()
    with faults(sandbox, SLOW):
        for turn in range(kills):
            way = WAYS[(seed + turn) % len(WAYS)]
            killed.update(_kill(lake, way, chance))
    result = lake.run()
    assert result.code == 0, result.err
    assert lake.ledger()["requests"] <= expected.requests + SHARDS_PARTLY_FULL + killed.total() * THREADS
    assert_whole(lake, expected)
    record_property("kills", dict(killed))


def _kill(lake: Lake, way: Callable[..., None], chance: random.Random) -> list[str]:
    """The stage it was killed in; none where it had ended before."""
    code = ("-m", "firmlake")
    if way is kill_at_file_call:
        code = (str(Path(__file__).with_name("killed.py")), str(chance.randrange(1, 320)))
    process = lake.start("run", str(lake.list), code=code)
    way(lake, process, chance)
    process.kill()
    result = lake.end(process)
    return [_stage(lake)] if result.code == -signal.SIGKILL else []


def _stage(lake: Lake) -> str:
    """How far the run had come."""
    for stage, pattern in (
        ("publish", "warehouse/gen_*"),
        ("load", "landing/*/log/00002.zst"),
        ("flatten and stage", "staged/*"),
        ("fetch", "landing/*/shard=*"),
    ):
        if any(lake.data.glob(pattern)):
            return stage
    return "plan"


def _wait(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)


def _leave_alone(process: subprocess.Popen[str], seconds: float) -> None:
    """So long, or until it has ended."""
    end = time.monotonic() + seconds
    _wait(process, lambda: time.monotonic() >= end)
