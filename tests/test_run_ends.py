"""How runs end on the command line: exit codes, what status then says, and that the same command goes on."""

from __future__ import annotations

import errno
import re
import shlex
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

import firmlake.core.settings
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.work import lock
from firmlake.warehouse import generations
from firmlake_sandbox import sample_numbers
from lake import Lake
from support import slow

NUMBERS = sample_numbers(40)
SMALL = {"api__companies_per_request": 10}
"""Few companies in a request, so that few companies take several."""


@pytest.fixture
def lake(tmp_path, sandbox, monkeypatch):
    """A lake whose folder is the current one, with a list of forty companies in four requests for each dataset."""
    monkeypatch.chdir(tmp_path)
    return Lake(tmp_path, sandbox, NUMBERS, **SMALL)


@pytest.fixture
def write_few(lake):
    return lambda count, name="few.csv": lake.write(NUMBERS[:count], Path(name))


@pytest.fixture(scope="module")
def first_run(sandbox_process, tmp_path_factory):
    """A first run over twelve companies, which asks the service about itself too; and what it printed."""
    sandbox, options = sandbox_process
    sandbox.reset()
    sandbox.set_options(**options)
    lake = Lake(tmp_path_factory.mktemp("first"), sandbox, 12, run__check="true")
    return lake, lake.run()


@pytest.fixture
def ran(first_run, lake):
    """A lake after the first run."""
    shutil.copytree(first_run[0].data, lake.data, symlinks=True)
    lake.write(12)
    return lake


def status(lake):
    return lake.call("status", "--json").content


# --- done ------------------------------------------------------------------------------------------------------------


def test_a_run_accounts_for_every_company_in_each_dataset(first_run, monkeypatch):
    lake, result = first_run
    assert result.code == 0
    for counts in result.content["datasets"].values():
        assert sum(counts.values()) == len(lake.numbers)
        assert counts.get("failed", 0) == counts.get("waiting", 0) == counts["fresh"] == 0
    monkeypatch.setattr(Path, "touch", Mock(side_effect=OSError(errno.EROFS, "Read-only file system")))
    assert lake.call("verify", "--files", "--json").content["runs"] == 1


def test_the_json_of_a_run_has_the_same_keys_where_there_is_nothing_to_fetch(ran, first_run):
    for again in (["run", "list.csv", "--sample", "5"], ["redrive"]):
        nothing = ran.call(*again, "--json")
        assert (nothing.code, nothing.content.keys()) == (0, first_run[1].content.keys())
        found = [nothing.content[name] for name in ("outcome", "target_count", "datasets")]
        assert found == ["done", 0, {}]
    assert ran.run().code == 0
    assert [each["last_run"]["target_count"] for each in status(ran)["lists"]] == [0], "it counts as the last one"


def test_plan_sends_and_writes_nothing_and_names_steps_that_nobody_knows_yet(lake):
    result = lake.call("plan", "list.csv", "--json")
    assert result.code == 0
    assert result.content["target_count"] == result.content["credits"] == len(NUMBERS)
    outward = ["plan", "list.csv", "--expand", "lookalikes", "--depth", "2"]
    content = lake.call(*outward, "--max-credits", "60", "--json").content
    assert content["unknown_steps"] == [{"step": number, "max_credits": 20} for number in (1, 2)]
    lines = lake.call(*outward).out.splitlines()
    assert "Step 1, lookalikes: not known before list.csv is fetched; no limit of credits" in lines
    assert any(line.startswith("Step 2, lookalikes: not known before step 1") for line in lines)
    assert lake.requests() == 0
    assert not lake.data.exists()


def test_one_company_is_printed_with_every_period_and_lands_and_counts_like_any_other(lake, write_few):
    country, number = NUMBERS[0]
    content = lake.call("company", country, number, "--json").content
    assert content["is_found"]
    rows = lake.call("company", f"{country}{number}", "--set", "run.max_credits=0").out.splitlines()  # it is paid for
    assert all(any(period["end_date"] in row for row in rows) for period in content["tables"]["financials"])
    assert lake.ledger()["credits_charged"] == 1
    assert lake.query("SELECT sum(credit_count), sum(expected_credit_count) FROM spend") == [(1, 1)]
    assert status(lake)["companies"]["financials"] == {"reported": 1}
    write_few(3)
    plan = lake.call("plan", "few.csv", "--json").content
    assert (plan["credits"], plan["fresh_count"]) == (2, 1)


