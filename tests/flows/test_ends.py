"""However the flow ends, no process is left, nothing is asked twice, and the same command goes on."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from firmlake.core.folders import Folders
from firmlake.warehouse.generations import ask
from firmlake_sandbox import Sandbox

from .support import ByHand, killed_at_last, request_count, settings_for, wait_until, write_list

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at the process table in /proc"),
]

SHARDS = {"run__shard_companies": 100}
COMPANIES = 400
IN_FLIGHT = 4
"""Requests at once at most: what a kill -9 can lose."""


@pytest.fixture
def undisturbed(by_hand: ByHand, sandbox: Sandbox, tmp_path: Path) -> int:
    """Requests that the list needs when nothing happens."""
    write_list(by_hand.folder / "list.csv", COMPANIES)
    by_hand.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    settings = settings_for(sandbox, tmp_path / "undisturbed", **SHARDS)
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "firmlake", "run", "list.csv", *flags]
    subprocess.run(command, cwd=by_hand.folder, env=by_hand.environment, check=True, capture_output=True)
    count = request_count(sandbox)
    sandbox.reset()
    return count


def start_and_wait(by_hand: ByHand, sandbox: Sandbox, settings: dict[str, str]) -> subprocess.Popen[str]:
    """Start a run whose requests take two seconds, and wait until some are answered and some in flight."""
    sandbox.set_faults([{"kind": "delay", "seconds": 2}])
    process = by_hand.start("list.csv", settings=settings)
    wait_until(lambda: request_count(sandbox) >= 6 or process.poll() is not None, 120, "requests")
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda each: str(each)
)
def test_a_signal_lets_the_requests_in_flight_end_and_the_same_command_goes_on(
    by_hand: ByHand, sandbox: Sandbox, folders: Folders, undisturbed: int, number: signal.Signals, code: int
):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the tests run under nohup, and so do the commands that they start")
    settings = settings_for(sandbox, folders.data, **SHARDS)
    with killed_at_last(start_and_wait(by_hand, sandbox, settings)) as process:
        os.killpg(process.pid, number)  # as a terminal does: to everybody in the foreground
        ended = by_hand.end(process)
    assert by_hand.processes() == []
    assert (ended.code, ended.error) == (code, "Interrupted. What was fetched is kept; run again to continue")
    with closing(sqlite3.connect(folders.data / "prefect/prefect.db")) as database:
        assert database.execute("SELECT state_name FROM flow_run").fetchall() == [("Crashed",)]
        assert database.execute("SELECT count(*) FROM task_run WHERE state_type = 'RUNNING'").fetchone() == (0,)

    sandbox.set_faults([])
    again = by_hand.run("list.csv", settings=settings)
    assert (again.code, by_hand.processes()) == (0, [])
    assert "Continuing run " in again.err
    assert request_count(sandbox) == undisturbed
    assert ask(folders, "SELECT count(*) FROM company_state WHERE status <> 'failed'")[1] == [(3 * COMPANIES,)]


def test_after_a_kill_no_process_is_left_and_the_run_goes_on_without_prefects_database(
    by_hand: ByHand, sandbox: Sandbox, folders: Folders, undisturbed: int
):
    settings = settings_for(sandbox, folders.data, **SHARDS)
    with killed_at_last(start_and_wait(by_hand, sandbox, settings)) as process:
        process.kill()
        by_hand.end(process)
    wait_until(lambda: by_hand.processes() == [], 20, "processes that end by themselves")
    shutil.rmtree(folders.data / "prefect")

    sandbox.set_faults([])
    again = by_hand.run("list.csv", settings=settings)
    assert again.code == 0
    assert "Continuing run " in again.err
    assert undisturbed <= request_count(sandbox) <= undisturbed + IN_FLIGHT
    assert ask(folders, "SELECT count(*) FROM company_state WHERE status <> 'failed'")[1] == [(3 * COMPANIES,)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: str(each))
def test_a_signal_while_the_server_starts_leaves_no_process(by_hand: ByHand, sandbox: Sandbox, number: signal.Signals):
    write_list(by_hand.folder / "list.csv", 10)
    by_hand.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    with killed_at_last(by_hand.start("list.csv", settings=settings_for(sandbox, by_hand.folder / "data"))) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("Starting ")
        process.send_signal(number)
        assert by_hand.end(process).code == (-9 if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: by_hand.processes() == [], 0 if number != signal.SIGKILL else 20, "processes that end")
    assert request_count(sandbox) == 0
