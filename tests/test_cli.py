"""The command line: what each command prints, and the exit code of every way a run can end."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import duckdb
import pytest

import firmlake_sandbox
from firmlake.cli import firmlake
from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.work import lock

NUMBERS = firmlake_sandbox.sample_numbers(150)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def content(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Result]


@pytest.fixture
def environment(sandbox: firmlake_sandbox.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder of its own and an environment that names the sandbox."""
    monkeypatch.chdir(tmp_path)
    names = {
        "FIRMLAKE_API__BASE_URL": sandbox.base_url,
        "FIRMLAKE_API_TOKEN": sandbox.token,
        "FIRMLAKE_API__REQUESTS_PER_MINUTE": "0",
        "FIRMLAKE_API__RETRY_WAIT_MAX_SECONDS": "0.01",
        "COLUMNS": "200",
    }
    for name in [name for name in os.environ if name.startswith("FIRMLAKE_")]:
        monkeypatch.delenv(name)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    lines = "".join(f"{country},{number}\n" for country, number in NUMBERS)
    Path("list.csv").write_text("country,company_number\n" + lines)
    return names


@pytest.fixture
def call(environment: dict[str, str], capfd: pytest.CaptureFixture[str]) -> Call:
    """Run a command as the shell would, in this process."""

    def run(*arguments: str) -> Result:
        capfd.readouterr()
        code = firmlake.main([*arguments], standalone_mode=False)
        return Result(code, *capfd.readouterr())

    return run


def write_few(count: int, path: str = "few.csv") -> None:
    """A list of the first companies."""
    Path(path).write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in NUMBERS[:count]))


def test_a_run_accounts_for_every_company_in_each_dataset(call: Call):
    result = call("run", "list.csv", "--json")
    assert result.code == 0
    for counts in result.content["datasets"].values():
        assert sum(counts.values()) == len(NUMBERS)
        assert counts.get("failed", 0) == counts.get("waiting", 0) == counts["fresh"] == 0
    assert call("verify", "--json").content["agrees"] is True
    assert call("verify", "--files", "--json").content["runs"] == 1
    assert "none has changed" in call("verify", "--files").out
    assert call("verify", "--files", "--forgotten").code == 2


def test_the_json_of_a_run_has_the_same_keys_where_there_is_nothing_to_fetch(call: Call):
    write_few(2)
    made = call("run", "few.csv", "--json").content
    for again in (["run", "few.csv", "--sample", "5"], ["redrive"]):
        nothing = call(*again, "--json")
        assert (nothing.code, nothing.content.keys()) == (0, made.keys())
        assert (nothing.content["outcome"], nothing.content["target_count"], nothing.content["datasets"]) == (
            "done",
            0,
            {},
        )


