"""`python flows/enrich.py` as a process: its lines, exit codes and places; however it ends, nothing is left or lost."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from firmlake.core.errors import Stopped, UsageError
from firmlake.core.work import lock
from lake import TOKEN, killed_at_last, wait_until
from spellings import SPELLINGS, echo, holds_piece
from support import slow

from .support import ROOT

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow  # `.ci/run` does it as well: it is the README's first command
def test_without_arguments_it_needs_nothing_and_leaves_no_process(by_hand):
    """With Prefect's temporary server and the embedded service; everything made lies in the data folder."""
    by_hand.environment = {"HOME": by_hand.environment["HOME"], "NO_COLOR": "1", "COLUMNS": "200"}
    (by_hand.folder / "data/intake").mkdir(parents=True)
    (by_hand.folder / "data/intake/sample.csv").write_bytes((ROOT / "data/intake/sample.csv").read_bytes())
    ended = by_hand.run_flow()
    assert ended.code == 0, ended.err
    assert by_hand.processes() == {}
    lines = ended.err.splitlines()
    assert lines[0] == "Starting Prefect's temporary server, about 10 s ..."
    assert lines[1].startswith("sample.csv: 78 companies accepted, ")
    assert lines[2].startswith("To fetch: 78 companies ")
    assert lines[-1].startswith("Fetched: ")
    assert "firmlake query --data data/sandbox " in ended.out
    assert list((by_hand.folder / "home").iterdir()) == []
    prefect = by_hand.folder / "data/sandbox/prefect"
    assert (prefect / "server.log").read_text() == ""
    with closing(sqlite3.connect(prefect / "prefect.db")) as database:
        assert database.execute("SELECT state_name FROM flow_run").fetchall() == [("Completed",)]
        tasks = dict(database.execute("SELECT name, state_name FROM task_run").fetchall())
    assert tasks == dict.fromkeys(("plan", "fetch shard 1", "stage shard 1", "publish", "report"), "Completed")


WRONG = {
    "list.csv --set api.threads": (2, "--set api.threads is not KEY=VALUE"),
    "list.csv --set api.base_url=http://127.0.0.1:9": (2, "There is no token"),
    "list.csv": (7, "somebody else"),
}


@pytest.mark.parametrize("typed", [*list(WRONG)[1:], *slow(next(iter(WRONG)))])
@pytest.mark.slow
def test_what_is_wrong_from_the_start_is_said_before_a_server_starts(by_hand, typed):
    code, said = WRONG[typed]
    if code == 7:
        with lock(by_hand.folders, "somebody else"):
            ended = by_hand.run_flow(*typed.split())
    else:
        del by_hand.environment["FIRMLAKE_API_TOKEN"]
        ended = by_hand.run_flow(*typed.split())
        assert not by_hand.data.exists()
    assert (ended.code, len(ended.err.splitlines()), said in ended.error_line) == (code, 1, True)


