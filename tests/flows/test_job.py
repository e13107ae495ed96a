"""What turns stages into a flow, without a server."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from firmlake.core.errors import (
    DamagedError,
    InterruptedRunError,
    Stopped,
    UsageError,
)

from .support import FLOWS, ROOT


@pytest.fixture(autouse=True)
def _environment(flow_modules: None, prefect_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_without_a_list_the_sample_is_run_on_the_embedded_service():
    from job import read_job

    settings, path = read_job(None, None, {"run.shard_companies": "7"})
    assert (settings.api.base_url, settings.paths.data) == ("sandbox", "data/sandbox")
    assert path == "data/intake/sample.csv"
    assert settings.run.shard_companies == 7
    assert read_job(None, None, {"paths.data": "elsewhere"})[0].paths.data == "elsewhere"


@pytest.mark.parametrize(
    ("variable", "given", "found"),
    [
        ("FIRMLAKE_API__BASE_URL", [None], "No company list is named"),
        ("", [""], "No company list is named"),
        ("", [" "], "No company list is named"),
        ("", ["list.csv"], "list.csv"),
        ("", ["s3://bucket/list.csv"], "s3://bucket/list.csv"),
        ("", [None, "FROM customers"], ""),
        # An unset LAKE_LIST once made every Monday's run a green run of the sample.
        ("PREFECT__RUNTIME__DEPLOYMENT__ID", [None], "This run names no company list"),
        ("PREFECT__RUNTIME__DEPLOYMENT__ID", [" "], "This run names no company list"),
        ("PREFECT__RUNTIME__DEPLOYMENT__ID", ["list.csv"], "list.csv"),
    ],
)
def test_without_a_list_only_a_person_gets_the_sample_and_not_from_another_service(monkeypatch, variable, given, found):
    import prefect  # noqa: F401 - a deployed run has imported it

    from job import read_job

    if variable:
        monkeypatch.setenv(variable, "https://service.example")
    company_list, *sql = given
    if found.endswith(("named", "list")):
        with pytest.raises(UsageError, match=found):
            read_job(company_list, None, None, *sql)
    else:
        assert read_job(company_list, None, None, *sql)[1] == found


@pytest.mark.parametrize("key", ["api.token", "FIRMLAKE_API_TOKEN"])
def test_a_token_among_the_overrides_is_refused_with_what_to_do_about_it(key: str):
    from job import read_job, read_settings

    for read in (lambda given: read_job("list.csv", None, given), lambda given: read_settings(None, given)):
        with pytest.raises(UsageError, match="stores and shows among") as caught:
            read({key: "canary-token"})
        assert "Delete this flow run" in caught.value.next_step
        assert "canary" not in str(caught.value)


def test_a_token_comes_from_a_block_or_from_a_file_and_the_error_names_both(monkeypatch: pytest.MonkeyPatch):
    import prefect  # noqa: F401 - a deployed run has imported it

    from job import read_settings

    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_BLOCK", "a-block")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_FILE", "/run/secrets/token")
    with pytest.raises(UsageError, match="Both FIRMLAKE_API_TOKEN_BLOCK and FIRMLAKE_API_TOKEN_FILE are set"):
        read_settings(None, None)


def test_prefects_log_gets_an_error_of_ours_as_a_line_and_any_other_with_its_traceback():
    from prefect.exceptions import UnfinishedRun

    import job

    [rule] = [each for each in logging.getLogger("prefect.flow_runs").filters if isinstance(each, job._OneLine)]

    def logged(error: Exception) -> tuple[str, bool]:
        info = (type(error), error, None)
        line = logging.LogRecord("prefect.flow_runs", logging.ERROR, "", 0, "It ended %s", ("badly",), info)
        assert rule.filter(line)
        return line.getMessage(), bool(line.exc_info)

    assert logged(Stopped("No credits", "Buy some")) == ("No credits. Buy some", False)
    assert logged(UnfinishedRun("Run is in CANCELLING state")) == ("Run is in CANCELLING state", False)
    assert logged(ZeroDivisionError("by 0")) == ("It ended badly", True)


def test_an_error_of_ours_becomes_a_state_with_its_line_and_no_frames():
    from job import in_one_line

    @in_one_line
    def fail(error: Exception) -> None:
        raise error

    for error, name in ((Stopped("No credits", "Buy some"), "Failed"), (InterruptedRunError("Cut"), "Crashed")):
        state: Any = fail(error)
        assert (state.name, state.message, state.data) == (name, str(error), error)
        assert error.__traceback__ is None
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())


def test_a_reader_that_has_gone_is_no_fault():
    """Nor is what rich makes of it, which would end the process."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from job import show; "
    code += "from firmlake.terminal.rows import show_table; "
    code += "[show(lambda: show_table(['a'], [('a' * 60,)] * 2_000)) for _ in range(3)]"
    command = [sys.executable, "-c", code, str(FLOWS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_runs_that_were_left_out_are_named_and_the_flow_fails(monkeypatch: pytest.MonkeyPatch):
    import job

    told: list[str] = []
    monkeypatch.setattr(job, "tell", told.append)
    job.name_damaged("2 runs archived", {})
    with pytest.raises(DamagedError, match=r"2 runs archived, without one: x is gone\. Restore it"):
        job.name_damaged("2 runs archived", {"one": DamagedError("x is gone", "Restore it")})
    assert told == ["Skipped run one: x is gone. Restore it"]


_AFTER_THE_WORKER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from job import _outlive_worker
_outlive_worker()
sys.stdin.readline()  # by now nobody reads stdout
for _ in range(200):
    if os.path.samestat(os.fstat(1), os.stat(os.devnull)):
        break
    time.sleep(0.02)
os.write(1, b"a line that nobody reads")
open(sys.argv[2], "w").write("went on")
"""


def test_a_run_goes_on_when_the_worker_that_reads_its_lines_is_gone(tmp_path: Path):
    done = tmp_path / "done"
    command = [sys.executable, "-c", _AFTER_THE_WORKER, str(FLOWS), str(done)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    assert done.read_text() == "went on"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ACME <!channel>", "ACME \u2039!channel>"),
        ("<https://evil.example|sign in>", "\u2039https://evil.example|sign in>"),
        ("[sign in](https://evil.example)", "[sign in] (https://evil.example)"),
        ("@everyone look", "\uff20everyone look"),
        ("a < b & [1] (2) jan@here.be", "a < b & [1] (2) jan@here.be"),
    ],
)
def test_names_in_a_notice_call_nobody_and_are_no_links(text: str, read: str):
    from job import plain

    assert plain(text) == read


_PAUSE = {"timeout_seconds": 60}


class _Client:
    """A server that knows one run, whose states it gives one after the other."""

    def __init__(self, *states: object) -> None:
        self.states, self.given = list(states), list[object]()

    def read_flow_run(self, _run_id: object) -> object:
        return SimpleNamespace(state=self.states.pop(0) if len(self.states) > 1 else self.states[0])

    def set_flow_run_state(self, _run_id: object, state: object, *, force: bool) -> None:
        assert force
        self.given.append(state)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (["Running"], ["CRASHED"]),
        (["Pending"], ["CRASHED"]),
        (["Paused"], ["CRASHED"]),  # it waited for an approval
        (["Cancelling"], ["CANCELLED"]),  # its worker died too
        (["Cancelling", "Cancelled"], []),
        (["Completed"], []),
        (["AwaitingRetry"], []),
    ],
)
def test_a_run_that_was_ended_from_outside_gets_its_last_state_from_us_unless_it_has_one(
    made: list[str], given: list[str]
):
    from prefect import states

    from watch import report_end

    client = _Client(*(getattr(states, name)(**_PAUSE if name == "Paused" else {}) for name in made))
    waits: list[float] = []
    report_end(client, uuid4(), waits.append)
    assert [state.type.value for state in client.given] == given
    assert all(state.message for state in client.given)
