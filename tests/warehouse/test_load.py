"""Loading: only what changed is written, a late answer replaces no newer one, and the ledger says what happened.

What answers, failures and silences do to rows and states is in test_versions.py.
"""

from __future__ import annotations

import json

import duckdb
import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.rebuild.replay import replay
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.generations import newest
from firmlake.warehouse.loads import loaded_runs
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
    party,
    period,
    publish_landed,
    query,
    run_name,
    run_of,
    slow,
)


def similar(*scores):
    return {"lookalikes": [lookalike(score=score) for score in scores]}


def naive(day):
    return (NOON + day * DAY).replace(tzinfo=None)


def scores(folders):
    return query(folders, "SELECT country, score, run_id FROM lookalikes ORDER BY ALL")


def states(folders):
    return query(folders, "SELECT country, status, fetched_at, run_id FROM company_state ORDER BY ALL")


def test_the_ledger_counts_what_a_load_wrote_and_a_failure_leaves_what_was_there(folders):
    run_of(folders, 0, {ACME: similar(0.9), BOLT: similar(0.5)})
    run_of(folders, 1, {ACME: similar(0.9), BOLT: similar(0.6)})
    assert scores(folders) == [("BE", 0.9, run_name(0)), ("NL", 0.6, run_name(1))]
    with duckdb.connect(newest(folders), read_only=True) as connection:
        assert loaded_runs(connection) == [run_name(0), run_name(1)]
    ledger = "SELECT generation, run_id, published_at, schema_version, changed_company_count, row_counts FROM loads"
    rows = query(folders, f"{ledger} ORDER BY generation")
    assert [row[:5] for row in rows] == [
        (1, run_name(0), naive(0) + MINUTE, SCHEMA_VERSION, 2),
        (2, run_name(1), naive(1) + MINUTE, SCHEMA_VERSION, 1),
    ]
    assert [json.loads(row[5])["lookalikes"] for row in rows] == [2, 1]
    run_of(folders, 2, {ACME: FAILED}, ["lookalikes"], outcome="some_failed")
    assert query(folders, "SELECT reason, run_id FROM dead_letters") == [("refused: 422", run_name(2))]
    named = query(folders, "SELECT name, place, fetched_at, run_id FROM companies WHERE country = 'BE'")
    assert named == [("BE name", "Gent", naive(1), run_name(2))]


def accounts(year, revenue, *codes):
    return period(year, profitability__revenue=revenue, jointCommitteeCodes=[*codes])


def test_a_record_that_cannot_be_read_retires_nothing_that_it_may_have_been(folders):
    """Accounts that are new or restated are taken; the codes of committees go with their period."""
    lost = {**accounts(2023, 3), "endDate": "x"}
    unlike = {**lookalike(CIRC), "companyId": "x"}
    before = {
        ACME: {"financials": [accounts(2024, 4), accounts(2023, 3), accounts(2022, 2)]},
        BOLT: {"financials": [accounts(year, 1, "100", "200") for year in (2023, 2024)]},
        CIRC: {"lookalikes": [lookalike(BOLT, 0.9), lookalike(CIRC, 0.8)]},
    }
    after = {
        ACME: {"financials": [accounts(2025, 5), accounts(2024, 40), lost]},
        BOLT: {"financials": [lost | {"jointCommitteeCodes": ["100"]}, accounts(2024, 1, "300")]},
        CIRC: {"lookalikes": [lookalike(BOLT, 0.7), unlike]},
    }
    for day, answers in enumerate((before, after)):
        run_of(folders, day, answers)
    held = query(folders, "SELECT year(end_date), revenue::INT FROM financials WHERE country = 'BE' ORDER BY 1")
    assert held == [(2022, 2), (2023, 3), (2024, 40), (2025, 5)]
    codes = query(folders, "SELECT year(end_date), code FROM financial_joint_committees ORDER BY ALL")
    assert codes == [(2023, "100"), (2023, "200"), (2024, "300")]
    alike = query(folders, "SELECT lookalike_country, rank, score::DOUBLE FROM lookalikes ORDER BY rank")
    assert alike == [("NL", 1, 0.7), ("FR", 2, 0.8)]
    kinds = {kind for (kind,) in query(folders, "SELECT kind FROM changes")}
    assert {"period_removed", "lookalike_out"}.isdisjoint(kinds)
    for dataset in ("financials", "lookalikes"):
        keys = ", ".join(TABLES[dataset].key)
        assert not query(folders, f"SELECT {keys} FROM {dataset} GROUP BY ALL HAVING count(*) > 1")


