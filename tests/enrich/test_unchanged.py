"""A run over companies that are all fresh writes no generation if nothing but the time has changed since the last."""

from __future__ import annotations

import json

import pytest

from enrich.desk import COUNT, Desk
from other_service import start_other_service

RULES = '[small]\nsays = "Small"\nwhen = { revenue = "< 1" }\n'


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A list of thirty companies, fetched and published once."""
    with start_other_service() as service:
        desk = Desk(tmp_path_factory.mktemp("fresh"), service)
        desk.set("api__service_name", "a service")
        assert desk.run()[0] == 0
        return desk


@pytest.fixture
def desk(world, tmp_path):
    with start_other_service() as service:
        yield world.copy(tmp_path, service)


def generations(desk):
    return sorted(path.name for path in desk.folders.warehouse.glob("gen_*"))


def test_the_same_list_writes_nothing_and_says_so(desk):
    runs = sorted(path.name for path in desk.folders.landed.glob("run=*"))
    code, out, _ = desk.run("--json")
    assert (code, generations(desk)) == (0, ["gen_000001.duckdb"])
    assert sorted(path.name for path in desk.folders.landed.glob("run=*")) == runs
    assert desk.service.requests.total() == 0
    summary = json.loads(out)
    assert summary["is_unchanged"]
    assert (summary["outcome"], summary["company_list"], summary["generation"]) == ("done", "list", 1)
    assert (summary["company_count"], summary["fresh_count"], summary["request_count"]) == (COUNT, COUNT, 0)
    assert summary["datasets"]["financials"] == {"fresh": COUNT}


@pytest.mark.slow
def test_status_has_its_outcome_for_its_list_and_a_failure_before_it_is_over(desk):
    first = desk.status()["lists"][0]["last_run"]
    desk.run("--list-name", "other")
    assert desk.call("run", str(desk.list), "--set", "paths.alert_rules=missing.toml")[0] == 2
    assert [each["exit_code"] for each in desk.status()["lists"]] == [2, 0]
    assert desk.run()[0] == 0
    status = desk.status()
    [last, other] = [each["last_run"] for each in status["lists"]]
    assert [each["exit_code"] for each in status["lists"]] == [0, 0]
    assert last["finished_at"] > other["finished_at"] > first["finished_at"]
    assert (last["company_count"], last["target_count"], last["credit_count"]) == (COUNT, 0, 0)
    assert status["last_run"]["run_id"] == last["run_id"] != first["run_id"]
    assert status["last_run"]["generation"] == 2


def test_what_changed_is_loaded_once(desk):
    """So is a list under another name: see above."""
    (desk.folder / "rules.toml").write_text(RULES)
    rules = "--set", f"paths.alert_rules={desk.folder / 'rules.toml'}"
    for number in (2, 3):
        for _ in range(2):
            assert desk.run(*rules)[0] == 0
            assert generations(desk)[-1] == f"gen_{number:06}.duckdb"
        desk.list.write_text(desk.list.read_text().replace("\n", ",note\n"))


@pytest.mark.slow
def test_companies_that_the_same_budget_leaves_out_again_are_nothing_new(tmp_path):
    with start_other_service() as service:
        desk = Desk(tmp_path, service)
        for _ in range(2):
            code, _, err = desk.run("--set", "run.max_credits_per_month=2")
            assert (code, generations(desk)) == (4, ["gen_000001.duckdb"])
            assert f"leaves out {COUNT - 2} companies" in err, "the run still says what it did not fetch"
        assert desk.status()["lists"][0]["last_run"]["outcome"] == "stopped"


@pytest.mark.slow
def test_a_record_that_is_lost_changes_nothing_but_the_time(desk):
    for _ in range(2):
        assert "Nothing to load" in desk.run()[1]
    [path] = [path for path in desk.folders.landed.glob("run=*/log/*") if path.name > "00002.zst"]
    path.unlink()
    assert desk.status()["lists"][0]["last_run"]["target_count"] == COUNT
    assert desk.run()[0] == 0
    assert desk.status()["lists"][0]["last_run"]["target_count"] == 0


@pytest.mark.slow
def test_a_list_that_was_renamed_or_removed_is_loaded_again(desk):
    desk.call("list", "rename", "list", "new")
    desk.run("--list-name", "new")
    desk.call("list", "remove", "new")
    desk.run("--list-name", "new")
    assert [each["name"] for each in desk.status()["lists"]] == ["new"]
