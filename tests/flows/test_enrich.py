"""The flow on a Prefect server: what its page says, and that nothing incomplete looks like a success."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path

import pytest

from firmlake.core.errors import (
    AuthorizationError,
    CompanyListError,
    FirmlakeError,
    LockHeldError,
    SettingsError,
)
from firmlake.core.folders import Folders
from firmlake.core.work import lock
from firmlake.landing.run import list_runs
from firmlake.warehouse.generations import ask, newest
from firmlake_sandbox import Sandbox

from .conftest import RunFlow
from .support import ByHand, columns, request_count, settings_for, wait_until, write_list


@pytest.fixture
def company_list(tmp_path: Path) -> Path:
    path = tmp_path / "companies.csv"
    write_list(path, 60)
    return path


def test_a_complete_run_is_completed_and_its_page_tells_what_it_came_to(
    run_flow: RunFlow, company_list: Path, folders: Folders, capfd: pytest.CaptureFixture[str]
):
    run = run_flow(company_list, run__shard_companies=25)
    (run_id,) = [each.run_id for each in list_runs(folders)]
    assert (run.state, run.error) == ("Completed", run_id)
    assert run.message.startswith(f"Run {run_id}: 60 of 60 companies asked for, ")
    names = "plan", *(f"{what} shard {n}" for what in ("fetch", "stage") for n in (1, 2, 3)), "publish", "report"
    wait_until(lambda: run.tasks() == dict.fromkeys(names, "Completed"), what=repr(names))
    assert run.artifacts["enrich-progress"] == 100
    assert json.loads(run.artifacts["enrich-failures"]) == []
    assert str(folders.data / "report.html") in run.artifacts["enrich-report"]
    assert f"load {run_id}." in (folders.data / "report.html").read_text("utf-8")
    summary = run.artifacts["enrich-summary"]
    assert summary.startswith("## companies.csv: done\n")
    for dataset in ("financials", "lookalikes", "relationships"):
        _, answered = ask(
            folders, f"SELECT count(*) FROM company_state WHERE dataset='{dataset}' AND status='reported'"
        )
        assert f"| {dataset} | {answered[0][0]} |" in summary
    assert f"firmlake query --data {folders.data} " in summary
    assert f"firmlake query --data {folders.data} " in capfd.readouterr().out


def test_failed_companies_and_rejected_records_fail_the_run_and_are_listed(
    run_flow: RunFlow, company_list: Path, folders: Folders, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
):
    logging.getLogger("prefect.flow_runs").addHandler(caplog.handler)
    poison, *_, spoilt = write_list(company_list, 60)
    no_lookalikes = {"kind": "status", "endpoint": "lookalikes", "companies": [poison], "status": 500}
    no_date = {"kind": "drift", "endpoint": "financials", "companies": [spoilt], "field": "endDate"}
    sandbox.set_faults([no_lookalikes, no_date | {"change": "literal", "literal": "5"}])
    run = run_flow(company_list, api__tries=1)
    assert run.state == "Failed"
    unfit = "1 company has records that do not fit (financials: endDate)"
    assert run.message.startswith(f"Published, but 1 company failed; {unfit}. ")
    assert run.error.exit_code == 3
    assert run.artifacts["enrich-summary"].startswith("## companies.csv: some failed\n")
    failed, *rejected = json.loads(run.artifacts["enrich-failures"])
    names = "what", "country", "company_number", "dataset"
    assert columns([failed], *names) == [("company failed", poison[:2], poison[2:], "lookalikes")]
    assert set(columns(rejected, *names)) == {("record rejected", spoilt[:2], spoilt[2:], "financials")}
    assert all(row["reason"].startswith("endDate: ") for row in rejected)
    logging.getLogger("prefect.flow_runs").removeHandler(caplog.handler)
    assert f"lookalikes failed for 1 company ({poison[:2]} {poison[2:]}): " in caplog.text
    assert newest(folders)


def test_a_refused_token_fails_the_run_after_one_request_and_is_not_shown(
    run_flow: RunFlow, company_list: Path, folders: Folders, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "canary-31f2")
    run = run_flow(company_list, run__shard_companies=10, api__threads=1)
    assert run.state == "Failed"
    assert isinstance(run.error, AuthorizationError)
    assert run.message == str(run.error)
    assert "canary" not in run.message
    assert not newest(folders)
    assert request_count(sandbox) == 1
    wait_until(lambda: "Failed" in run.tasks().values())
    assert not [name for name in run.tasks() if name.startswith("stage")]


def test_what_is_wrong_from_the_start_fails_the_run_with_its_line(
    run_flow: RunFlow, company_list: Path, folders: Folders, sandbox: Sandbox
):
    for error, path, settings in (
        (SettingsError, company_list, {"api__thread": 4}),
        (CompanyListError, company_list.with_name("missing.csv"), {}),
    ):
        run = run_flow(path, **settings)
        assert (run.state, type(run.error), run.message) == ("Failed", error, str(run.error))
    with lock(folders, "somebody else"):
        run = run_flow(company_list)
    assert (run.state, type(run.error)) == ("Failed", LockHeldError)
    assert "somebody else" in run.message
    assert request_count(sandbox) == 0


@pytest.mark.slow
def test_prefect_keeps_neither_the_work_of_a_step_nor_its_result(enrich):
    """It keeps every task until the process ends, and a shard's records take hundreds of MB."""
    from prefect import flow

    from job import as_task

    class Records:
        pass

    kept = []

    @flow
    def work() -> None:
        records = as_task("fetch shard 1", Records)
        kept.append(weakref.ref(records))
        as_task("stage shard 1", partial(str, records))

    work()
    gc.collect()
    assert [reference() for reference in kept] == [None]


