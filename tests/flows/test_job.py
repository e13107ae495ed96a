"""What turns stages into a flow and what stands on its page, without a server."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import msgspec
import pytest

from firmlake.core.errors import DamagedError, InterruptedRunError, Stopped, UsageError
from firmlake.report.feed import AlertCounts
from firmlake.report.summary import RunSummary

from .support import FLOWS, ROOT


@pytest.fixture(autouse=True)
def _environment(flow_modules, prefect_settings, monkeypatch):
    monkeypatch.chdir(ROOT)


# --- settings, list and token ----------------------------------------------------------------------------------------


def test_without_a_list_the_sample_is_run_on_the_embedded_service():
    from job import read_job

    settings, path = read_job(None, None, {"run.shard_companies": "7"})
    assert (settings.api.base_url, settings.paths.data) == ("sandbox", "data/sandbox")
    assert (path, settings.run.shard_companies) == ("data/intake/sample.csv", 7)
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


def test_a_token_among_the_overrides_is_refused_and_so_is_one_from_two_places(monkeypatch):
    import prefect  # noqa: F401 - a deployed run has imported it

    from job import read_job, read_settings

    for key in ("api.token", "FIRMLAKE_API_TOKEN"):
        for read in (lambda given: read_job("list.csv", None, given), lambda given: read_settings(None, given)):
            with pytest.raises(UsageError, match="stores and shows among") as caught:
                read({key: "canary-token"})
            assert "Delete this flow run" in caught.value.next_step
            assert "canary" not in str(caught.value)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_BLOCK", "a-block")
    monkeypatch.setenv("FIRMLAKE_API_TOKEN_FILE", "/run/secrets/token")
    with pytest.raises(UsageError, match="Both FIRMLAKE_API_TOKEN_BLOCK and FIRMLAKE_API_TOKEN_FILE are set"):
        read_settings(None, None)


# --- how a flow ends -------------------------------------------------------------------------------------------------


def test_an_error_of_ours_becomes_a_state_and_a_line_of_the_log_and_any_other_keeps_its_traceback():
    from prefect.exceptions import UnfinishedRun

    import job

    @job.in_one_line
    def fail(error):
        raise error

    for error, name in ((Stopped("No credits", "Buy some"), "Failed"), (InterruptedRunError("Cut"), "Crashed")):
        state = fail(error)
        assert (state.name, state.message, state.data) == (name, str(error), error)
        assert error.__traceback__ is None
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())

    (rule,) = [each for each in logging.getLogger("prefect.flow_runs").filters if isinstance(each, job._OneLine)]
    for error, said in (
        (Stopped("No credits", "Buy some"), ("No credits. Buy some", False)),
        (UnfinishedRun("Run is in CANCELLING state"), ("Run is in CANCELLING state", False)),
        (ZeroDivisionError("by 0"), ("It ended badly", True)),
    ):
        info = (type(error), error, None)
        line = logging.LogRecord("prefect.flow_runs", logging.ERROR, "", 0, "It ended %s", ("badly",), info)
        assert rule.filter(line)
        assert (line.getMessage(), bool(line.exc_info)) == said


@pytest.mark.parametrize(("deployment", "parent"), [("weekly", None), ("weekly", "x"), ("portfolio", None)])
def test_a_flow_run_is_named_by_what_it_is_about_unless_another_named_it(monkeypatch, deployment, parent):
    from job import _name_run

    given = {"parameters": {"company_list": "s3://lists/customers.csv"}, "scheduled_start_time": NOON}
    run = SimpleNamespace(name="given", parent_flow_run_id=parent, **given)
    monkeypatch.setattr("prefect.runtime.deployment", SimpleNamespace(name=deployment, id="x"))
    monkeypatch.setattr("prefect.runtime.flow_run", run)
    assert _name_run() == ("given" if parent or deployment == "portfolio" else "weekly customers 2026-01-05")


def test_runs_that_were_left_out_are_named_and_the_flow_fails(monkeypatch):
    import job

    told = []
    monkeypatch.setattr(job, "tell", told.append)
    job.name_damaged("2 runs archived", {})
    with pytest.raises(DamagedError, match=r"2 runs archived, without one: x is gone\. Restore it"):
        job.name_damaged("2 runs archived", {"one": DamagedError("x is gone", "Restore it")})
    assert told == ["Skipped run one: x is gone. Restore it"]


_READERS_GONE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from job import _outlive_worker, show
from firmlake.terminal.rows import show_table
sys.stdin.readline()  # by now nobody reads stdout
for _ in range(3):
    show(lambda: show_table(["a"], [("a" * 60,)] * 2_000))
sys.stdout = open(os.devnull, "w")
_outlive_worker()
for _ in range(200):
    if os.path.samestat(os.fstat(1), os.stat(os.devnull)):
        break
    time.sleep(0.02)
os.write(1, b"a line that nobody reads")
open(sys.argv[2], "w").write("went on")
"""


