"""A dataset that is forbidden or down ends no run: the others are published, and it is named, kept and probed again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from itertools import product

import pytest

import firmlake_sandbox
from other_service import start_other_service
from support import DATASETS, query, slow

from .desk import COUNT, Desk

STATUS = {403: "forbidden", 500: "unavailable", "html": "unavailable", 404: "unavailable", 400: "unavailable"}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    # Eight failures in a row, then short pauses and little patience.
    monkeypatch.setattr("firmlake.api.retry.CircuitBreaker.__init__.__defaults__", (8, 0.01, 0.05, 0.5))
    with start_other_service() as service:
        yield Desk(tmp_path, service)


FINE = {(dataset, "reported") for dataset in DATASETS}


# By default one way of being forbidden and one of being unavailable; `-m slow` tries every pair.
_USUAL = {(403, "financials"), (500, "lookalikes")}


@pytest.mark.parametrize(
    ("broken", "dataset"),
    [
        pytest.param(*pair, marks=[] if pair in _USUAL else pytest.mark.slow)
        for pair in product(STATUS, DATASETS)
        if pair != (400, "financials")  # where the first request of all is refused, the settings do not fit
    ],
)
def test_a_dataset_that_is_not_to_be_had_ends_no_run(desk, dataset, broken):
    desk.service.broken[dataset] = broken
    code, _, said = desk.run()
    assert code == 3, said
    assert desk.statuses() == {pair for pair in FINE if pair[0] != dataset} | {(dataset, STATUS[broken])}
    assert f"{dataset} is {STATUS[broken]} for {COUNT} companies" in said
    assert len(desk.service.charged) == COUNT

    before = desk.service.requests.copy()
    code, _, said = desk.run()
    assert code == 3, said
    assert desk.service.requests - before == {dataset: 1}, "the next run probes it with one request"

    desk.service.broken.clear()
    code, _, said = desk.call("redrive")
    assert code == 0, said
    assert desk.statuses() == FINE
    assert len(desk.service.charged) == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("broken", [404, *slow(410)])
def test_where_the_service_offers_no_dataset_the_settings_do_not_fit(desk, broken):
    desk.service.broken = dict.fromkeys(DATASETS, broken)
    code, _, said = desk.run()
    assert (code, desk.service.charged) == (1, [])
    assert f"/v1/companies/financials ({broken}: Not for you)" in said
    assert "api.base_url" in said
    assert desk.service.requests == {"financials": 8, "lookalikes": 1, "relationships": 1}
    assert desk.status()["unfinished"] == [], "there is nothing to go on with"
    desk.service.broken.clear()
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [403, *slow(500)])
def test_old_rows_stay_when_a_dataset_is_no_longer_to_be_had(desk, broken):
    assert desk.run()[0] == 0
    rows = query(desk.folders, "FROM lookalikes ORDER BY ALL")
    desk.service.broken["lookalikes"] = broken
    assert desk.run("--refresh")[0] == 3
    assert query(desk.folders, "FROM lookalikes ORDER BY ALL") == rows
    assert ("lookalikes", STATUS[broken]) in desk.statuses()
    held = query(desk.folders, "SELECT count(fetched_at), sum(record_count) FROM company_state")
    assert held == [(3 * COUNT, 3 * COUNT)], "what is held stays described"


def test_only_where_every_dataset_is_forbidden_the_token_is_to_blame(desk):
    desk.service.broken = dict.fromkeys(DATASETS, 403)
    code, _, said = desk.run()
    assert code == 5, said
    assert desk.service.requests == dict.fromkeys(DATASETS, 3), "two companies are asked for alone"
    assert desk.service.charged == []
    assert all(f"/v1/companies/{dataset} (403: Not for you)" in said for dataset in DATASETS)
    desk.service.broken.clear()
    assert desk.run()[0] == 0
    assert desk.statuses() == FINE


@pytest.mark.slow
def test_a_service_that_fails_on_everything_ends_the_run_and_blames_nobody(desk):
    desk.service.broken = dict.fromkeys(DATASETS, 500)
    code, _, said = desk.run()
    assert code == 1, said
    assert all(f"/v1/companies/{dataset}" in said for dataset in DATASETS)
    assert desk.service.requests.total() < 30
    desk.service.broken.clear()
    assert desk.run()[0] == 0
    assert desk.statuses() == FINE


@pytest.mark.slow
def test_a_service_that_never_answers_is_given_up_after_the_tries(desk):
    desk.service.broken = dict.fromkeys(DATASETS, "hang")
    code, _, said = desk.run("--set", "api.read_timeout_seconds=0.2")
    assert code == 1, said
    assert desk.service.requests == {"financials": 3, "lookalikes": 1, "relationships": 1}
    assert "was not answered in 3 tries" in said
    desk.service.ended.set()
    desk.service.broken.clear()
    assert desk.run()[0] == 0


@pytest.mark.slow
def test_a_dataset_that_never_answers_leaves_the_others(desk):
    desk.service.broken["financials"] = "hang"
    code, _, said = desk.run("--set", "api.read_timeout_seconds=0.2")
    assert code == 3, said
    assert ("financials", "unavailable") in desk.statuses()
    assert "financials was not answered in 3 tries" in said


@pytest.mark.slow
def test_a_company_that_always_fails_does_not_keep_its_dataset_away(desk):
    """One company alone says nothing about its dataset."""
    desk.write(1)
    [(country, number)] = firmlake_sandbox.sample_numbers(1)
    desk.service.poison = {country + number.lstrip("0")}
    assert desk.run()[0] == 3
    assert {status for _, status in desk.statuses()} == {"failed"}
    desk.write(COUNT)
    assert desk.run()[0] == 3
    found = query(desk.folders, "SELECT count(*) FROM company_state WHERE status IN ('reported', 'empty')")
    assert found == [(3 * (COUNT - 1),)]


@pytest.mark.parametrize(
    ("broken", "advice"), [(403, "token that may use lookalikes"), *slow((500, "firmlake redrive"))]
)
def test_everybody_names_the_same_culprit_and_the_same_way_out(desk, broken, advice):
    desk.service.broken["lookalikes"] = broken
    _, out, said = desk.run()
    status = desk.status()
    assert [(kind, count) for kind, _, count in status["parked"]] == [(STATUS[broken], COUNT)]
    assert "lookalikes" in status["parked"][0][1]
    assert advice in status["next_step"]
    assert status["next_step"] in said
    assert STATUS[broken] in out
    letters = query(desk.folders, "SELECT DISTINCT dataset, reason FROM dead_letters")
    assert [dataset for dataset, _ in letters] == ["lookalikes"]
    assert letters[0][1] in said


# --- each cause: whoever asks hears the same, and the advice works when it is followed --------------------------------


def agree(desk, code, text, advice, *arguments):
    """Run, and make sure that the line at the end and `status` name the cause and the same way out."""
    ended, _, said = desk.run(*arguments)
    assert ended == code, said
    next_step = desk.status()["next_step"]
    assert text in said, said
    assert advice in said, said
    assert advice in next_step
    return said


def all_is_well(desk):
    found = desk.statuses()
    assert found == FINE, found
    assert desk.status()["next_step"] == "Nothing to do"
    assert len(desk.service.charged) == COUNT


@pytest.mark.slow
def test_cause_a_company_failed(desk):
    [(country, number)] = firmlake_sandbox.sample_numbers(1)
    desk.service.poison = {country + number.lstrip("0"), country + number}
    agree(desk, 3, "1 company failed", "`firmlake redrive` asks again")
    assert {reason for _, reason, _ in desk.status()["parked"]} == {
        reason for (reason,) in query(desk.folders, "SELECT DISTINCT reason FROM dead_letters")
    }
    desk.service.poison = set()
    assert desk.call("redrive")[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_a_record_was_rejected(desk):
    [(country, number)] = firmlake_sandbox.sample_numbers(1)
    desk.service.reject = {country + number.lstrip("0"), country + number}
    agree(desk, 3, "1 company has records that do not fit", "`firmlake redrive` asks again")
    assert query(desk.folders, "SELECT company_number FROM rejects") == [(number,)]
    desk.service.reject = set()
    assert desk.call("redrive")[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_the_credits_ran_out(desk):
    desk.service.allowed_credits = 0
    agree(desk, 4, "credits are used up", "Add credits and run again")
    desk.service.allowed_credits = None
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.parametrize("budget", [0, *slow(10)])
def test_cause_the_budget_of_credits(desk, budget):
    left = COUNT - budget
    said = agree(
        desk,
        4,
        f"run.max_credits = {budget} leaves out {left} companies",
        "list.csv again",
        "--max-credits",
        str(budget),
    )
    assert budget or "set run.max_credits higher" in said
    while desk.run("--max-credits", str(budget or COUNT))[0] == 4:
        pass
    all_is_well(desk)


@pytest.mark.slow
def test_cause_the_budget_of_requests(desk):
    agree(desk, 4, "run.max_requests = 1 is used up", "Run again to continue", "--max-requests", "1")
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_the_service_wants_a_pause(desk):
    desk.service.headers = {"Retry-After": "7200"}
    desk.service.broken = dict.fromkeys(DATASETS, 429)
    agree(desk, 4, "a pause of 120 minutes", "Run again after that")
    desk.service.broken, desk.service.headers = {}, {}
    assert desk.run()[0] == 0
    all_is_well(desk)


def test_cause_the_token_is_refused(desk):
    desk.service.broken = dict.fromkeys(DATASETS, 401)
    agree(desk, 5, "does not accept the token", "Get a valid token")
    desk.service.broken = {}
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_a_field_vanished(desk):
    assert desk.run()[0] == 0
    rows = query(desk.folders, "FROM financials ORDER BY ALL")
    desk.service.lost = {"healthIndicator"}
    least = ["--refresh", "--set", "run.vanished_records_min=5"]
    agree(desk, 6, "financials records no longer have healthIndicator", "list.csv again once the service sends", *least)
    assert desk.status()["refused"][0][1] == "list.csv"
    assert query(desk.folders, "FROM financials ORDER BY ALL") == rows
    desk.service.lost = set()
    assert desk.run("--refresh")[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_a_field_vanished_for_good(desk):
    """What is named as the other way out publishes the same answers without a request."""
    assert desk.run()[0] == 0
    desk.service.lost = {"healthIndicator"}
    least = ["--refresh", "--set", "run.vanished_records_min=5"]
    agree(
        desk, 6, "financials records no longer have healthIndicator", "run.vanished_share_max=1 publishes run", *least
    )
    before = desk.service.requests.total()
    assert desk.run("--set", "run.vanished_share_max=1")[0] == 0
    assert desk.service.requests.total() == before
    assert query(desk.folders, "SELECT count(*) FROM financials WHERE health_indicator IS NULL") == [(COUNT,)]
    all_is_well(desk)


@pytest.mark.slow
def test_cause_an_interrupt(desk):
    command = [sys.executable, "-m", "firmlake", "run", str(desk.list)]
    environment = {**os.environ, **desk.environment}
    begun, signalled = threading.Event(), threading.Event()

    def hold():
        begun.set()
        signalled.wait(5)

    desk.service.on_request = hold
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert begun.wait(60)
        run.send_signal(signal.SIGINT)
        signalled.set()
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "run again to continue" in said
    status = desk.status()
    assert [name for _, name, _ in status["unfinished"]] == ["list.csv"]
    assert "Run list.csv again: run " in status["next_step"]
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_cause_the_store_of_the_throttle_is_away(desk, monkeypatch):
    monkeypatch.setattr("firmlake.api.throttle.throttle._STORE_WAITS_SECONDS", (0.0,))
    away = ["--set", "api.requests_per_minute=200", "--set", "api.throttle_store=postgresql://127.0.0.1:1/nobody"]
    code, _, said = desk.run(*away)
    assert (code, desk.service.requests.total()) == (4, 0), said
    assert "PostgreSQL at 127.0.0.1" in said
    assert desk.status()["next_step"].rstrip(".") in said
    assert desk.run()[0] == 0
    all_is_well(desk)


@pytest.mark.slow
def test_an_unfinished_step_outward_names_the_list_and_the_option(desk):
    with_steps = ["--expand", "lookalikes", "--depth", "1"]
    agree(desk, 4, "leaves out 1 company", "run list.csv again with --expand lookalikes --depth 1",
          *with_steps, "--max-credits", str(COUNT))  # fmt: skip
    assert desk.run(*with_steps)[0] == 0
    assert desk.status()["next_step"] == "Nothing to do"


def test_a_company_that_answers_left_out_is_looked_up_when_somebody_asks_for_it(desk):
    """A run asks for it only beside companies that the service knows."""
    stranger, answer = "999002109", desk.service.answer

    def leave_out(dataset, asked):
        return answer(dataset, [one for one in asked if one["companyNumber"] != stranger])

    desk.service.answer = leave_out
    desk.write_companies([*firmlake_sandbox.sample_numbers(3), ("BE", stranger)])
    assert desk.run()[0] == 0
    assert desk.statuses() >= {(dataset, "not_found") for dataset in DATASETS}
    desk.service.answer = answer
    assert desk.call("company", "BE", stranger)[0] == 0
    assert desk.statuses() == FINE