@pytest.mark.slow
def test_a_check_names_the_data_folder_of_the_next_run_if_an_option_did(lake, write_few):
    """Otherwise the run would use another folder, and pay for the same companies again."""
    write_few(1)
    assert lake.call("check", "few.csv", "--write", "fit.toml", "--data", "else where").err.endswith(
        "`firmlake run LIST --config fit.toml --data 'else where'`\n"
    )


# --- 1, 3, 4, 5, 6 and 7 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_service_that_does_not_answer_fails_the_run_in_one_line_and_leaves_the_folder_free(lake, write_few):
    """A mistaken host on day one: the right one is asked from the start, and what it answers belongs to it."""
    write_few(2)
    wrong = "--set", "api.base_url=http://127.0.0.2:9"
    failed = lake.call("run", "few.csv", *wrong)
    assert (failed.code, bool(failed.error_line)) == (1, True)
    result = lake.call("run", "few.csv")
    assert (result.code, "goes on" in result.err) == (0, False)
    services = str(lake.query("SELECT DISTINCT service FROM runs"))
    assert ("127.0.0.1" in services, "127.0.0.2" in services) == (True, False)
    assert status(lake)["unfinished"] == []
    assert lake.call("run", "few.csv", *wrong).code == 2


@pytest.mark.slow
def test_fail_on_a_share_lets_fewer_failures_pass(lake, sandbox):
    poison = "".join(NUMBERS[7])
    sandbox.set_faults([{"kind": "status", "status": 500, "companies": [poison], "endpoint": "lookalikes"}])
    assert lake.call("run", "list.csv", "--fail-on", "0.03").code == 0


@pytest.mark.parametrize(
    ("settings", "most"), [((), 10), *slow((("--set", "api.names.credits_charged_header=unsent"), 30))]
)
def test_a_budget_also_counts_credits_that_the_service_charges_against_our_ledger(ran, sandbox, settings, most):
    """One request more than the budget; by the balance alone, also those in flight at first."""
    ran.write(30)
    ran.set("api__companies_per_request", 5)  # the sandbox has forgotten what the first run paid
    result = ran.call("run", "list.csv", "--refresh", "--max-credits", "21", "--out", "back.csv", *settings)
    assert (result.code, "more than the" in result.err, "Written: " in result.err) == (4, True, True)
    assert 21 < ran.ledger()["credits_charged"] <= 20 + most
    last = result.err.splitlines()[-1]
    assert last.startswith("firmlake: Published what was fetched, but stopped: "), "also with --out"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run list.csv", "company BE 0403227515", "check", "service-lists"])
def test_a_token_is_asked_for_until_one_is_accepted(lake, command):
    right, lake.environment["FIRMLAKE_API_TOKEN"] = lake.service.token, "wr0ng-token"
    assert lake.call(*command.split()).code == 5
    assert "Get a valid token" in status(lake)["next_step"]
    lake.environment["FIRMLAKE_API_TOKEN"] = right
    assert lake.call(*command.split()).code == 0
    assert (status(lake)["failure"], "token" in status(lake)["next_step"]) == (None, False)


@pytest.mark.slow
def test_each_list_keeps_its_last_outcome_whatever_happens_to_other_lists(lake, write_few):
    write_few(3, "north.csv")
    write_few(2, "south.csv")
    assert lake.call("run", "south.csv").code == 0
    right, lake.environment["FIRMLAKE_API_TOKEN"] = lake.service.token, "wr0ng-token"
    assert lake.call("run", "north.csv").code == 5
    assert "Get a valid token" in status(lake)["next_step"]
    lake.environment["FIRMLAKE_API_TOKEN"] = right
    assert lake.call("run", "south.csv").code == 0
    assert [(each["name"], bool(each["failure"]), each["exit_code"]) for each in status(lake)["lists"]] == [
        ("north", True, 5),
        ("south", False, 0),
    ]
    shown = lake.call("status").out
    assert "firmlake run north.csv" in shown
    assert "Run north.csv again" in shown
    assert lake.call("status", "--metrics", "firmlake.prom") == (0, "", ""), "cron sends a mail for each line"
    assert set(Path("firmlake.prom").read_text().splitlines()) >= {
        'firmlake_failed{list="north"} 1',
        'firmlake_failed{list="south"} 0',
        'firmlake_unfinished_runs{list="north"} 1',
        'firmlake_unfinished_runs{list="south"} 0',
        'firmlake_last_run_exit_code{list="south"} 0',
        'firmlake_last_run_companies{list="south"} 0',
    }
    assert lake.call("run", "north.csv").code == 0
    found = status(lake)
    assert {each["exit_code"] for each in found["lists"]} == {0}
    assert (found["failures"], found["next_step"]) == ([], "Nothing to do")