def test_plan_sends_and_writes_nothing(call: Call, sandbox: firmlake_sandbox.Sandbox, tmp_path: Path):
    result = call("plan", "list.csv", "--json")
    assert result.code == 0
    assert result.content["target_count"] == result.content["credits"] == len(NUMBERS)
    assert sandbox.ledger()["summary"]["requests"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.csv"]


def test_a_run_without_the_sandbox_running_fails_in_one_line_and_can_be_continued(call: Call, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("FIRMLAKE_API__BASE_URL", "http://127.0.0.1:9")
        result = call("run", "list.csv")
    assert result.code == 1
    assert result.err.count("firmlake: ") == 1
    assert "Traceback" not in result.err
    assert call("run", "list.csv").code == 0


MISTAKES = {
    "run absent.csv": "absent.csv",
    "run .": "folder",
    "run list.csv --set api.thread=2": "Did you mean api.threads",
    "run list.csv --set api.threads": "KEY=VALUE",
    "run list.csv --max-credits few": "run.max_credits (--max-credits)",
    "run list.csv --max-credits 1 --set run.max_credits=x": "(--set run.max_credits)",
    "run list.csv --sample some": "",
    "run list.csv --depth 2": "--expand",
    "run list.csv --columns revenue": "--columns needs --out",
    "run list.csv --set api.base_url=": "No service is named",
    "run list.csv --set api.base_url=http://example.com": "https",
    "run list.csv --set run.time_zone=Europe/Nowhere": "run.time_zone",
    "run list.csv --out back.doc": "cannot be written as .doc",
    "plan list.csv --set run.credit_price=0.12": "",
    "prune --generations few": "run.keep_generations (firmlake prune)",
    "company BE 0403227516": "check digit",
    "company 0403227515": "'0403227515' does not begin with BE, NL or FR",
    "changes --company 0403227515": "'0403227515' does not begin with BE, NL or FR",
    "query 'SELECT 1'": "The data folder",
    "export": "No export target is named. Run `firmlake export FOLDER",
    "export out --table nothing": "",
    "contacts plan absent.csv --list 1002": "absent.csv",
    "verify --files --forgotten": "",
    os.fsdecode(b"run klant\xe9n.csv"): r"klant\xe9n.csv is not valid UTF-8. Rename",
    os.fsdecode(b"run list.csv --data \xe9"): r"\xe9 is not valid UTF-8. Rename",
    os.fsdecode(b"run list.csv --set paths.data=\xe9"): r"paths.data=\xe9 is not valid UTF-8. Rename",
}
"""What is typed, and what the line that follows names."""


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_of_the_caller_is_one_line_with_exit_code_2_and_costs_no_request(call: Call, sandbox, typed):
    result = call(*shlex.split(typed))
    assert result.code == 2
    assert MISTAKES[typed] in result.err
    assert result.err.splitlines()[-1].startswith("firmlake: ")
    assert sandbox.ledger()["summary"]["requests"] == 0
    assert not Path("data").exists() or not list(Path("data").glob("landing/run=*"))
    told = call(*shlex.split(typed), "--json")
    assert told.content["exit_code"] == 2


def test_a_missing_token_is_a_mistake_too(call: Call, sandbox, monkeypatch):
    monkeypatch.delenv("FIRMLAKE_API_TOKEN")
    result = call("run", "list.csv")
    assert (result.code, "FIRMLAKE_API_TOKEN" in result.err, sandbox.ledger()["summary"]["requests"]) == (2, True, 0)


@pytest.mark.slow
def test_fail_on_a_share_lets_fewer_failures_pass(call: Call, sandbox: firmlake_sandbox.Sandbox):
    country, number = NUMBERS[7]
    sandbox.set_faults([{"kind": "status", "status": 500, "companies": [country + number], "endpoint": "lookalikes"}])
    assert call("run", "list.csv", "--fail-on", "0.01").code == 0


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        pytest.param((), 200, id="one request more"),
        pytest.param(
            ("--set", "api.names.credits_charged_header=unsent"),
            500,
            id="by the balance, with those in flight at first",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_budget_also_counts_credits_that_the_service_charges_against_our_ledger(call: Call, sandbox, settings, most):
    rows = "".join(f"{country},{number}\n" for country, number in firmlake_sandbox.sample_numbers(600))
    Path("long.csv").write_text(f"country,company_number\n{rows}")
    assert call("run", "long.csv").code == 0
    paid = sandbox.ledger()["summary"]["credits_charged"]
    sandbox.advance(31 * 86_400, rate_seconds=0)  # to firmlake the companies are still paid for
    result = call("run", "long.csv", "--refresh", "--max-credits", "120", *settings)
    assert (result.code, "more than the" in result.err) == (4, True)
    assert 120 < sandbox.ledger()["summary"]["credits_charged"] - paid <= most
    assert call("verify").code == 0


@pytest.mark.parametrize("command", ["run list.csv", "company BE 0403227515", "check", "service-lists"])
def test_a_token_is_asked_for_until_it_is_replaced(call: Call, environment, monkeypatch, command):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "wr0ng-token")
    assert call(*command.split()).code == 5
    assert "Get a valid token" in call("status", "--json").content["next_step"]
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", environment["FIRMLAKE_API_TOKEN"])
    status = call("status", "--json").content
    assert status["failure"]["is_mended"]
    assert "token" not in status["next_step"]


def test_each_list_keeps_its_last_outcome_whatever_happens_to_other_lists(call: Call, environment, monkeypatch):
    write_few(3, "north.csv")
    write_few(2, "south.csv")
    assert call("run", "south.csv").code == 0
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", "wr0ng-token")
    assert call("run", "north.csv").code == 5
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", environment["FIRMLAKE_API_TOKEN"])
    assert call("run", "south.csv").code == 0
    status = call("status", "--json").content
    assert [(each["name"], bool(each["failure"]), each["exit_code"]) for each in status["lists"]] == [
        ("north", True, None),  # nothing of it was ever published, and the token has been replaced
        ("south", False, 0),
    ]
    shown = call("status").out
    assert "firmlake run north.csv" in shown
    assert "Run north.csv again" in shown
    assert call("status", "--metrics", "firmlake.prom") == (0, "", ""), "cron sends a mail for each line"
    metrics = Path("firmlake.prom").read_text().splitlines()
    for line in (
        'firmlake_failed{list="north"} 1',
        'firmlake_failed{list="south"} 0',
        'firmlake_unfinished_runs{list="north"} 1',
        'firmlake_unfinished_runs{list="south"} 0',
        'firmlake_last_run_exit_code{list="south"} 0',
        'firmlake_last_run_companies{list="south"} 0',
    ):
        assert line in metrics
    assert call("run", "north.csv").code == 0
    status = call("status", "--json").content
    assert {each["exit_code"] for each in status["lists"]} == {0}
    assert (status["failures"], status["next_step"]) == ([], "Nothing to do")


def test_the_last_line_on_stderr_says_what_happened_also_with_out(call: Call):
    write_few(6)
    stopped = call("run", "few.csv", "--max-credits", "3", "--out", "back.csv")
    assert stopped.code == 4
    assert "Written: " in stopped.err
    assert stopped.err.splitlines()[-1].startswith(
        "firmlake: Published what was fetched, but stopped: run.max_credits = 3"
    )


def test_a_field_that_vanished_is_exit_6_and_publishes_nothing_until_it_is_accepted(call: Call, sandbox):
    assert call("run", "list.csv").code == 0
    sandbox.set_faults([{"kind": "drift", "field": "revenue", "change": "renamed", "count": 0}])
    result = call("run", "list.csv", "--refresh")
    assert result.code == 6
    assert "profitability.revenue" in result.err
    assert call("query", "SELECT count(revenue) > 0 AS held FROM financials", "--json").content == [{"held": True}]
    before = sandbox.ledger()["summary"]["requests"]
    result = call("run", "list.csv", "--set", "run.vanished_share_max=1", "--json")
    assert result.code == 3
    assert "profitability.revenue is in none of" in result.content["reason"]
    assert 'contract.rename = {"financials.profitability.revenueV2" = "profitability.revenue"}' in result.err
    assert sandbox.ledger()["summary"]["requests"] == before
    kinds = {(kind, path) for _, kind, path, _ in result.content["drift"]}
    assert {("vanished_field", "profitability.revenue"), ("new_field", "profitability.revenueV2")} <= kinds


def test_a_folder_in_use_is_exit_7_and_names_the_holder(call: Call):
    with lock(Folders(Path("data")), "firmlake run of somebody else"):
        result = call("run", "list.csv")
    assert result.code == 7
    assert "firmlake run of somebody else" in result.err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_ends_a_run_in_time_and_the_next_one_goes_on(environment, sandbox, number, code, call: Call):
    # Three requests a minute: the fourth waits in the throttle when the signal comes.
    settings = {"FIRMLAKE_API__REQUESTS_PER_MINUTE": "3", "FIRMLAKE_API_TOKEN": sandbox.token}
    process = subprocess.Popen(
        [sys.executable, "-m", "firmlake", "run", "list.csv"],
        env={**os.environ, **settings, "TMPDIR": str(Path.cwd())},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    while sandbox.ledger()["summary"]["requests"] < 3:
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=15)
    assert process.returncode == code
    assert "run again to continue" in err
    assert "Traceback" not in err
    result = call("run", "list.csv", "--json")
    assert result.code == 0
    assert "Continuing run" in result.err
    assert sandbox.ledger()["summary"]["requests"] == result.content["request_count"]


@pytest.mark.slow
def test_an_interrupted_run_is_taken_up_with_another_version_of_its_list(call: Call, sandbox):
    write_few(130)
    sandbox.set_faults([{"kind": "status", "status": 401, "nth": [4]}])
    assert call("run", "few.csv").code == 5
    paid = sandbox.ledger()["summary"]["credits_charged"]
    assert 90 < paid < 130
    (interrupted,) = (path.name.removeprefix("run=") for path in Path("data/landing").glob("run=*"))
    write_few(40)
    assert call("plan", "few.csv", "--json").content["continues_run"] == interrupted
    assert call("run", "few.csv").code == 0
    summary = sandbox.ledger()["summary"]
    assert (summary["credits_charged"], summary["companies_charged_again"]) == (paid, 0)
    assert call("status", "--json").content["unfinished"] == []
    held = "SELECT count(*) AS n FROM companies WHERE paid_at IS NOT NULL"
    assert call("query", held, "--format", "json").content == [{"n": paid}]
    outcomes = "SELECT outcome, reason FROM runs ORDER BY started_at"
    assert [row["outcome"] for row in call("query", outcomes, "--format", "json").content] == ["done"]


@pytest.mark.parametrize("is_complete", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_run_that_ended_is_published_before_another_version_of_its_list(
    call: Call, sandbox, monkeypatch, is_complete
):
    """Before the first publish of a data folder there is no warehouse, and the outcome is decided already."""
    write_few(130)
    if not is_complete:
        sandbox.set_faults([{"kind": "status", "status": 401, "nth": [4]}])
        assert call("run", "few.csv").code == 5
        write_few(120)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["firmlake.enrich.run"], "publish_run", Mock(side_effect=FirmlakeError("killed", "")))
        assert call("run", "few.csv").code == 1
    write_few(120)
    assert call("run", "few.csv").code == 0
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0
    outcomes = call("query", "SELECT outcome FROM runs ORDER BY started_at", "--format", "json").content
    assert [row["outcome"] for row in outcomes] == ["done"] * (1 + is_complete), "what ended is not taken up"


@pytest.mark.reliability
def test_what_an_unfinished_run_has_paid_for_costs_nothing_elsewhere(call: Call, sandbox: firmlake_sandbox.Sandbox):
    write_few(20)
    write_few(130, "many.csv")
    sandbox.set_faults([{"kind": "status", "status": 401, "nth": [4]}])
    assert call("run", "many.csv").code == 5
    paid = sandbox.ledger()["summary"]["credits_charged"]
    assert paid > 90
    plan = call("plan", "few.csv", "--max-credits", "0", "--json").content
    few = plan["unfinished_elsewhere"][0]["paid_count"]
    assert (plan["waiting_count"], plan["credits"], few) == (20 - few, 0, few)
    assert 15 < few <= 20
    assert "first run many.csv again" in call("plan", "few.csv").out
    assert call("plan", "list.csv", "--json").content["credits"] == len(NUMBERS) - paid
    before = call("run", "few.csv", "--json").content
    after = call("run", "many.csv", "--json").content
    for summary in (before, after):
        assert summary["credit_count"] == summary["expected_credit_count"]
    assert after["credit_count"] == sandbox.ledger()["summary"]["credits_charged"]
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0
    assert call("verify").code == 0


def test_steps_that_nobody_knows_yet_are_in_the_plan(call: Call):
    write_few(5)
    outward = ["plan", "few.csv", "--expand", "lookalikes", "--depth", "2"]
    content = call(*outward, "--max-credits", "60", "--json").content
    assert content["unknown_steps"] == [{"step": number, "max_credits": 55} for number in (1, 2)]
    lines = call(*outward).out.splitlines()
    assert "Step 1, lookalikes: not known before few.csv is fetched; no limit of credits" in lines
    assert any(line.startswith("Step 2, lookalikes: not known before step 1") for line in lines)


@pytest.mark.slow
def test_a_service_that_never_answered_leaves_the_data_folder_free(call: Call):
    """A mistaken host on day one: the right one is asked from the start, and what it answers belongs to it."""
    write_few(3)
    wrong = "--set", "api.base_url=http://127.0.0.2:9"
    assert call("run", "few.csv", *wrong).code == 1
    result = call("run", "few.csv")
    assert (result.code, "goes on" in result.err) == (0, False)
    services = call("query", "SELECT DISTINCT service FROM runs", "--json").content
    assert "127.0.0.1" in str(services)
    assert "127.0.0.2" not in str(services)
    assert call("status", "--json").content["unfinished"] == []
    assert call("run", "few.csv", *wrong).code == 2


def test_a_replay_that_publishes_a_failed_run_ends_its_failure(call: Call, monkeypatch):
    def full(*_, **__):
        raise FirmlakeError("No space left on device", "Make room")

    write_few(2)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["firmlake.enrich.finish"], "publish", full)
        assert call("run", "few.csv").code == 1
    assert "No space" in call("status", "--json").content["failure"]["line"]
    assert call("replay").code == 0
    status = call("status", "--json").content
    assert (status["failure"], status["next_step"]) == (None, "Nothing to do")


def test_a_check_names_the_data_folder_of_the_next_run_if_an_option_did(call: Call):
    """Otherwise the run would use another folder, and pay for the same companies again."""
    write_few(1)
    assert call("check", "few.csv", "--write", "fit.toml", "--data", "else where").err.endswith(
        "`firmlake run LIST --config fit.toml --data 'else where'`\n"
    )


def test_a_warehouse_that_differs_from_a_replay_is_in_the_status_until_it_was_rebuilt(call: Call):
    """The check of every month finds it at night; comparing checksums, every week, does not take it back."""
    write_few(2)
    assert call("run", "few.csv").code == 0
    generation = Path("data/warehouse/firmlake.duckdb").resolve()
    generation.chmod(0o600)
    with duckdb.connect(generation) as connection:
        connection.execute("DELETE FROM lookalikes_versions")
    result = call("verify")
    assert (result.code, result.err.splitlines()[-1]) == (
        1, "firmlake: The warehouse differs from a replay. Rebuild it with `firmlake replay`",
    )  # fmt: skip
    assert call("verify", "--files").code == 0
    assert "differs from a replay" in call("status", "--json").content["failure"]["line"]
    assert call("replay").code == 0
    assert call("status", "--json").content["next_step"] == "Nothing to do"


def test_a_load_that_fails_is_no_failure_of_the_data_folder_and_over_when_it_succeeds(call: Call):
    write_few(2)
    assert call("run", "few.csv").code == 0
    Path("there.duckdb").write_text("no database")
    assert call("load", "duckdb:there.duckdb").code == 1
    status = call("status", "--json").content
    assert (status["failure"], len(status["undelivered"])) == (None, 1)
    assert "Repeat the delivery" in status["next_step"]
    Path("there.duckdb").unlink()
    target = f"duckdb:{Path('there.duckdb').absolute()}"
    assert "\nruns: 1 row\n" in call("load", target).err
    assert call("status", "--json").content["undelivered"] == []
    assert f"\nLoaded: generation 1 to {target}, schema firmlake, " in call("status").out


def interrupt(call: Call, sandbox: firmlake_sandbox.Sandbox, *arguments: str) -> Path:
    """Refuse the token in the middle of a first run, and return the folder of the run."""
    sandbox.set_faults([{"kind": "status", "status": 401, "nth": [4]}])
    assert call("run", *(arguments or ["list.csv"])).code == 5
    sandbox.set_faults([])
    (run,) = Path("data/landing").glob("run=*")
    return run


@pytest.mark.parametrize("source", ["stdin", pytest.param("query", marks=pytest.mark.slow)])
def test_an_interrupted_run_over_a_list_that_was_kept_is_resumed_by_what_status_advises(
    source, call: Call, sandbox, monkeypatch
):
    with Path("list.csv").open("rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        interrupt(call, sandbox, *(["-"] if source == "stdin" else ["--sql", "FROM 'list.csv'"]))
    requests = sandbox.ledger()["summary"]["requests"]
    (command,) = re.findall("`(firmlake run .*)` again: run .* resumes", call("status", "--json").content["next_step"])
    monkeypatch.chdir(Path("data"))
    result = call(*shlex.split(command)[1:], "--data", ".", "--json")
    assert (result.code, "Continuing run" in result.err) == (0, True)
    assert sandbox.ledger()["summary"]["requests"] == result.content["request_count"] > requests


@pytest.mark.parametrize("lost", ["landing/**/*.zst", "landing/*/targets-*.parquet"])
def test_status_names_what_a_resume_lacks(lost, call: Call, sandbox):
    run = interrupt(call, sandbox)
    path = next(Path("data").glob(lost))
    path.write_bytes(path.read_bytes()[:30] + b"x" + path.read_bytes()[31:])
    status = call("status", "--json").content
    ((name, line, next_step),) = status["damaged"]
    assert (f"run={name}", str(path) in line) == (run.name, True)
    assert next_step in status["next_step"], "to run the list again would fail"
    assert call("plan", "list.csv").code == 1


@pytest.mark.slow
def test_a_list_that_takes_the_name_of_another_is_warned_about_and_its_next_version_is_not(call: Call):
    """Also where each week has a folder of its own, and where a list grows or shrinks a lot."""

    def plan(path: str, *numbers: tuple[str, str]) -> Result:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("country,company_number\n" + "".join(f"{c},{n}\n" for c, n in numbers))
        return call("plan", path, "--json")

    assert plan("a/customers.csv", *NUMBERS[:6]).content["other_list"] is None
    assert call("run", "a/customers.csv").code == 0
    other = plan("b/Customers.csv", *NUMBERS[4:20]).content["other_list"]
    assert (other["name"], other["company_count"], other["shared_count"]) == ("customers", 6, 2)
    warning = "Warning: the list customers had 6 companies"
    assert warning in call("plan", "b/Customers.csv").out
    assert warning not in call("plan", "b/Customers.csv", "--set", "run.list_name=suppliers").out
    for version in (NUMBERS[3:9], NUMBERS[:40], NUMBERS[5:6]):
        assert plan("2026-11-23/customers.csv", *version).content["other_list"] is None
    assert warning in call("run", "b/Customers.csv", "--sample", "1").err, "the file counts, not its sample"


def flip(path: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["targets", "list"])
def test_what_is_said_of_a_damaged_table_of_a_published_run_is_true(table, call: Call, sandbox):
    """The warehouse keeps what the run fetched, and a replay goes on without it if its folders are moved."""
    write_few(3)
    assert (call("run", "few.csv").code, call("run", "list.csv").code) == (0, 0)
    pattern = {"targets": "run=*/targets-*.parquet", "list": "lists/*"}[table]
    few, damaged = sorted(Path("data/landing").glob(pattern), key=lambda path: path.stat().st_mtime)
    flip(damaged)
    for command in (
        ["plan", "list.csv"],
        ["run", "few.csv"],
        ["status"],
        ["query", "FROM companies"],
        ["export", "e"],
    ):
        assert call(*command).code == 0
    for command in (["archive", "a"], ["verify"], ["replay"], ["forget", "company", *NUMBERS[0]]):
        assert (call(*command).code, call(*command).code) == (1, 1)
    told = call("replay").err
    assert "runs and queries go on" in told
    assert ("Run its list again, which writes the file anew" in told) is (table == "list")
    for path in re.findall("For `firmlake replay` without this run, move (.*) and (\\S*) elsewhere", told)[0]:
        shutil.move(path, "elsewhere-" + path.replace("/", "-"))
    assert call("replay").code == 0
    assert call("run", "list.csv").code == 0
    assert call("verify").code == 0
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0
    assert few.exists()


@pytest.mark.slow
def test_answers_whose_targets_are_lost_before_they_were_published_are_moved_and_not_paid_twice(call: Call, sandbox):
    run = interrupt(call, sandbox)
    flip(next(run.glob("targets-*.parquet")))
    (own,) = re.findall("there is no copy, move (.*?) elsewhere", call("run", "list.csv").err)
    shutil.move(own, "elsewhere-" + own.replace("/", "-"))
    assert call("run", "list.csv").code == 0
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0


@pytest.mark.slow
def test_a_lost_warehouse_is_made_again_before_anything_is_spent(call: Call, sandbox: firmlake_sandbox.Sandbox):
    write_few(10)
    assert (call("run", "few.csv").code, call("run", "few.csv", "--refresh").code) == (0, 0)
    requests = sandbox.ledger()["summary"]["requests"]
    shutil.rmtree("data/warehouse")
    for command in (["run", "few.csv"], ["plan", "few.csv"], ["redrive"]):
        result = call(*command)
        assert (result.code, "firmlake replay" in result.err) == (1, True)
    assert sandbox.ledger()["summary"]["requests"] == requests
    assert call("status", "--json").content["next_step"].startswith("Rebuild the warehouse with `firmlake replay`")
    assert call("replay").code == 0
    assert call("plan", "few.csv", "--json").content["fresh_count"] == 10


@pytest.mark.slow
def test_a_damaged_run_is_left_out_named_and_exit_1(call: Call, tmp_path: Path):
    write_few(1)
    call("run", "few.csv")
    path = min(tmp_path.rglob("log/*.zst"))
    path.write_bytes(b"{" * path.stat().st_size)
    for arguments in (["prune", "--staged-days", "0"], ["archive", "archive"]):
        result = call(*arguments, "--json")
        assert (result.code, str(path.relative_to(tmp_path)) in result.content["damaged"][0][1]) == (1, True)
        assert f"Skipped run {path.parent.parent.name.removeprefix('run=')}" in result.err


def test_one_company_is_printed_with_every_period(call: Call):
    country, number = NUMBERS[0]
    content = call("company", country, number, "--json").content
    assert content["is_found"]
    rows = call("company", f"{country}{number}").out.splitlines()
    periods = content["tables"]["financials"]
    assert all(any(period["end_date"] in row for row in rows) for period in periods)


@pytest.mark.slow
def test_one_company_lands_and_counts_like_any_other(call: Call, sandbox: firmlake_sandbox.Sandbox):
    """Its credit is in the ledger and in what was spent, and a run afterwards pays for it no more."""
    write_few(3)
    country, number = NUMBERS[0]
    assert call("company", country, number).code == 0
    assert sandbox.ledger()["summary"]["credits_charged"] == 1
    spent = call("query", "SELECT sum(credit_count), sum(expected_credit_count) FROM spend", "--json").content
    assert [int(value) for value in spent[0].values()] == [1, 1]
    assert call("status", "--json").content["companies"]["financials"] == {"reported": 1}
    plan = call("plan", "few.csv", "--json").content
    assert (plan["credits"], plan["fresh_count"]) == (2, 1)
    assert call("company", country, number, "--set", "run.max_credits=0").code == 0, "it is paid for"
    assert call("run", "few.csv").code == 0
    assert sandbox.ledger()["summary"]["companies_charged_again"] == 0


@pytest.mark.slow
def test_what_changed_from_one_week_to_the_next_is_told(call: Call, sandbox: firmlake_sandbox.Sandbox):
    """By the service's own weeks: the feed has what the tables differ in."""
    for week in (0, 1):
        sandbox.set_options(week=week)
        assert call("run", "list.csv", "--set", "run.refresh_after_days=0").code == 0
    loads = call("query", "SELECT run_id FROM loads ORDER BY generation", "--json").content
    first, second = (row["run_id"] for row in loads)
    events = call("changes", "--json").content
    assert {event["run_id"] for event in events} == {second}
    found = {event["company_number"] for event in events if event["kind"] == "new_accounts"}
    query = f"""
        SELECT DISTINCT company_number FROM financials ANTI JOIN financials_as_of('{first}')
        USING (country, company_number, start_date, end_date, dup_no)
        SEMI JOIN financials_as_of('{first}') USING (country, company_number)
    """
    assert found == {row["company_number"] for row in call("query", query, "--json").content} != set()
    assert call("changes", "--since", first, "--json").content == events
    appeared = call("changes", "--since", "2000-01-01", "--kind", "company_appeared", "--json").content
    assert first in {event["run_id"] for event in appeared}
    assert call("changes", "--out", "feed.csv", "--json").content["events"] == len(events)
    assert Path("feed.csv").read_text().count(second) == len(events)
    assert call("changes", "--format", "csv").out.count(second) == len(events)
    assert f"{len(events)} events" in call("changes").out
    for wrong in (["--kind", "nothing"], ["--since", "yesterday"], ["--company", "BE 1"], ["--out", "feed.doc"]):
        result = call("changes", *wrong)
        assert (result.code, wrong[1].split()[-1] in result.err) == (2, True)
    assert call("verify").code == 0


def test_config_show_hides_passwords(call: Call):
    address = "api.base_url=https://user:planted-secret@host.example/v1"
    for shown in (call("config", "show", "--set", address).out, call("config", "show", "--json", "--set", address).out):
        assert "[hidden]@host.example/v1" in shown
        assert "planted-secret" not in shown


def test_help_needs_neither_prefect_nor_polars():
    code = (
        "import sys, firmlake.cli; assert not {'polars', 'prefect', 'duckdb', 'pyarrow', 'pandas'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_metrics_keep_the_access_that_their_file_has(call: Call):
    Path("data").mkdir()
    for mode in (0o600, 0o644):
        assert call("status", "--metrics", "m.prom").code == 0
        assert stat.S_IMODE(Path("m.prom").stat().st_mode) == mode
        Path("m.prom").chmod(0o644)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_error_keeps_its_exit_code_where_nothing_can_be_printed(call: Call, monkeypatch, options):
    def gone(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    assert call("plan", "absent.csv", *options).code == 2
    for printing in ("secho", "echo"):
        monkeypatch.setattr(f"firmlake.terminal.echo.click.{printing}", gone)
    assert call("plan", "absent.csv", *options).code == 2


def test_a_full_disk_behind_stdout_is_one_line(call: Call, monkeypatch):
    def full(text, **options):
        if not options.get("err"):
            raise OSError(errno.ENOSPC, "No space left on device")

    Path("data").mkdir()
    monkeypatch.setattr("firmlake.terminal.echo.click.secho", full)
    assert call("status").code == 1
    monkeypatch.setattr("firmlake.cli.call.was_interrupted", lambda: True)
    assert call("status").code == 130, "a signal comes first"


def test_a_file_that_may_not_be_read_is_one_line_wherever_it_is_opened(call: Call, monkeypatch):
    """For example if root once ran what another account runs every week. No test can take rights from root."""

    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "data/landing/00001.zst")

    write_few(1)
    assert call("run", "few.csv").code == 0
    monkeypatch.setattr("firmlake.cli.look.read_status", forbidden)
    result = call("status", "--json")
    line = (
        "data/landing/00001.zst: Permission denied. Give access, or run as the owner of the data folder, then run again"
    )
    assert (result.code, result.err) == (1, f"firmlake: {line}\n")
    assert result.content["error"] in line
