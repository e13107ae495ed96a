"""Two runs on one folder, and signals: one works, nobody waits, no process stays behind."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from .support import assert_whole, faults, poll, sized

COUNT = 60


@pytest.mark.parametrize("start", sized([], [1, *range(100, 150)]))
def test_of_two_runs_started_at_once_one_works_and_the_other_names_it(start, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "delay", "seconds": 0.3}):
        both = [lake.start("run", str(lake.list)) for _ in range(2)]
        pids = {process.pid for process in both}
        results = [lake.end(process) for process in both]
    assert sorted(result.code for result in results) == [0, 7], [result.err for result in results]
    refused = next(result for result in results if result.code == 7)
    assert any(f"process {pid} " in refused.error_line for pid in pids), refused.err
    assert lake.ledger()["requests"] == expected.requests
    assert_whole(lake, expected)


@pytest.mark.parametrize("seed", sized([], range(20)))
def test_a_signal_at_any_moment_ends_a_run_in_time_and_the_next_goes_on(seed, sandbox, make_lake, undisturbed):
    number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "delay", "seconds": 0.1}):
        process = lake.start("run", str(lake.list))
        poll(lambda: (lake.data / "state/lock").exists())
        time.sleep(random.Random(seed).uniform(0, 1.5))
        process.send_signal(number)
        _ends_in_time(lake, process, (128 + number, 0))
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("moment", sized([], range(0, 40, 2)))
def test_a_signal_while_staging_or_publishing_is_no_fault(moment, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    number = random.Random(moment).choice([signal.SIGINT, signal.SIGTERM])
    process = lake.start("run", str(lake.list))
    while not process.stderr.readline().startswith("Fetched"):
        assert process.poll() is None
    time.sleep(0.012 * moment)
    process.send_signal(number)
    _ends_in_time(lake, process, (128 + number, 0))
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("number", sized([], [signal.SIGINT, signal.SIGTERM]))
def test_a_signal_while_the_service_hangs_ends_the_run_within_ten_seconds(number, sandbox, make_lake, undisturbed):
    expected = undisturbed(COUNT)
    lake = make_lake(COUNT)
    with faults(sandbox, {"kind": "hang", "nth": [2, 3, 4, 5, 6, 7, 8]}):
        process = lake.start("run", str(lake.list))
        poll(lambda: lake.ledger()["requests"] >= 2)
        process.send_signal(number)
        result = _ends_in_time(lake, process, (128 + number,))
    assert "run again to continue" in result.err
    assert lake.run().code == 0
    assert_whole(lake, expected)


@pytest.mark.parametrize("number", sized([signal.SIGKILL], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_the_embedded_service_ends_with_the_run_that_started_it(number, make_lake):
    lake = make_lake(COUNT, api__base_url="sandbox", api__requests_per_minute=3)
    process = lake.start("run", str(lake.list))
    poll(
        lambda: any(lake.data.glob("landing/*/*/*.zst")) and _children(process.pid)
    )  # the log begins before the service does
    children = _children(process.pid)
    process.send_signal(number)
    lake.end(process, 15)
    poll(lambda: not any(map(_runs, children)), 10)


def _ends_in_time(lake, process, codes):
    began = time.monotonic()
    result = lake.end(process, 15)
    assert time.monotonic() - began < 10
    assert result.code in codes, result.err
    assert "Traceback" not in result.err, result.err
    return result


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