def test_an_answer_that_is_published_late_replaces_no_newer_one(folders):
    """A run was killed before its publish, and goes on after another one has asked for the same companies."""
    run_of(folders, 1, {ACME: similar(0.9), BOLT: None}, ["lookalikes"])
    run_of(folders, 0, {ACME: similar(0.1), BOLT: WAITING, CIRC: similar(0.3)}, outcome="stopped", published=1)
    assert scores(folders) == [("BE", 0.9, run_name(1)), ("FR", 0.3, run_name(0))]
    assert states(folders) == [
        ("BE", "reported", naive(1), run_name(1)),
        ("FR", "reported", naive(0), run_name(0)),
        ("NL", "not_found", naive(1), run_name(1)),
    ]
    assert query(folders, "SELECT fetched_at FROM companies WHERE country = 'BE'") == [(naive(1),)]


def test_an_answer_whose_time_is_in_the_future_gives_way_to_any_other_and_replaces_none_of_now(folders):
    """A clock that was once a year ahead must not keep new answers out for a year."""
    run_of(folders, 365, {ACME: similar(0.9), BOLT: None}, ["lookalikes"])
    run_of(folders, 0, {ACME: similar(0.1), BOLT: similar(0.2), CIRC: similar(0.3)})
    run_of(folders, 364, {CIRC: similar(0.9)}, published=0)
    assert scores(folders) == [("BE", 0.1, run_name(0)), ("FR", 0.3, run_name(0)), ("NL", 0.2, run_name(0))]
    assert {state[1:] for state in states(folders)} == {("reported", naive(0), run_name(0))}
    assert query(folders, "SELECT DISTINCT fetched_at FROM companies") == [(naive(0),)]
    assert query(folders, "SELECT DISTINCT paid_at FROM companies WHERE country <> 'FR'") == [(naive(0),)]


def test_states_say_what_is_known_of_each_answer_and_a_dataset_left_out_is_left_alone(folders):
    four = (ACME, BOLT, CIRC, ACME._replace(company_number="0770493071"))
    answers = zip(four, ({"lookalikes": [], "relationships": [party()]}, None, FAILED, WAITING), strict=True)
    run_of(folders, 0, dict(answers))
    run_of(folders, 1, {ACME: similar(0.8)})
    rows = query(folders, "SELECT dataset, status, reject_count, payload_hash IS NULL, run_id FROM company_state")
    told = {"not_found": (0, False), "failed": (None, True), "waiting": (None, True)}
    assert sorted(rows) == sorted([
        *((dataset, status, *rest, run_name(0)) for dataset in ("lookalikes", "relationships")
          for status, rest in told.items()),
        ("lookalikes", "reported", 0, False, run_name(1)), ("relationships", "reported", 0, False, run_name(0)),
    ])  # fmt: skip


def test_a_credit_window_begins_with_the_first_answer_after_the_last_one_ended_and_never_with_a_failure(folders):
    companies, began = [ACME, BOLT, CIRC], []
    for day, answers in (
        (0, (similar(0.9), similar(0.9), FAILED)),
        (1, (FAILED, WAITING, similar(0.9))),
        (29.9, (similar(0.9), FAILED, FAILED)),
        (30, (WAITING, similar(0.9), FAILED)),
        (31, (similar(0.9), FAILED, FAILED)),
    ):
        run_of(folders, day, dict(zip(companies, answers, strict=True)), keep=1)
        began.append([paid for (paid,) in query(folders, "SELECT paid_at FROM companies ORDER BY country = 'FR', 1")])
    first = naive(0)
    assert began == [
        [first, first, None],
        [first, first, naive(1)],
        [first, first, naive(1)],
        [first, naive(30), naive(1)],
        [naive(30), naive(31), naive(1)],
    ]


# --- what concerns the run -------------------------------------------------------------------------------------------


def test_a_run_is_described_by_what_it_set_out_to_do_and_how_it_ended(folders):
    run = land_run(folders, 0, {ACME: similar(0.9), BOLT: FAILED})
    land(run, (header("lookalikes", [BOLT], status=500, headers={"x-credits-charged": "2"}), b""))
    publish_landed(run)
    columns = "list_name, service, started_at, finished_at, outcome, company_count, target_count, request_count"
    assert query(folders, f"SELECT {columns}, credit_count, expected_credit_count FROM runs") == [
        ("list.csv", "this machine", naive(0), naive(0) + MINUTE, "done", 2, 2, 2, 2, 1)
    ]
    others = WAREHOUSE_TABLES.keys() - {"loads", "runs"}  # a run that is loaded again changes nothing else
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


@pytest.mark.parametrize("name", ["it's", *slow("a b", "br[1]*", "\u00fc")])
def test_a_data_folder_may_have_any_name(tmp_path, name):
    folders = Folders(tmp_path / name)
    run_of(folders, 0, {ACME: similar(0.9)})
    assert len(scores(folders)) == 1