@pytest.mark.slow
def test_a_mistyped_list_leaves_no_trace_and_the_mistakes_of_a_list_that_has_run_stay(ran):
    """Nothing would ever take back what failed for a list that does not exist."""
    Path("odd.csv").write_text("colour\nred\n")
    wrong = ("list.cvs", "lst", "odd.csv")
    assert [ran.call("run", typed).code for typed in wrong] == [2, 2, 2]
    assert [each["exit_code"] for each in status(ran)["lists"]] == [0]
    assert status(ran)["failures"] == []
    ran.list.write_text("colour\nred\n")
    assert ran.call("run", "list.csv").code == 2
    [failure] = status(ran)["failures"]
    assert [ran.call("run", typed).code for typed in wrong] == [2, 2, 2]
    assert (failure["list_name"], status(ran)["failures"]) == ("list", [failure])
    assert [each["exit_code"] for each in status(ran)["lists"]] == [2]
    assert ran.call("run", "odd.csv", "--list-name", "LIST").code == 2, "the name was given, not guessed"
    assert "odd.csv" in status(ran)["failure"]["what"]


@pytest.mark.slow
def test_a_quiet_run_without_rules_says_that_no_alert_was_looked_for_and_where_changes_are(ran):
    rules = str(Path(firmlake.core.settings.__file__).with_name("watch.toml"))
    assert "opened" in ran.call("run", "list.csv", "--set", f"paths.alert_rules={rules}").out
    assert "opened" in ran.call("status").out
    told = "Alerts: no alert rules are set (paths.alert_rules); "
    assert told in ran.call("run", "list.csv").out
    assert told in ran.call("status").out
    shown = ran.call("changes").out
    assert ("last run" in shown, "--since" in shown, len(shown.splitlines())) == (True, True, 1)
    assert ran.call("changes", "--since", "2100-01-01").out == "No changes since 2100-01-01\n"
    assert ran.call("changes", "--json").content == []


def test_a_field_that_vanished_is_exit_6_and_publishes_nothing_until_it_is_accepted(ran, sandbox):
    sandbox.set_faults([{"kind": "drift", "field": "revenue", "change": "renamed", "count": 0}])
    result = ran.call("run", "list.csv", "--refresh", "--set", "run.vanished_records_min=1")
    assert (result.code, "profitability.revenue" in result.err) == (6, True)
    assert ran.query("SELECT count(revenue) > 0 FROM financials") == [(True,)]
    before = ran.requests()
    result = ran.run("--set", "run.vanished_share_max=1", "--set", "run.vanished_records_min=1")
    assert result.code == 3
    nothing = (
        "Still to fetch: 0 companies (12 fresh or landed), about 0 requests, at most 0 credits, 0 s at the allowance"
    )
    assert (nothing in result.err.splitlines(), "Left to the next run" in result.err) == (True, False)
    assert "profitability.revenue is in none of" in result.content["reason"]
    assert 'contract.rename = {"financials.profitability.revenueV2" = "profitability.revenue"}' in result.err
    assert ran.requests() == before
    kinds = {(kind, path) for _, kind, path, _ in result.content["drift"]}
    assert {("vanished_field", "profitability.revenue"), ("new_field", "profitability.revenueV2")} <= kinds


def test_a_folder_in_use_is_exit_7_and_names_the_holder(lake):
    with lock(Folders(Path("data")), "firmlake run of somebody else"):
        result = lake.call("run", "list.csv")
    assert (result.code, "firmlake run of somebody else" in result.err) == (7, True)


# --- interrupted -----------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupt(lake, sandbox):
    """Refuse the token in the middle of a first run, and return the folder of the run."""

    def interrupt(*arguments, input=None):
        sandbox.set_faults([{"kind": "status", "status": 401, "nth": [4]}])
        assert lake.call("run", *(arguments or ["list.csv"]), input=input).code == 5
        sandbox.set_faults([])
        (run,) = (lake.data / "landing").glob("run=*")
        return run

    return interrupt