@pytest.mark.slow
def test_a_reader_that_has_gone_is_no_fault_and_a_run_outlives_the_worker_that_reads_its_lines(tmp_path):
    """Nor is what rich makes of it, which would end the process."""
    done = tmp_path / "done"
    command = [sys.executable, "-c", _READERS_GONE, str(FLOWS), str(done)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)
    assert done.read_text() == "went on"


class _Client:
    """A server that knows one run, whose states it gives one after the other."""

    def __init__(self, *states):
        self.states, self.given = list(states), []

    def read_flow_run(self, _run_id):
        return SimpleNamespace(state=self.states.pop(0) if len(self.states) > 1 else self.states[0])

    def set_flow_run_state(self, _run_id, state, *, force):
        assert force
        self.given.append(state)


ENDS = {
    "Running": ["CRASHED"], "Pending": ["CRASHED"], "Completed": [], "AwaitingRetry": [],
    "Paused": ["CRASHED"],  # it waited for an approval
    "Cancelling": ["CANCELLED"],  # its worker died too
    "Cancelling Cancelled": [],
}  # fmt: skip


@pytest.mark.parametrize("made", ENDS)
def test_a_run_that_was_ended_from_outside_gets_its_last_state_from_us_unless_it_has_one(made):
    from prefect import states

    from watch import report_end

    pause = {"Paused": {"timeout_seconds": 60}}
    client = _Client(*(getattr(states, name)(**pause.get(name, {})) for name in made.split()))
    report_end(client, uuid4(), lambda seconds: None)
    assert [state.type.value for state in client.given] == ENDS[made]
    assert all(state.message for state in client.given)


# --- its page --------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SUMMARY = RunSummary(
    run_id="20260105T120000Z-0000", outcome="some_failed", list_name="ours|<b>.csv", started_at=NOON, finished_at=NOON,
    line_count=2001, company_count=2000, refused_count=1, repeated_count=0, fresh_count=500, target_count=1500,
    request_count=1234, credit_count=None, expected_credit_count=1500, changed_company_count=1400, reject_count=3,
    discard_count=2, datasets={"financials": {"reported": 1400, "failed": 100, "fresh": 500}},
    rows={"financials": 11200}, drift=[("financials", "new_field", "a|b", 7)], generation=4,
    warehouse=Path("data/warehouse/firmlake.duckdb"),
)  # fmt: skip
LINE = "Run 20260105T120000Z-0000: 1,500 of 2,000 companies asked for, 1,234 requests, unknown credits, generation 4"


def test_the_summary_accounts_for_every_company_and_names_from_outside_cannot_break_out_of_their_cell():
    from artifacts import summary_line, summary_markdown

    text = summary_markdown(SUMMARY)
    lines = text.splitlines()
    at = lines.index("| companies by dataset | reported | empty | not found | failed | waiting | fresh |")
    assert lines[at + 2] == "| financials | 1,400 | 0 | 0 | 100 | 0 | 500 |"
    assert "| companies | 2,000, 500 of them fresh |" in lines
    assert text.startswith("## ours\\|&lt;b>.csv: some failed\n")
    assert "| financials | new_field | a\\|b | 7 |" in text
    assert summary_line(SUMMARY) == LINE
    with_alerts = msgspec.structs.replace(SUMMARY, alerts=AlertCounts(opened=3, opened_high=1, open=9, closed=2))
    said = "3 opened (1 of high severity), 2 closed, 9 open"
    assert summary_line(with_alerts) == f"{LINE}; alerts: {said}"
    assert f"Alerts: {said}" in summary_markdown(with_alerts)


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
def test_names_in_a_notice_call_nobody_and_are_no_links(text, read):
    from job import plain

    assert plain(text) == read
