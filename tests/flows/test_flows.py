"""The flows on a Prefect server: what their pages say, and that nothing incomplete looks like a success."""

from __future__ import annotations

import gc
import json
import re
import threading
import weakref
from functools import partial

import pytest

from delivery.conftest import add_week
from firmlake.core.errors import (
    AuthorizationError,
    FirmlakeError,
)
from firmlake.core.work import lock
from firmlake.enrich import run as runner
from firmlake.landing.run import list_runs
from firmlake.service_lists.apply import read_service_lists
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake_sandbox import sample_numbers
from forget.world import places_of
from lake import wait_until
from support import ACME, publish_list

from .conftest import ask_server, load_flow
from .support import ROOT

pytestmark = pytest.mark.timeout(400)  # on a busy machine Prefect's server alone takes two minutes to start

STATIC, SMART = 1002, 1001


# --- enrich ----------------------------------------------------------------------------------------------------------


def test_a_complete_run_is_completed_and_its_page_tells_what_it_came_to(run_either, make_lake, capfd):
    lake = make_lake(20)
    run = run_either(lake, run__shard_companies=12, paths__alert_rules=str(ROOT / "config/watch.toml"))
    (run_id,) = [each.run_id for each in list_runs(lake.folders)]
    assert (run.state, run.result) == ("Completed", run_id)
    assert run.message.startswith(f"Run {run_id}: 20 of 20 companies asked for, ")
    names = "plan", *(f"{what} shard {n}" for what in ("fetch", "stage") for n in (1, 2)), "publish", "report"
    wait_until(lambda: run.tasks() == dict.fromkeys(names, "Completed"), what=repr(names))
    assert run.artifacts["enrich-progress"] == 100
    assert json.loads(run.artifacts["enrich-failures"]) == []
    rows = json.loads(run.artifacts["enrich-alerts"])
    assert {row["alert"] for row in rows} == {"opened"}
    assert all(row[name] for row in rows for name in ("severity", "what", "country", "company_number", "evidence"))
    assert str(lake.data / "report.html") in run.artifacts["enrich-report"]
    assert f"load {run_id}." in (lake.data / "report.html").read_text("utf-8")
    summary = run.artifacts["enrich-summary"]
    assert summary.startswith("## list.csv: done\n")
    answered = lake.query("SELECT dataset, count(*) FROM company_state WHERE status = 'reported' GROUP BY ALL")
    assert len(answered) == 3
    assert all(f"| {dataset} | {count} |" in summary for dataset, count in answered)
    assert f"firmlake query --data {lake.data} " in summary
    assert re.search(r"\nAlerts: [1-9]\d* opened ", summary)
    assert f"firmlake query --data {lake.data} " in capfd.readouterr().out


@pytest.mark.slow
def test_failed_companies_and_rejected_records_fail_the_run_and_are_listed(run_flow, lake, sandbox):
    poison, spoilt = ("".join(lake.numbers[place]) for place in (0, -1))
    no_lookalikes = {"kind": "status", "endpoint": "lookalikes", "companies": [poison], "status": 500}
    no_date = {"kind": "drift", "endpoint": "financials", "companies": [spoilt], "field": "endDate"}
    sandbox.set_faults([no_lookalikes, no_date | {"change": "literal", "literal": "5"}])
    run = run_flow(lake, api__tries=1)
    unfit = "1 company has records that do not fit (financials: endDate)"
    assert (run.state, run.result.exit_code) == ("Failed", 3)
    assert run.message.startswith(f"Published, but 1 company failed; {unfit}. ")
    assert run.artifacts["enrich-summary"].startswith("## list.csv: some failed\n")
    failed, *rejected = json.loads(run.artifacts["enrich-failures"])
    names = ("what", "country", "company_number", "dataset")
    assert [failed[name] for name in names] == ["company failed", poison[:2], poison[2:], "lookalikes"]
    rows = {tuple(row[name] for name in names) for row in rejected}
    assert rows == {("record rejected", spoilt[:2], spoilt[2:], "financials")}
    assert all(row["reason"].startswith("endDate: ") for row in rejected)
    assert newest(lake.folders)


