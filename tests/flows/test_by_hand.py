"""`python flows/enrich.py` as a process: its lines, its exit codes, its places, and no process left behind."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing

import pytest

from firmlake.core.folders import Folders
from firmlake.core.work import lock
from firmlake_sandbox import Sandbox

from .support import ROOT, ByHand, settings_for, write_list


@pytest.mark.slow  # `.ci/run` does it as well: it is the README's first command
def test_without_arguments_it_needs_nothing_and_leaves_no_process(by_hand: ByHand):
    """With Prefect's temporary server and the embedded service; everything made lies in the data folder."""
    (by_hand.folder / "data/intake").mkdir(parents=True)
    (by_hand.folder / "data/intake/sample.csv").write_bytes((ROOT / "data/intake/sample.csv").read_bytes())
    ended = by_hand.run()
    assert ended.code == 0, ended.err
    if sys.platform == "linux":
        assert by_hand.processes() == []
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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--set", "api.threads"), "--set api.threads is not KEY=VALUE"),
        (("--set", "api.base_url=http://127.0.0.1:9"), "There is no token"),
    ],
)
def test_what_is_wrong_from_the_start_is_said_before_a_server_starts(
    by_hand: ByHand, arguments: tuple[str, ...], line: str
):
    ended = by_hand.run("list.csv", *arguments)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert ended.error.startswith(line)
    assert not (by_hand.folder / "data").exists()


def test_a_data_folder_in_use_ends_it_at_once(by_hand: ByHand, sandbox: Sandbox, folders: Folders):
    by_hand.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    with lock(folders, "somebody else"):
        ended = by_hand.run("list.csv", settings=settings_for(sandbox, folders.data))
    assert (ended.code, len(ended.err.splitlines())) == (7, 1)
    assert "somebody else" in ended.error


@pytest.mark.slow
def test_it_uses_the_server_that_is_named_and_says_in_one_line_how_it_failed(
    by_hand: ByHand, prefect_server: str, sandbox: Sandbox, folders: Folders
):
    poison, *_ = write_list(by_hand.folder / "list.csv", 20)
    sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "companies": [poison], "status": 500}])
    by_hand.environment |= {
        "FIRMLAKE_API_TOKEN": sandbox.token,
        "PREFECT_API_URL": prefect_server,
        "PREFECT_API_AUTH_STRING": os.environ["PREFECT_API_AUTH_STRING"],
    }
    ended = by_hand.run("list.csv", settings=settings_for(sandbox, folders.data))
    assert ended.code == 3
    assert ended.error.startswith("Published, but 1 company failed. ")
    assert "temporary server" not in ended.err
    assert poison[2:] in ended.out
    assert not (folders.data / "prefect/prefect.db").exists()


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named(by_hand: ByHand, sandbox: Sandbox, folders: Folders):
    by_hand.environment |= {"FIRMLAKE_API_TOKEN": sandbox.token, "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    ended = by_hand.run("list.csv", settings=settings_for(sandbox, folders.data))
    assert ended.code == 1
    assert ended.error.startswith("Prefect's server at 127.0.0.1:9 does not answer")


@pytest.mark.slow
def test_a_plan_that_nobody_approves_in_time_ends_as_stopped_whoever_notices_first(
    by_hand: ByHand, sandbox: Sandbox, folders: Folders
):
    """Prefect's server ends a pause itself, with a state that holds no error of ours."""
    company, *_ = write_list(by_hand.folder / "list.csv", 1)
    contacts = by_hand.folder / "contacts.csv"
    contacts.write_text(f"country,company_number,contact_id\n{company[:2]},{company[2:]},7\n")
    by_hand.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    wait = {"lists.needs_approval": "true", "lists.approval_wait_hours": "0.001"}
    settings = settings_for(sandbox, folders.data) | wait
    by_hand.flow = "add_contacts"
    ended = by_hand.run(str(contacts), "--list", "1002", settings=settings)
    assert ended.code == 4
    assert ended.error.startswith("Nobody approved")