@pytest.mark.slow
def test_it_uses_the_server_that_is_named_and_says_in_one_line_how_it_failed(by_hand, prefect_server, sandbox):
    by_hand.write(20)
    poison = by_hand.numbers[0]
    sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "companies": ["".join(poison)], "status": 500}])
    auth = os.environ["PREFECT_API_AUTH_STRING"]
    by_hand.environment |= {"PREFECT_API_URL": prefect_server, "PREFECT_API_AUTH_STRING": auth}
    ended = by_hand.run_flow("list.csv")
    assert ended.code == 3
    assert ended.error_line.startswith("firmlake: Published, but 1 company failed. ")
    assert "temporary server" not in ended.err
    assert poison[1] in ended.out
    assert not (by_hand.data / "prefect/prefect.db").exists()
    by_hand.environment["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    ended = by_hand.run_flow("list.csv")
    assert ended.code == 1
    assert ended.error_line.startswith("firmlake: Prefect's server at 127.0.0.1:9 does not answer")


@pytest.mark.slow
def test_a_plan_that_nobody_approves_in_time_ends_as_stopped_whoever_notices_first(by_hand):
    """Prefect's server ends a pause itself, with a state that holds no error of ours."""
    by_hand.write(1)
    contacts = by_hand.folder / "contacts.csv"
    contacts.write_text("country,company_number,contact_id\n{},{},7\n".format(*by_hand.numbers[0]))
    by_hand.set("lists__needs_approval", "true")
    by_hand.set("lists__approval_wait_hours", "0.001")
    ended = by_hand.run_flow(str(contacts), "--list", "1002", name="add_contacts")
    assert (ended.code, ended.error_line[:25]) == (4, "firmlake: Nobody approved")


@pytest.mark.parametrize(("error", "is_waiting"), [(OSError, False), (OSError, True), (UsageError, True)])
def test_an_error_is_that_of_the_flow_unless_nobody_approved(flow_modules, monkeypatch, error, is_waiting):
    from prefect.states import Failed

    import by_hand

    module = SimpleNamespace(flow=lambda **_: Failed(data=error("x")), unapproved=["its next step"] * is_waiting)
    for name, stub in {"import_module": lambda _: module, "_find_server": Mock(return_value=None)}.items():
        monkeypatch.setattr(by_hand, name, stub)
    monkeypatch.setattr(by_hand, "_OUR_LOGGERS", ())
    with pytest.raises(Stopped if is_waiting and error is OSError else error):
        by_hand._run("flow", {})


# --- no piece of the token is in Prefect's database, however the service repeats it -----------------------------------


def cells(path):
    """Everything that a database of SQLite holds, its write-ahead log included."""
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [row for (table,) in tables for row in database.execute(f'SELECT * FROM "{table}"')]
    return {str(value) for row in rows for value in row if value is not None}


@pytest.mark.slow
@pytest.mark.parametrize("status", [401, 404, 500])
def test_no_piece_of_the_token_is_in_prefects_database(status, by_hand):
    by_hand.write(3)
    with echo(status, itertools.cycle(SPELLINGS.values()).__next__) as address:
        ended = by_hand.run_flow("list.csv", "--set", f"api.base_url={address}", "--set", "api.tries=2")
    assert ended.code == (5 if status == 401 else 1), ended.err
    held = cells(by_hand.data / "prefect/prefect.db")
    assert any("[token]" in cell for cell in held), "what the service said is there, without the token"
    assert not [cell[:200] for cell in held if len(cell) >= 12 and holds_piece(cell, TOKEN)]
    assert not holds_piece(json.dumps([ended.out, ended.err]), TOKEN)
    raw = b"".join(path.read_bytes() for path in (by_hand.data / "prefect").rglob("*") if path.is_file())
    assert TOKEN.encode() not in raw


# --- signals and kills -----------------------------------------------------------------------------------------------

COMPANIES = 400
IN_FLIGHT = 4
"""Requests at once at most: what a kill -9 can lose."""
of_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at the process table in /proc")


@pytest.fixture
def undisturbed(by_hand, sandbox):
    """Requests that the list needs when nothing happens."""
    by_hand.write(COMPANIES)
    by_hand.set("run__shard_companies", 100)
    assert by_hand.run("--data", str(by_hand.folder / "undisturbed")).code == 0
    count = by_hand.requests()
    sandbox.reset()
    return count


def start_and_wait(by_hand, sandbox):
    """Start a run whose requests take two seconds, and wait until some are answered and some in flight."""
    sandbox.set_faults([{"kind": "delay", "seconds": 2}])
    process = by_hand.flow("list.csv")
    wait_until(lambda: by_hand.requests() >= 6 or process.poll() is not None, 120, "requests")
    return process


def go_on(by_hand, sandbox):
    sandbox.set_faults([])
    again = by_hand.run_flow("list.csv")
    assert (again.code, "Continuing run " in again.err) == (0, True)
    assert by_hand.query("SELECT count(*) FROM company_state WHERE status <> 'failed'") == [(3 * COMPANIES,)]


@of_linux
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_lets_the_requests_in_flight_end_and_the_same_command_goes_on(
    by_hand, sandbox, undisturbed, number, code
):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the tests run under nohup, and so do the commands that they start")
    with killed_at_last(start_and_wait(by_hand, sandbox)) as process:
        os.killpg(process.pid, number)  # as a terminal does: to everybody in the foreground
        ended = by_hand.ended(process, 180)
    assert by_hand.processes() == {}
    said = "firmlake: Interrupted. What was fetched is kept; run again to continue"
    assert (ended.code, ended.error_line) == (code, said)
    with closing(sqlite3.connect(by_hand.data / "prefect/prefect.db")) as database:
        assert database.execute("SELECT state_name FROM flow_run").fetchall() == [("Crashed",)]
        assert database.execute("SELECT count(*) FROM task_run WHERE state_type = 'RUNNING'").fetchone() == (0,)
    go_on(by_hand, sandbox)
    assert (by_hand.processes(), by_hand.requests()) == ({}, undisturbed)


@of_linux
@pytest.mark.slow
def test_after_a_kill_no_process_is_left_and_the_run_goes_on_without_prefects_database(by_hand, sandbox, undisturbed):
    with killed_at_last(start_and_wait(by_hand, sandbox)) as process:
        process.kill()
        by_hand.ended(process)
    wait_until(lambda: by_hand.processes() == {}, 20, "processes that end by themselves")
    shutil.rmtree(by_hand.data / "prefect")
    go_on(by_hand, sandbox)
    assert undisturbed <= by_hand.requests() <= undisturbed + IN_FLIGHT


@of_linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_the_server_starts_leaves_no_process(by_hand, number):
    by_hand.write(10)
    with killed_at_last(by_hand.flow("list.csv")) as process:
        assert process.stderr.readline().startswith("Starting ")
        process.send_signal(number)
        assert by_hand.ended(process, 180).code == (-9 if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: by_hand.processes() == {}, 0 if number != signal.SIGKILL else 20, "processes that end")
    assert by_hand.requests() == 0