def test_a_refused_token_fails_the_run_after_one_request_and_is_not_shown(run_either, lake, sandbox, monkeypatch):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "canary-31f2")
    run = run_either(lake, run__shard_companies=10, api__threads=1)
    assert (run.state, type(run.result), run.message) == ("Failed", AuthorizationError, str(run.result))
    assert "canary" not in run.message
    assert not newest(lake.folders)
    assert lake.requests() == 1
    wait_until(lambda: "Failed" in run.tasks().values())
    assert not [name for name in run.tasks() if name.startswith("stage")]


FAULTS = {
    "token": ({"kind": "status", "status": 401}, {}),
    "forbidden": ({"kind": "status", "status": 403, "endpoint": "lookalikes"}, {}),
    "budget": (None, {"run__max_credits": 7}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_message_of_the_state_is_the_line_of_the_terminal(run_flow, make_lake, sandbox, name):
    fault, settings = FAULTS[name]
    sandbox.set_faults([fault] if fault else [])
    of_flow, of_command = make_lake(name="flow"), make_lake(name="command", **settings)
    flow, ended = run_flow(of_flow, **settings), of_command.call("run", str(of_command.list))
    assert ended.err.splitlines()[-1] == f"firmlake: {flow.message}"
    assert (flow.state, ended.code) == ("Failed", flow.result.exit_code)


@pytest.mark.slow
def test_prefect_keeps_neither_the_work_of_a_step_nor_its_result(prefect):
    """It keeps every task until the process ends, and a shard's records take hundreds of MB."""
    from prefect import flow

    from job import as_task

    class Records:
        pass

    kept = []

    @flow
    def work():
        records = as_task("fetch shard 1", Records)
        kept.append(weakref.ref(records))
        as_task("stage shard 1", partial(str, records))

    work()
    gc.collect()
    assert [reference() for reference in kept] == [None]


@pytest.mark.slow
def test_a_query_is_a_list_whose_lines_are_kept_to_resume(run_flow, lake):
    assert run_flow(lake, None, given={"sql": f"FROM '{lake.list}' LIMIT 5"}).state == "Completed"
    assert len(list(lake.folders.inputs.glob("*/query.parquet"))) == 1
    assert lake.query("SELECT count(*) FROM lists.query") == [(5,)]


@pytest.mark.slow
def test_the_exit_code_of_a_run_that_is_retried_is_that_of_its_last_try(prefect):
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
def test_a_run_that_takes_too_long_is_timed_out_and_the_next_one_goes_on(prefect, lake, sandbox):
    enrich = load_flow("enrich")
    states = []
    for seconds, faults in ((3.0, [{"kind": "delay", "seconds": 5}]), (300.0, [])):
        sandbox.set_faults(faults)
        enrich.timeout_seconds = seconds
        states.append(enrich(str(lake.list), overrides=lake.overrides(), return_state=True).name)
        with lock(lake.folders, "whoever comes next"):
            pass
        assert lake.requests()
    assert states == ["TimedOut", "Completed"]
    assert lake.query("SELECT count(*) FROM companies") == [(60,)]
    assert len(list_runs(lake.folders)) == 1
    assert lake.ledger()["companies_charged_again"] == 0


# --- whoever starts the work, a command, a flow or Python: with the same settings the warehouse holds the same --------

# Names and times of runs and requests; which of two requests at the same time is charged; persons are concealed with a
# key of the data folder.
_OF_ONE_RUN = {
    "run_id", "valid_from_run", "valid_to_run", "request_id", "duration_seconds", "credits_charged",
    "credits_remaining", "created_by",
}  # fmt: skip


def content(lake):
    """Every row of every table, without what no two runs have in common."""
    found = {}
    with open_warehouse(lake.folders) as connection:
        for name, table in WAREHOUSE_TABLES.items():
            columns = [c.name for c in table.columns if c.name not in _OF_ONE_RUN and not c.name.endswith("_at")]
            found[name] = connection.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL").fetchall()
    return found


PLAIN = {"run__shard_companies": 5, "run__check": "true"}
EXPAND = {"run__shard_companies": 5, "run__expand": "lookalikes", "run__max_credits": 40}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [PLAIN, EXPAND])
@pytest.mark.parametrize("starter", ["flow", "command"])
def test_an_enrichment(run_flow, make_lake, sandbox, starter, settings):
    expected, found = make_lake(12, "python", **settings), make_lake(12, "other", **settings)
    runner.enrich(expected.settings, expected.list, "a test")
    at_first = expected.ledger()["credits_charged"]
    sandbox.reset()
    if starter == "flow":
        run_flow(found)
    else:
        assert found.run().code in (0, 4)
    assert found.ledger()["credits_charged"] == at_first
    held = content(found)
    assert held == content(expected)
    assert (at_first, len(held["runs"])) == ((40, 2) if settings is EXPAND else (12, 1))


# --- lists of the service and contacts -------------------------------------------------------------------------------


@pytest.fixture
def few_lists(make_lake, sandbox):
    """A lake on a service with few lists, and contacts for one of them."""
    sandbox.set_options(lists=20)
    lake = make_lake(0)
    lines = [f"{country},{number},11" for country, number in sample_numbers(3, seed=5)]
    (lake.folder / "contacts.csv").write_text("\n".join(["country,company_number,contact_id", *lines]))
    return lake


@pytest.fixture
def add(run_flow, few_lists):
    path = few_lists.folder / "contacts.csv"
    return lambda to=STATIC, **settings: run_flow(
        few_lists, str(path), flow="add_contacts", given={"list_id": to}, **settings
    )


def puts(lake):
    return sum(lake.ledger()["by_endpoint"].get("lists.contacts", {}).values())


@pytest.mark.slow
def test_the_overview_is_that_of_the_command_and_shows_what_changed(run_flow, make_lake, few_lists, sandbox):
    by_command, by_python = make_lake(0, "command"), make_lake(0, "python")
    assert run_flow(few_lists, flow="service_lists").state == "Completed"
    assert by_command.call("service-lists").code == 0
    read_service_lists(by_python.settings, "OVERVIEW", "a test")
    assert content(few_lists) == content(by_command) == content(by_python)
    assert len(content(few_lists)["service_lists"]) == 20
    sandbox.set_faults([{"kind": "change_lists", "change": "vanish", "list": STATIC, "times": 1}])
    second = run_flow(few_lists, flow="service_lists")
    assert second.message == "19 lists (11 static, 8 smart), read 1 time"
    (event,) = json.loads(second.artifacts["service-lists-changes"])
    assert (event["list_id"], event["kind"]) == (STATIC, "list_gone")


@pytest.mark.slow
def test_contacts_are_planned_shown_and_added(add, few_lists):
    done = add()
    assert (done.state, done.message) == ("Completed", f"3 contacts added to list {STATIC}")
    assert "To add: 3 contacts of 3 companies in 1 request" in done.artifacts["add-contacts-plan"]
    assert (few_lists.data / "plans" / f"{done.result}.json").exists()
    with (few_lists.folder / "contacts.csv").open("a") as file:
        file.write("\nBE,0403227515,10\n")
    partly = add()
    assert (partly.state, partly.result.exit_code) == ("Failed", 3)
    assert [row["contact_id"] for row in json.loads(partly.artifacts["add-contacts-failures"])] == ["10"]
    assert puts(few_lists) == 2


@pytest.mark.slow
def test_a_smart_list_fails_before_any_write(add, few_lists):
    refused = add(SMART)
    assert (refused.state, refused.result.exit_code) == ("Failed", 2)
    assert puts(few_lists) == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_approved", [True, False])
def test_nothing_is_added_before_a_person_approves(add, few_lists, prefect, is_approved):
    answered = threading.Event()
    answerer = threading.Thread(target=_answer, args=(prefect, few_lists, is_approved, answered))
    answerer.start()
    ended = add(lists__needs_approval="true")
    answerer.join()
    assert answered.is_set()
    assert (ended.state, puts(few_lists)) == (("Completed", 1) if is_approved else ("Failed", 0))
    if not is_approved:
        assert ended.result.exit_code == 4
        assert ended.message.startswith("The plan was not approved by Zoë")


def _answer(api, lake, is_approved, answered):
    """Answer as the form in Prefect's interface does, once the flow waits."""

    def post(path, content):
        answer = ask_server("POST", f"{api}/{path}", content)
        return None if answer.status_code >= 500 else answer  # its database is busy: Prefect's own clients ask again

    def ask(path, content):
        return wait_until(lambda: post(path, content)).raise_for_status().json()

    states = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}, "flows": {"name": {"any_": ["add-contacts"]}}}
    (paused,) = wait_until(lambda: ask("flow_runs/filter", states))
    assert puts(lake) == 0
    answer = {"run_input": {"approve": is_approved, "name": "Zoë"}}
    # The run is paused a moment before its form is there: Prefect rejects answers until then.
    wait_until(lambda: ask(f"flow_runs/{paused['id']}/resume", answer)["status"] == "ACCEPT")
    answered.set()


