"""Loading: only what changed is written, a late answer replaces no newer one, and the ledger says what happened.

What answers, failures and silences do to rows and states in general is in test_history.py; what stays of an answer
that is unreadable in part is in questions/weeks.txt.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from firmlake.core.company import Company
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.generations import newest
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    FAILED,
    MINUTE,
    NOON,
    WAITING,
    answer,
    edit_warehouse,
    found,
    header,
    land,
    land_run,
    lookalike,
    make_run,
    publish_landed,
    query,
    run_name,
    run_of,
    slow,
)


def similar(score):
    return {"lookalikes": [lookalike(score=score)]}


def naive(day):
    return None if day is None else (NOON + day * DAY).replace(tzinfo=None)


class Scene(NamedTuple):
    """What is answered about a company in each run, and what the warehouse makes of it.

    Attributes:
        answers: A score, FAILED, WAITING, None for a company that is not found, or "-" for one that is not asked.
        paid: The day on which its paid window began, after each run.
        state: Its status at the end, the day of the answer that counts, and of the run that says so.
        row: Its score at the end, and the day of the run that brought it.
    """

    answers: tuple[Any, ...]
    paid: tuple[float | None, ...]
    state: tuple[str, float | None, float]
    row: tuple[float, float] | None


RUNS = ((0, 0), (1, 1), (0.5, 1.5), (29.9, 29.9), (30, 30), (31, 31))
"""The days on which runs began and were published: the third was killed before its publish, and went on later."""
F, W, N = FAILED, WAITING, "-"
SCENES = {
    # A window begins with the first answer after the last one ended, and never with a failure.
    "renewed": Scene((0.9, F, N, 0.9, W, 0.8), (0, 0, 0, 0, 0, 31), ("reported", 31, 31), (0.8, 31)),
    "renewed on its day": Scene((0.9, W, N, F, 0.7, F), (0, 0, 0, 0, 30, 30), ("failed", 30, 31), (0.7, 30)),
    "failed at first": Scene((F, 0.9, N, F, F, F), (None, 1, 1, 1, 1, 1), ("failed", 1, 31), (0.9, 1)),
    # Only what changed is written.
    "unchanged": Scene((0.9, 0.9, N, N, N, N), (0,) * 6, ("reported", 1, 1), (0.9, 0)),
    "changed": Scene((0.5, 0.6, N, N, N, N), (0,) * 6, ("reported", 1, 1), (0.6, 1)),
    # An answer that is published late replaces no newer one, although its company was paid for then.
    "late": Scene((N, 0.9, 0.1, N, N, N), (None, 1, *(0.5,) * 4), ("reported", 1, 1), (0.9, 1)),
    "late wait": Scene((N, None, W, N, N, N), (None,) * 6, ("not_found", 1, 1), None),
    "late and first": Scene((N, N, 0.3, N, N, N), (None, None, *(0.5,) * 4), ("reported", 0.5, 0.5), (0.3, 0.5)),
    "late and never before": Scene((N, N, W, N, N, N), (None,) * 6, ("waiting", None, 0.5), None),
}
COMPANIES = {name: Company("NL", f"{place:08}") for place, name in enumerate(SCENES, 1)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The data folder after all runs, and after each the paid windows; the first run asks for relationships, too."""
    folders, paid = Folders(tmp_path_factory.mktemp("load")), []
    for place, (day, published) in enumerate(RUNS):
        told = {COMPANIES[name]: scene.answers[place] for name, scene in SCENES.items() if scene.answers[place] != N}
        answers = {one: similar(score) if isinstance(score, float) else score for one, score in told.items()}
        datasets = ["lookalikes", *["relationships"] * (not place)]
        run_of(folders, day, answers, datasets, published=published, outcome="some_failed", keep=1)
        windows = dict(query(folders, "SELECT company_number, paid_at FROM companies"))
        paid.append([windows.get(company.company_number) for company in COMPANIES.values()])
    return folders, paid


def test_rows_states_and_paid_windows_are_those_of_the_answers_that_count(made):
    folders, paid = made
    assert list(map(list, zip(*paid, strict=True))) == [list(map(naive, scene.paid)) for scene in SCENES.values()]
    rows = query(folders, "SELECT company_number, score::DOUBLE, run_id FROM lookalikes ORDER BY 1")
    assert rows == [
        (COMPANIES[name].company_number, scene.row[0], run_name(scene.row[1]))
        for name, scene in SCENES.items()
        if scene.row
    ]
    states = "SELECT company_number, status, fetched_at, run_id FROM company_state WHERE dataset = 'lookalikes'"
    assert query(folders, f"{states} ORDER BY 1") == [
        (COMPANIES[name].company_number, status, naive(at), run_name(run))
        for name, scene in SCENES.items()
        for status, at, run in [scene.state]
    ]
    failed = query(folders, "SELECT company_number, reason, run_id FROM dead_letters ORDER BY run_id, 1")
    assert failed[0] == (COMPANIES["failed at first"].company_number, "refused: 422", run_name(0))