@pytest.fixture
def interrupt_after_financials(lake, sandbox):
    def interrupt(*options):
        sandbox.set_faults([{"kind": "status", "endpoint": "lookalikes", "status": 401}])
        assert lake.run(*options).code == 5
        sandbox.set_faults([])

    return interrupt


def test_a_run_that_was_interrupted_asks_for_nothing_that_has_landed(lake, interrupt_after_financials):
    """Companies that the service does not know are not paid for, but their answers count as well."""
    pages = 4 * 3
    interrupt_after_financials()
    lost = lake.ledger()["by_outcome"]["401"]
    assert lake.run().code == 0
    assert lake.requests() == pages + lost
    assert lake.query("SELECT count(*) > 0 FROM company_state WHERE status = 'not_found'") == [(True,)]


def test_a_company_that_is_not_paid_for_stays_in_its_run_if_it_is_listed_and_the_budget_allows_it(
    lake, interrupt_after_financials
):
    def plan(*options):
        content = lake.call("plan", "list.csv", "--json", *options).content
        return content["credits"], content["waiting_count"]

    interrupt_after_financials("--max-credits", "36")
    assert lake.ledger()["credits_charged"] == 35
    assert plan("--max-credits", "36") == (1, 4)
    assert plan("--max-credits", "35") == (0, 5)
    outward = lake.call("plan", "list.csv", "--json", "--expand", "lookalikes", "--max-credits", "0").content
    assert outward["unknown_steps"] == [{"step": 1, "max_credits": 0}]
    lake.write(NUMBERS[:33])  # without it
    assert plan() == (0, 0)


@pytest.mark.parametrize("source", ["stdin", *slow("query")])
def test_an_interrupted_run_over_a_list_that_was_kept_is_resumed_by_what_status_advises(
    source, lake, interrupt, monkeypatch
):
    given = {"stdin": (("-",), lake.list.read_text()), "query": (("--sql", "FROM 'list.csv'"), None)}[source]
    interrupt(*given[0], input=given[1])
    requests = lake.requests()
    (command,) = re.findall("`(firmlake run .*)` again: run .* resumes", status(lake)["next_step"])
    monkeypatch.chdir(lake.data)
    result = lake.call(*shlex.split(command)[1:], "--data", ".", "--json")
    assert (result.code, "Continuing run" in result.err) == (0, True)
    assert lake.requests() == result.content["request_count"] > requests


@pytest.mark.slow
def test_an_interrupted_run_is_taken_up_with_another_version_of_its_list(lake, interrupt):
    run = interrupt()
    paid = lake.ledger()["credits_charged"]
    assert 20 < paid < 40
    lake.write(NUMBERS[:12])
    assert lake.call("plan", "list.csv", "--json").content["continues_run"] == run.name.removeprefix("run=")
    assert lake.run().code == 0
    assert (lake.ledger()["credits_charged"], lake.ledger()["companies_charged_again"]) == (paid, 0)
    assert status(lake)["unfinished"] == []
    assert lake.query("SELECT count(*) FROM companies WHERE paid_at IS NOT NULL") == [(paid,)]
    assert lake.query("SELECT outcome FROM runs") == [("done",)]


@pytest.mark.parametrize("is_complete", [False, *slow(True)])
@pytest.mark.slow
def test_a_run_that_ended_is_published_before_another_version_of_its_list(lake, interrupt, monkeypatch, is_complete):
    """Before the first publish of a data folder there is no warehouse, and the outcome is decided already."""
    if not is_complete:
        interrupt()
        lake.write(NUMBERS[:36])
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["firmlake.enrich.run"], "publish_run", Mock(side_effect=FirmlakeError("killed", "")))
        assert lake.run().code == 1
    lake.write(NUMBERS[:36])
    assert lake.run().code == 0
    assert lake.ledger()["companies_charged_again"] == 0
    outcomes = lake.query("SELECT outcome FROM runs ORDER BY started_at")
    assert outcomes == [("done",)] * (1 + is_complete), "what ended is not taken up"