# --- deliveries and upkeep -------------------------------------------------------------------------------------------

# The flow, its settings beside the data folder, and the beginnings of its messages: done, no target.
DELIVERIES = [
    ("load", {"target": "duckdb:{}/target.duckdb", "tables": "runs"}, "Loaded into duckdb", "No target is named"),
    ("export", {"target": "{}/out", "tables": "companies"}, "Exported ", "No export target is named"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings", "done", "no_target"), DELIVERIES)
def test_the_newest_generation_leaves_and_the_second_time_nothing_is_done(
    run_flow, make_lake, monkeypatch, name, settings, done, no_target
):
    lake, empty = make_lake(0), make_lake(0, "new")
    add_week(lake.folders, 0)
    target = {f"{name}__{key}": value.format(lake.folder) for key, value in settings.items()}
    first, again = (run_flow(lake, flow=name, **target) for _ in range(2))
    assert (first.state, first.message[: len(done)], bool(first.result)) == ("Completed", done, True)
    assert (again.state, again.message[:13]) == ("Completed", "Already there")
    failed = run_flow(lake, flow=name)
    assert (failed.state, failed.message.split(".")[0]) == ("Failed", no_target)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "of a deployment")
    skipped = run_flow(lake, flow=name)
    assert (skipped.state, skipped.message.split(":")[0], skipped.result) == ("Completed", "Skipped", "")
    skipped = run_flow(empty, flow=name, **target)
    assert (skipped.state, skipped.message) == ("Completed", "Skipped: no run has ended yet")


@pytest.mark.slow
def test_upkeep_is_the_command_of_the_same_name_skipped_beside_a_run_and_fails_with_its_line(run_flow, make_lake):
    lake = make_lake(0)
    upkeep = partial(run_flow, lake, flow="upkeep")
    for command in ("metrics", "report"):
        early = upkeep(command)
        assert (early.state, early.message) == ("Completed", "Skipped: no run has ended yet")
    assert not lake.data.exists()
    cells = [{"note": "a cell"}, {"note": "a refused one"}]
    publish_list(lake.folders, [ACME, None], cells=cells, given="x", reason="no number")
    written = upkeep("metrics")
    assert (written.state, written.message) == ("Completed", f"metrics: {lake.data / 'metrics.prom'}")
    assert (lake.data / "metrics.prom").read_text().endswith("# EOF\n")
    skipped = upkeep("archive")
    assert (skipped.state, skipped.message.split(":")[0]) == ("Completed", "Skipped")
    with lock(lake.folders, "a run"):
        beside = upkeep("prune")
    assert (beside.state, beside.message.split(" by ")[0]) == ("Completed", f"Skipped: {lake.data} is in use")
    failed = upkeep("archive", "nowhere://place")
    assert (failed.state, "nowhere" in failed.message) == ("Failed", True)
    done = upkeep("prune", "", ["--staged-days=90"], privacy__keep_days__refused_lines="5")
    assert done.state == "Completed", done.message
    assert places_of(lake.data, "a cell")
    assert not places_of(lake.data, "a refused one")
    assert upkeep("verify").message.startswith("verify: The landed answers")