def test_a_dataset_that_is_left_out_is_left_alone_and_a_failure_has_no_content(made):
    states = "SELECT company_number, status, reject_count, payload_hash IS NULL, run_id FROM company_state"
    rows = query(made[0], f"{states} WHERE dataset = 'relationships' ORDER BY 1")
    assert [row[1:] for row in rows] == [
        ("empty", 0, False, run_name(0)), ("empty", 0, False, run_name(0)), ("failed", None, True, run_name(0)),
        ("empty", 0, False, run_name(0)), ("empty", 0, False, run_name(0)),
    ]  # fmt: skip


def test_the_ledger_has_each_load_in_its_order_with_what_it_wrote(made):
    columns = "generation, run_id, published_at, schema_version, changed_company_count, row_counts"
    rows = query(made[0], f"SELECT {columns} FROM loads ORDER BY generation")
    assert [row[:4] for row in rows] == [
        (generation, run_name(day), naive(published) + MINUTE, SCHEMA_VERSION)
        for generation, (day, published) in enumerate(RUNS, 1)
    ]
    assert [(row[4], json.loads(row[5])["lookalikes"]) for row in rows] == [
        (4, 4), (4, 3), (1, 1), (0, 0), (1, 1), (1, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_an_answer_whose_time_is_in_the_future_gives_way_to_any_other_and_replaces_none_of_now(folders):
    """A clock that was once a year ahead must not keep new answers out for a year."""
    run_of(folders, 365, {ACME: similar(0.9), BOLT: None}, ["lookalikes"])
    run_of(folders, 0, {ACME: similar(0.1), BOLT: similar(0.2), CIRC: similar(0.3)})
    run_of(folders, 364, {CIRC: similar(0.9)}, published=0)
    scores = query(folders, "SELECT country, score, run_id FROM lookalikes ORDER BY ALL")
    assert scores == [("BE", 0.1, run_name(0)), ("FR", 0.3, run_name(0)), ("NL", 0.2, run_name(0))]
    states = query(folders, "SELECT DISTINCT status, fetched_at, run_id FROM company_state")
    assert states == [("reported", naive(0), run_name(0))]
    assert query(folders, "SELECT DISTINCT fetched_at FROM companies") == [(naive(0),)]
    assert query(folders, "SELECT DISTINCT paid_at FROM companies WHERE country <> 'FR'") == [(naive(0),)]


def test_a_payment_that_is_loaded_late_begins_no_window_before_a_later_one(folders):
    run_of(folders, 40, {ACME: similar(0.9)}, ["lookalikes"])
    run_of(folders, 0, {ACME: similar(0.1)}, ["lookalikes"], published=41)
    assert query(folders, "SELECT paid_at FROM companies") == [(naive(40),)]
    assert query(folders, "SELECT sum(expected_credit_count)::INTEGER FROM runs") == [(2,)]


@pytest.mark.parametrize("name", ["it's", *slow("a b", "br[1]*", "\u00fc")])
@pytest.mark.slow
def test_a_run_is_described_by_what_it_set_out_to_do_and_how_it_ended(tmp_path, name):
    """A run that is loaded again changes nothing else, and the data folder may have any name."""
    folders = Folders(tmp_path / name)
    run = land_run(folders, 0, {ACME: similar(0.9), BOLT: FAILED})
    land(run, (header("lookalikes", [BOLT], status=500, headers={"x-credits-charged": "2"}), b""))
    publish_landed(run)
    columns = "list_name, service, started_at, finished_at, outcome, company_count, target_count, request_count"
    assert query(folders, f"SELECT {columns}, credit_count, expected_credit_count FROM runs") == [
        ("list.csv", "this machine", naive(0), naive(0) + MINUTE, "done", 2, 2, 2, 2, 1)
    ]
    others = WAREHOUSE_TABLES.keys() - {"loads", "runs"}
    before = {name: query(folders, f"SELECT * FROM {name} ORDER BY ALL") for name in others}
    publish_landed(run)
    assert {name: query(folders, f"SELECT * FROM {name} ORDER BY ALL") for name in before} == before


def test_the_same_drift_in_two_shards_is_one_row(folders):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], shard_companies=1)
    for shard, company, at in ((1, ACME, NOON + DAY), (2, BOLT, NOON)):
        element = {**found(company, "lookalikes", {**lookalike(), "unheardOf": shard}), "more": 1}
        land(run, answer("lookalikes", element, at=at), shard=shard)
    publish_landed(run)
    assert query(folders, "SELECT path, example, record_count, first_seen_at FROM drift ORDER BY ALL") == [
        ("[].more", None, 2, naive(0)),
        ("unheardOf", "2", 2, naive(0)),
    ]


@pytest.mark.parametrize("table", ["company_state", *slow("companies")])
@pytest.mark.slow
def test_a_row_that_occurs_twice_stops_publishing_until_a_replay(folders, table):
    answers = {ACME: similar(0.9), BOLT: similar(0.9)}
    run_of(folders, 0, answers)
    edit_warehouse(folders, f"INSERT INTO {table}_versions FROM {table}_versions WHERE country = 'BE'")
    before = newest(folders)
    with pytest.raises(DamagedError, match=f"{table} .* such as BE") as error:
        run_of(folders, 1, answers)
    assert "firmlake replay" in error.value.next_step
    assert newest(folders) == before
    replay(folders, lambda: NOON + 2 * DAY)
    assert query(folders, "SELECT count(*), count(DISTINCT company_number) FROM company_state") == [(2, 2)]