def test_its_parameters_hold_no_secret(enrich):
    assert set(enrich.parameters.properties) == {
        "company_list", "config", "overrides", "out", "columns", "sql", "datasets", "max_credits",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        pytest.param(
            {"kind": "status", "status": 403, "endpoint": "lookalikes"}, {}, id="forbidden", marks=pytest.mark.slow
        ),
        pytest.param({"kind": "status", "status": 401}, {}, id="token"),
        pytest.param(None, {"run__max_credits": 7}, id="budget", marks=pytest.mark.slow),
    ],
)
def test_the_message_of_the_state_is_the_line_of_the_terminal(
    run_flow: RunFlow, company_list: Path, sandbox: Sandbox, by_hand: ByHand, fault: dict[str, object], options
):
    sandbox.set_faults([fault] if fault else [])
    flow = run_flow(company_list, **options)
    settings = settings_for(sandbox, by_hand.folder / "other", **options)
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    by_hand.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    command = [sys.executable, "-m", "firmlake", "run", str(company_list), *flags]
    ended = subprocess.run(command, env=by_hand.environment, capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1] == f"firmlake: {flow.message}"
    assert (flow.state, ended.returncode) == ("Failed", flow.error.exit_code)


@pytest.mark.slow
def test_a_query_is_a_list_whose_lines_are_kept_to_resume(run_flow: RunFlow, company_list: Path, folders: Folders):
    run = run_flow(None, sql=f"FROM '{company_list}' LIMIT 5")
    assert run.state == "Completed"
    assert len(list(folders.inputs.glob("*/query.parquet"))) == 1
    assert ask(folders, "SELECT count(*) FROM lists.query")[1] == [(5,)]


def test_the_exit_code_of_a_run_that_is_retried_is_that_of_its_last_try(enrich):
    """Somebody who presses Retry on the page of a failed run lets a worker carry out the same flow run again."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import AwaitingRetry

    from job import EXIT_CODE_LABEL, in_one_line

    tries = []

    @flow(persist_result=False)
    @in_one_line
    def twice() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise FirmlakeError("It broke", "Again")
        return "whole"

    failed = twice(return_state=True)
    run_id = failed.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        assert (failed.name, client.read_flow_run(run_id).labels[EXIT_CODE_LABEL]) == ("Failed", 1)
        client.set_flow_run_state(run_id, AwaitingRetry(), force=True)
        state = run_flow(twice, flow_run=client.read_flow_run(run_id), return_type="state")
        assert (state.name, client.read_flow_run(run_id).labels[EXIT_CODE_LABEL]) == ("Completed", 0)


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_timed_out_and_the_next_one_goes_on(
    enrich, run_flow: RunFlow, company_list: Path, sandbox: Sandbox, folders: Folders, monkeypatch
):
    monkeypatch.setattr(enrich, "timeout_seconds", 3.0)
    sandbox.set_faults([{"kind": "delay", "seconds": 5}])
    late = run_flow(company_list)
    assert late.state == "TimedOut"
    with lock(folders, "whoever comes next"):
        pass
    sandbox.set_faults([])
    monkeypatch.setattr(enrich, "timeout_seconds", 300.0)
    asked = request_count(sandbox)
    assert run_flow(company_list).state == "Completed"
    assert ask(folders, "SELECT count(*) FROM companies")[1] == [(60,)]
    assert len(list_runs(folders)) == 1
    assert asked
    assert sandbox.ledger(summary=True)["summary"]["companies_charged_again"] == 0