@pytest.mark.slow
def test_a_first_generation_that_a_crash_left_without_its_link_is_published_by_the_next_run(lake, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(generations, "_swap_link", Mock(side_effect=OSError(5, "Input/output error")))
        assert lake.run().code == 1
    warehouse = lake.data / "warehouse"
    (warehouse / ".firmlake.duckdb.part").symlink_to("gen_000001.duckdb")
    requests = lake.requests()
    assert lake.run().code == 0
    assert (warehouse / "firmlake.duckdb").readlink() == Path("gen_000001.duckdb")
    assert (lake.strays(), lake.requests()) == ([], requests)


@pytest.mark.reliability
def test_what_an_unfinished_run_has_paid_for_costs_nothing_elsewhere(lake, interrupt, write_few):
    write_few(20)
    write_few(36, "many.csv")
    interrupt("many.csv")
    paid = lake.ledger()["credits_charged"]
    plan = lake.call("plan", "few.csv", "--max-credits", "0", "--json").content
    few = 20 - plan["waiting_count"]
    assert plan["credits"] == 0
    assert 10 < few <= 20
    assert lake.call("plan", "list.csv", "--json").content["credits"] == len(NUMBERS) - paid
    before, after = (lake.call("run", name, "--json").content for name in ("few.csv", "many.csv"))
    for summary in (before, after):
        assert summary["credit_count"] == summary["expected_credit_count"]
    assert after["credit_count"] == lake.ledger()["credits_charged"]
    assert lake.ledger()["companies_charged_again"] == 0
    assert lake.call("verify").code == 0


@pytest.mark.slow
def test_a_forgotten_company_that_a_restored_warehouse_names_is_not_asked_for(lake, sandbox):
    failing = {"kind": "status", "endpoint": "lookalikes", "companies": ["".join(NUMBERS[0])], "status": 500}
    sandbox.set_faults([failing])
    assert lake.run().code == 3
    sandbox.set_faults([])
    shutil.copytree(lake.data / "warehouse", "backup", symlinks=True)
    assert lake.call("forget", "company", *NUMBERS[0], "--yes").code == 0
    shutil.rmtree(lake.data / "warehouse")
    shutil.copytree("backup", lake.data / "warehouse", symlinks=True)
    requests = lake.requests()
    assert lake.call("redrive").code == 0
    assert lake.requests() == requests


# --- damaged, differing, undelivered: what status says until it is mended -------------------------------------------


def flip(path):
    """Change a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("lost", ["landing/**/*.zst", *slow("landing/*/targets-*.parquet")])
def test_status_names_what_a_resume_lacks(lost, lake, interrupt):
    run = interrupt()
    path = next(lake.data.glob(lost))
    path.write_bytes(path.read_bytes()[:30] + b"x" + path.read_bytes()[31:])
    found = status(lake)
    ((name, line, next_step),) = found["damaged"]
    assert (f"run={name}", str(path) in line) == (run.name, True)
    assert next_step in found["next_step"], "to run the list again would fail"
    assert lake.call("plan", "list.csv").code == 1


@pytest.mark.slow
def test_a_replay_that_publishes_a_failed_run_ends_its_failure(lake, write_few, monkeypatch):
    write_few(2)
    with monkeypatch.context() as patch:
        full = Mock(side_effect=FirmlakeError("No space left on device", "Make room"))
        patch.setattr(sys.modules["firmlake.enrich.finish"], "publish", full)
        assert lake.call("run", "few.csv").code == 1
    assert "No space" in status(lake)["failure"]["line"]
    assert lake.call("replay").code == 0
    assert (status(lake)["failure"], status(lake)["next_step"]) == (None, "Nothing to do")


@pytest.mark.slow
def test_a_warehouse_that_differs_from_a_replay_is_in_the_status_until_it_was_rebuilt(ran):
    """The check of every month finds it at night; comparing checksums, every week, does not take it back."""
    generation = (ran.data / "warehouse/firmlake.duckdb").resolve()
    generation.chmod(0o600)
    with duckdb.connect(generation) as connection:
        connection.execute("DELETE FROM lookalikes_versions")
    result = ran.call("verify")
    said = "firmlake: The warehouse differs from a replay. Rebuild it with `firmlake replay`"
    assert (result.code, result.err.splitlines()[-1], "lookalikes" in result.out) == (1, said, True)
    assert "none has changed" in ran.call("verify", "--files").out
    assert "differs from a replay" in status(ran)["failure"]["line"]
    assert ran.call("replay").code == 0
    assert status(ran)["next_step"] == "Nothing to do"


@pytest.mark.slow
def test_a_load_that_fails_is_no_failure_of_the_data_folder_and_over_when_it_succeeds(ran):
    Path("there.duckdb").write_text("no database")
    assert ran.call("load", "duckdb:there.duckdb").code == 1
    found = status(ran)
    assert (found["failure"], len(found["undelivered"])) == (None, 1)
    (record,) = (ran.data / "state/failures").iterdir()
    assert f"Repeat the delivery; if it is not wanted any more, remove {record}" in found["next_step"]
    ran.call("status", "--metrics", "load.prom")
    assert "firmlake_failed_deliveries 1" in Path("load.prom").read_text()
    Path("there.duckdb").unlink()
    target = f"duckdb:{Path('there.duckdb').absolute()}"
    assert "\nruns: 1 row\n" in ran.call("load", target).err
    assert status(ran)["undelivered"] == []
    assert f"\nLoaded: generation 1 to {target}, schema firmlake, " in ran.call("status").out


@pytest.mark.slow
@pytest.mark.parametrize("table", ["targets", "list"])
def test_what_is_said_of_a_damaged_table_of_a_published_run_is_true(table, lake, write_few):
    """The warehouse keeps what the run fetched, and a replay goes on without it if its folders are moved."""
    write_few(3)
    assert (lake.call("run", "few.csv").code, lake.run().code) == (0, 0)
    pattern = {"targets": "run=*/targets-*.parquet", "list": "lists/*"}[table]
    few, damaged = sorted((lake.data / "landing").glob(pattern), key=lambda path: path.stat().st_mtime)
    flip(damaged)
    for command in ("plan list.csv", "run few.csv", "status", "query 'FROM companies'", "export e"):
        assert lake.call(*shlex.split(command)).code == 0
    for command in ("archive a", "verify", "replay", "forget company {} {}".format(*NUMBERS[0])):
        assert (lake.call(*command.split()).code, lake.call(*command.split()).code) == (1, 1)
    told = lake.call("replay").err
    assert "runs and queries go on" in told
    assert ("Run its list again, which writes the file anew" in told) is (table == "list")
    for path in re.findall("For `firmlake replay` without this run, move (.*) and (\\S*) elsewhere", told)[0]:
        shutil.move(path, "elsewhere-" + path.replace("/", "-"))
    for command in ("replay", "run list.csv", "verify"):
        assert lake.call(*command.split()).code == 0
    assert lake.ledger()["companies_charged_again"] == 0
    assert few.exists()


@pytest.mark.slow
def test_answers_whose_targets_are_lost_before_they_were_published_are_moved_and_not_paid_twice(lake, interrupt):
    flip(next(interrupt().glob("targets-*.parquet")))
    (own,) = re.findall("there is no copy, move (.*?) elsewhere", lake.run().err)
    shutil.move(own, "elsewhere-" + own.replace("/", "-"))
    assert lake.run().code == 0
    assert lake.ledger()["companies_charged_again"] == 0


@pytest.mark.slow
def test_a_lost_warehouse_is_made_again_before_anything_is_spent(ran):
    assert ran.run("--refresh").code == 0
    requests = ran.requests()
    shutil.rmtree(ran.data / "warehouse")
    for command in ("run list.csv", "plan list.csv", "redrive"):
        result = ran.call(*command.split())
        assert (result.code, "firmlake replay" in result.err) == (1, True)
    assert ran.requests() == requests
    assert status(ran)["next_step"].startswith("Rebuild the warehouse with `firmlake replay`")
    assert ran.call("replay").code == 0
    assert ran.call("plan", "list.csv", "--json").content["fresh_count"] == 12


@pytest.mark.slow
def test_a_damaged_run_is_left_out_named_and_exit_1(ran):
    path = min(ran.data.rglob("log/*.zst"))
    path.write_bytes(b"{" * path.stat().st_size)
    for arguments in (["prune", "--staged-days", "0"], ["archive", "archive"]):
        result = ran.call(*arguments, "--json")
        assert (result.code, str(path) in result.content["damaged"][0][1]) == (1, True)
        assert f"Skipped run {path.parent.parent.name.removeprefix('run=')}" in result.err
