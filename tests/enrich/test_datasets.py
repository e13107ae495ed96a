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


# What every dataset answers with -> exit code, requests until the run ends, and what it says of each dataset.
NOTHING_TO_HAVE = [
    (403, 5, dict.fromkeys(DATASETS, 3), ["/v1/companies/{} (403: Not for you)"]),  # two companies are asked for alone
    *slow(
        (404, 1, {"financials": 9, "lookalikes": 1, "relationships": 1}, ["/v1/companies/financials (404", "base_url"]),
        (410, 1, {"financials": 9, "lookalikes": 1, "relationships": 1}, ["/v1/companies/financials (410", "base_url"]),
        (500, 1, None, ["/v1/companies/{}"]),
        ("hang", 1, {"financials": 3, "lookalikes": 1, "relationships": 1}, ["was not answered in 3 tries"]),
    ),
]


@pytest.mark.parametrize(("broken", "code", "requests", "words"), NOTHING_TO_HAVE)
def test_where_no_dataset_is_to_be_had_the_run_ends_soon_and_buys_nothing(desk, broken, code, requests, words):
    """A token that may do nothing, settings that do not fit, or a service that is down."""
    desk.service.broken = dict.fromkeys(DATASETS, broken)
    ended, _, said = desk.run("--set", "api.read_timeout_seconds=0.2")
    assert (ended, desk.service.charged) == (code, []), said
    assert requests == desk.service.requests if requests else desk.service.requests.total() < 30
    assert all(word.format(dataset) in said for dataset in DATASETS for word in words)
    assert desk.status()["unfinished"] == [] or broken not in (404, 410), "there is nothing to go on with"
    desk.service.ended.set()
    desk.service.broken.clear()
    assert desk.run()[0] == 0
    all_is_well(desk)


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


# --- each cause: whoever asks hears the same, and the advice works when it is followed --------------------------------


def all_is_well(desk):
    found = desk.statuses()
    assert found == FINE, found
    assert desk.status()["next_step"] == "Nothing to do"
    assert len(desk.service.charged) == COUNT


((COUNTRY, NUMBER),) = firmlake_sandbox.sample_numbers(1)
ONE = {COUNTRY + NUMBER, COUNTRY + NUMBER.lstrip("0")}
REDRIVE = ("redrive",)
LEAST = ("--refresh", "--set", "run.vanished_records_min=5")
LOST = "financials records no longer have healthIndicator"
# What is wrong with the service, the options of a run -> exit code, what it says, the way out, and the command of it.
CAUSES = {
    "a company failed": ({"poison": ONE}, (), 3, "1 company failed", "`firmlake redrive` asks again", REDRIVE),
    "a record was rejected": (
        {"reject": ONE}, (), 3, "1 company has records that do not fit", "`firmlake redrive` asks again", REDRIVE,
    ),
    "credits ran out": ({"allowed_credits": 0}, (), 4, "credits are used up", "Add credits and run again", ()),
    "a budget of credits": ({}, ("--max-credits", "0"), 4, "leaves out 30 companies", "run.max_credits higher", ()),
    "a part of a budget": ({}, ("--max-credits", "10"), 4, "leaves out 20 companies", "list.csv again", ()),
    "a budget of requests": ({}, ("--max-requests", "1"), 4, "run.max_requests = 1 is used up", "to continue", ()),
    "a pause": (
        {"headers": {"Retry-After": "7200"}, "broken": dict.fromkeys(DATASETS, 429)}, (), 4, "a pause of 120 minutes",
        "Run again after that", (),
    ),
    "the token": (
        {"broken": dict.fromkeys(DATASETS, 401)}, (), 5, "does not accept the token", "Get a valid token", (),
    ),
    "a field vanished": ({"lost": {"healthIndicator"}}, LEAST, 6, LOST, "list.csv again once the service sends", ()),
    # The other way out publishes the same answers without a request.
    "a field vanished for good": (
        {"lost": {"healthIndicator"}}, LEAST, 6, LOST, "run.vanished_share_max=1 publishes run",
        ("--set", "run.vanished_share_max=1"),
    ),
    "nothing is said of a company": (
        {"unsaid": ONE}, (), 3, "", "ask the service what an element without data, message and name means", REDRIVE,
    ),
}  # fmt: skip
_BY_DEFAULT = ("a budget of credits", "the token")


@pytest.mark.parametrize("cause", [*_BY_DEFAULT, *slow(*(name for name in CAUSES if name not in _BY_DEFAULT))])
def test_whoever_asks_hears_the_same_cause_and_the_advice_works(desk, cause):
    wrong, options, code, text, advice, way_out = CAUSES[cause]
    if "lost" in wrong:
        assert desk.run()[0] == 0
    rows = query(desk.folders, "FROM financials ORDER BY ALL") if "lost" in wrong else []
    usual = {name: getattr(desk.service, name) for name in wrong}
    for name, value in wrong.items():
        setattr(desk.service, name, value)
    ended, _, said = desk.run(*options)
    assert ended == code, said
    status = desk.status()
    assert text in said, said
    assert advice in said, said
    assert advice in status["next_step"]
    if code == 3:
        reasons = query(desk.folders, "SELECT DISTINCT reason FROM dead_letters")
        assert {(reason,) for _, reason, _ in status["parked"]} == set(reasons) or cause == "a record was rejected"
    if code == 6:
        assert status["refused"][0][1] == "list.csv"
        assert query(desk.folders, "FROM financials ORDER BY ALL") == rows
    publishes_what_landed = bool(way_out) and way_out != REDRIVE
    for name, value in usual.items():
        setattr(desk.service, name, value)
    before = desk.service.requests.total()
    refresh = options[:1] if code == 6 and not way_out else ()
    ended, _, said = desk.call("redrive") if way_out == REDRIVE else desk.run(*way_out, *refresh)
    assert ended == 0, said
    assert not publishes_what_landed or desk.service.requests.total() == before
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
    monkeypatch.setattr("firmlake.api.throttle.throttle.STORE_WAITS_SECONDS", (0.0,))
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
    code, _, said = desk.run(*with_steps, "--max-credits", str(COUNT))
    assert (code, "leaves out 1 company" in said) == (4, True), said
    advice = "run list.csv again with --expand lookalikes --depth 1"
    assert advice in said
    assert advice in desk.status()["next_step"]
    assert desk.run(*with_steps)[0] == 0
    assert desk.status()["next_step"] == "Nothing to do"


def test_a_company_that_answers_left_out_is_looked_up_when_somebody_asks_for_it(desk):
    """A run asks for it only beside companies that the service knows."""
    stranger, answer = "999002109", desk.service.answer

    def leave_out(dataset, asked):
        return answer(dataset, [one for one in asked if one["companyNumber"] != stranger])

    desk.service.answer = leave_out
    desk.write([*firmlake_sandbox.sample_numbers(3), ("BE", stranger)])
    assert desk.run()[0] == 0
    assert desk.statuses() >= {(dataset, "not_found") for dataset in DATASETS}
    desk.service.answer = answer
    assert desk.call("company", "BE", stranger)[0] == 0
    assert desk.statuses() == FINE
