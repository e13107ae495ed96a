"""Loading: only what changed is written, what failed retires nothing, and the ledger row says that it happened."""

from __future__ import annotations

import json
from datetime import timedelta

import duckdb
import pytest

from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.generations import newest
from firmlake.warehouse.loads import loaded_runs
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    header,
    land,
    lookalike,
    make_run,
    not_found,
    party,
    period,
    publish_landed,
    query,
    slow,
)

FIRST, SECOND, THIRD = "20260105T120000Z-0001", "20260106T120000Z-0002", "20260107T120000Z-0003"
LATER = NOON + DAY


def run_of(
    folders, *landed, run_id=FIRST, at=NOON, companies=(ACME, BOLT), outcome="done", datasets=("lookalikes",),
    published_at=None,
):  # fmt: skip
    """A run over companies from start to publish; a company nothing landed of waits."""
    run = make_run(folders, companies, datasets, run_id=run_id, at=at)
    land(run, *landed)
    publish_landed(run, outcome, at=(published_at or at) + MINUTE)
    return run


def similar(company, *scores, at=NOON):
    return answer("lookalikes", found(company, "lookalikes", *(lookalike(score=score) for score in scores)), at=at)


def gone(company, at=NOON):
    return answer("lookalikes", not_found(company, "lookalikes"), at=at)


def failed(company, at=NOON, dataset="lookalikes"):
    return header(dataset, [company], kind="given_up", status=None, error="refused: 422", at=at), b""


def naive(moment):
    return moment.replace(tzinfo=None)


def scores(folders, company):
    where = f"WHERE company_number = '{company.company_number}' ORDER BY rank"
    return query(folders, f"SELECT score, run_id, fetched_at FROM lookalikes {where}")


def state(folders, company, columns="status, record_count, fetched_at, run_id"):
    return query(folders, f"SELECT {columns} FROM company_state WHERE company_number = '{company.company_number}'")[0]


def answered(folders, dataset, *records, run_id=FIRST, at=NOON):
    landed = answer(dataset, found(ACME, dataset, *records), at=at)
    run_of(folders, landed, run_id=run_id, at=at, companies=[ACME], datasets=[dataset])


@pytest.mark.parametrize("every", [3, *slow(2, 8)])
def test_each_company_has_one_state_after_every_load_also_where_rows_are_compacted(folders, monkeypatch, every):
    monkeypatch.setattr("firmlake.warehouse.generations._TIDIED_EVERY", every)
    companies, latest = [ACME, BOLT, CIRC], {}
    for number in range(9):
        at = NOON + number * DAY
        asked = companies if number % 3 == 2 else companies[number % 2 :][:2]
        latest |= dict.fromkeys(asked, at)
        landed = [similar(company, 0.1 + number / 100, at=at) for company in asked]
        run_of(folders, *landed, run_id=f"202601{number + 10}T120000Z-0001", at=at, companies=asked)
        states = query(folders, "SELECT country, company_number, fetched_at FROM company_state ORDER BY ALL")
        assert states == [(*company, naive(fetched)) for company, fetched in sorted(latest.items())]
        assert query(folders, "SELECT country, company_number FROM companies ORDER BY ALL") == sorted(latest)


# --- what a company's answers do -------------------------------------------------------------------------------------


def test_a_first_run_writes_every_answer(folders):
    run_of(folders, similar(ACME, 0.9, 0.8), gone(BOLT))
    assert [row[0] for row in scores(folders, ACME)] == [0.9, 0.8]
    assert state(folders, ACME)[:2] == ("reported", 2)
    assert state(folders, BOLT)[:2] == ("not_found", 0)


def test_only_companies_that_changed_are_written_anew(folders):
    run_of(folders, similar(ACME, 0.9), similar(BOLT, 0.5))
    run_of(folders, similar(ACME, 0.9, at=LATER), similar(BOLT, 0.6, at=LATER), run_id=SECOND, at=LATER)
    assert scores(folders, ACME) == [(0.9, FIRST, naive(NOON))]
    assert scores(folders, BOLT) == [(0.6, SECOND, naive(LATER))]
    assert state(folders, ACME) == ("reported", 1, naive(LATER), SECOND)
    changed = query(folders, "SELECT changed_company_count, row_counts::VARCHAR FROM loads ORDER BY generation")
    assert [row[0] for row in changed] == [2, 1]
    assert json.loads(changed[1][1])["lookalikes"] == 1


def test_a_failed_answer_retires_nothing(folders):
    run_of(folders, similar(ACME, 0.9), similar(BOLT, 0.5))
    run_of(folders, failed(ACME, LATER), similar(BOLT, 0.5, at=LATER), run_id=SECOND, at=LATER, outcome="some_failed")
    assert scores(folders, ACME) == [(0.9, FIRST, naive(NOON))]
    assert state(folders, ACME) == ("failed", 1, naive(NOON), SECOND)
    assert query(folders, "SELECT reason, run_id FROM dead_letters") == [("refused: 422", SECOND)]


def accounts(year, revenue):
    return period(year, profitability__revenue=revenue)


UNREAD = {
    "financials": (
        "SELECT year(end_date), revenue::INT FROM financials ORDER BY 1",
        [accounts(2024, 4), accounts(2023, 3), accounts(2022, 2)],
        [accounts(2025, 5), accounts(2024, 40), {**accounts(2023, 3), "endDate": "x"}],  # new, restated, cannot be read
        [(2022, 2), (2023, 3), (2024, 40), (2025, 5)],
    ),
    "lookalikes": (
        "SELECT lookalike_country, rank, score::DOUBLE FROM lookalikes ORDER BY rank",
        [lookalike(BOLT, 0.9), lookalike(CIRC, 0.8)],
        [lookalike(BOLT, 0.7), {**lookalike(CIRC), "companyId": "x"}],
        [("NL", 1, 0.7), ("FR", 2, 0.8)],
    ),
}


@pytest.mark.parametrize("dataset", ["financials", *slow(*(name for name in UNREAD if name != "financials"))])
def test_a_record_that_cannot_be_read_retires_nothing_that_it_may_have_been(folders, dataset):
    sql, before, after, held = UNREAD[dataset]
    answered(folders, dataset, *before)
    answered(folders, dataset, *after, run_id=SECOND, at=LATER)
    assert query(folders, sql) == held
    assert {"period_removed", "parent_out", "child_out", "lookalike_out"}.isdisjoint(
        kind for (kind,) in query(folders, "SELECT kind FROM changes")
    )
    keys = ", ".join(TABLES[dataset].key)
    assert not query(folders, f"SELECT {keys} FROM {dataset} GROUP BY ALL HAVING count(*) > 1")
    answered(folders, dataset, *after[:1], run_id=THIRD, at=LATER + DAY)
    assert query(folders, f"SELECT count(*) FROM {dataset}") == [(1,)]


@pytest.mark.slow
def test_codes_stay_with_a_period_that_cannot_be_read_and_follow_one_that_can(folders):
    both = [period(year, jointCommitteeCodes=["100", "200"]) for year in (2023, 2024)]
    answered(folders, "financials", *both)
    unread = period(2023, jointCommitteeCodes=["100"], endDate="x")
    answered(folders, "financials", unread, period(2024, jointCommitteeCodes=["300"]), run_id=SECOND, at=LATER)
    codes = query(folders, "SELECT year(end_date), code FROM financial_joint_committees ORDER BY ALL")
    assert codes == [(2023, "100"), (2023, "200"), (2024, "300")]


@pytest.mark.slow
def test_who_waits_in_a_run_that_ends_late_is_not_waiting_where_another_asked_since(folders):
    run_of(folders, similar(ACME, 0.9, at=LATER), gone(BOLT, LATER), run_id=SECOND, at=LATER)
    run_of(folders, similar(CIRC, 0.3), companies=[ACME, BOLT, CIRC], outcome="stopped", published_at=LATER)
    assert [state(folders, company)[0] for company in (ACME, BOLT, CIRC)] == ["reported", "not_found", "reported"]


def test_what_was_not_asked_retires_nothing(folders):
    run_of(folders, similar(ACME, 0.9), similar(BOLT, 0.5))
    run_of(folders, similar(BOLT, 0.5, at=LATER), run_id=SECOND, at=LATER, outcome="stopped")
    assert scores(folders, ACME) == [(0.9, FIRST, naive(NOON))]
    assert state(folders, ACME) == ("waiting", 1, naive(NOON), SECOND)


@pytest.mark.parametrize(("later", "status"), [(gone, "not_found"), *slow((similar, "empty"))])
def test_rows_go_when_the_service_no_longer_has_them(folders, later, status):
    run_of(folders, similar(ACME, 0.9), similar(BOLT, 0.5))
    run_of(folders, later(ACME, at=LATER), similar(BOLT, 0.5, at=LATER), run_id=SECOND, at=LATER)
    assert scores(folders, ACME) == []
    assert len(scores(folders, BOLT)) == 1
    assert state(folders, ACME) == (status, 0, naive(LATER), SECOND)


def test_an_answer_that_is_published_late_replaces_no_newer_one(folders):
    """A run was killed before its publish, and goes on after another one has asked for the same companies."""
    run_of(folders, similar(ACME, 0.9, at=LATER), gone(BOLT, LATER), run_id=SECOND, at=LATER)
    late = [*similar(ACME, 0.1), *similar(BOLT, 0.2), *similar(CIRC, 0.3)]
    run_of(folders, *zip(late[::2], late[1::2], strict=True), companies=[ACME, BOLT, CIRC], published_at=LATER)
    assert [row[:2] for row in scores(folders, ACME)] == [(0.9, SECOND)]
    assert scores(folders, BOLT) == []
    assert [row[:2] for row in scores(folders, CIRC)] == [(0.3, FIRST)]
    assert state(folders, ACME) == ("reported", 1, naive(LATER), SECOND)
    assert state(folders, BOLT)[0] == "not_found"
    assert query(folders, f"SELECT fetched_at FROM companies WHERE country = '{ACME.country}'") == [(naive(LATER),)]


@pytest.mark.slow
def test_an_answer_whose_time_is_in_the_future_gives_way_to_any_other(folders):
    """A clock that was once a year ahead must not keep new answers out for a year."""
    ahead = NOON + 365 * DAY
    run_of(folders, similar(ACME, 0.9, at=ahead), gone(BOLT, ahead), at=ahead, companies=[ACME, BOLT])
    run_of(folders, similar(ACME, 0.1), similar(BOLT, 0.2), run_id=SECOND, companies=[ACME, BOLT])
    assert [row[:2] for row in scores(folders, ACME)] == [(0.1, SECOND)]
    assert state(folders, ACME) == ("reported", 1, naive(NOON), SECOND)
    assert query(folders, "SELECT DISTINCT fetched_at, paid_at FROM companies") == [(naive(NOON), naive(NOON))]


def test_an_answer_whose_time_is_in_the_future_replaces_none_of_now(folders):
    ahead = NOON + 365 * DAY
    run_of(folders, similar(ACME, 0.1), companies=[ACME])
    run_of(folders, similar(ACME, 0.9, at=ahead), run_id=SECOND, at=ahead, companies=[ACME], published_at=NOON)
    assert [row[:2] for row in scores(folders, ACME)] == [(0.1, FIRST)]
    assert query(folders, "SELECT DISTINCT fetched_at FROM companies") == [(naive(NOON),)]


@pytest.mark.slow
def test_a_company_found_again_has_its_rows_again(folders):
    for number, (run_id, landed) in enumerate([(FIRST, similar), (SECOND, gone), (THIRD, similar)]):
        at = NOON + number * DAY
        run_of(
            folders, landed(ACME, *[0.9] if landed is similar else [], at=at), run_id=run_id, at=at, companies=[ACME]
        )
    assert [row[:2] for row in scores(folders, ACME)] == [(0.9, THIRD)]


@pytest.mark.slow
def test_after_a_failure_the_same_answer_is_no_change(folders):
    run_of(folders, similar(ACME, 0.9), companies=[ACME])
    run_of(folders, failed(ACME), run_id=SECOND, at=LATER, companies=[ACME])
    run_of(folders, similar(ACME, 0.9, at=LATER + DAY), run_id=THIRD, at=LATER + DAY, companies=[ACME])
    assert scores(folders, ACME) == [(0.9, FIRST, naive(NOON))]
    assert state(folders, ACME)[0] == "reported"


def test_empty_not_found_failed_and_waiting_are_told_apart(folders):
    four = (ACME, BOLT, CIRC, ACME._replace(company_number="0770493071"))
    run_of(folders, similar(ACME), gone(BOLT), failed(CIRC), companies=four)
    rows = [state(folders, company, "status, record_count, reject_count, payload_hash IS NULL") for company in four]
    assert rows == [
        ("empty", 0, 0, False), ("not_found", 0, 0, False), ("failed", None, None, True), ("waiting", None, None, True),
    ]  # fmt: skip


def test_a_dataset_left_out_of_a_run_is_left_alone(folders):
    both = ("lookalikes", "relationships")
    parents = answer("relationships", found(ACME, "relationships", party()))
    run_of(folders, similar(ACME, 0.9), parents, companies=[ACME], datasets=both)
    run_of(folders, similar(ACME, 0.8, at=LATER), run_id=SECOND, at=LATER, companies=[ACME])
    assert query(folders, "SELECT run_id FROM relationships") == [(FIRST,)]
    assert query(folders, "SELECT dataset, run_id FROM company_state ORDER BY ALL") == [
        ("lookalikes", SECOND), ("relationships", FIRST),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_codes_of_a_company_change_with_its_periods(folders):
    for run_id, at, codes in ((FIRST, NOON, ["1", "2"]), (SECOND, LATER, ["3"])):
        periods = found(ACME, "financials", period(jointCommitteeCodes=codes))
        run_of(
            folders, answer("financials", periods, offset=0, at=at), run_id=run_id, at=at, companies=[ACME],
            datasets=["financials"],
        )  # fmt: skip
    assert query(folders, "SELECT code, run_id FROM financial_joint_committees") == [("3", SECOND)]


@pytest.mark.slow
def test_companies_of_other_runs_are_left_alone(folders):
    run_of(folders, similar(ACME, 0.9), companies=[ACME])
    run_of(folders, similar(BOLT, 0.5), run_id=SECOND, at=LATER, companies=[BOLT])
    assert len(scores(folders, ACME)) == len(scores(folders, BOLT)) == 1
    assert query(folders, "SELECT count(*) FROM companies") == [(2,)]


@pytest.mark.slow
def test_names_stay_when_a_later_run_fails(folders):
    run_of(folders, similar(ACME, 0.9), companies=[ACME])
    run_of(folders, failed(ACME, LATER), run_id=SECOND, at=LATER, companies=[ACME])
    assert query(folders, "SELECT name, place, fetched_at, run_id FROM companies") == [
        ("BE name", "Gent", naive(NOON), SECOND)
    ]


# --- what was paid ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "paid_after"),
    [*slow((1, 0)), (29.9, 0), (30, 30), *slow((31, 31))],
    ids=["next day", "inside", "at the end", "after"],
)
def test_a_window_begins_with_the_first_answer_after_the_last_one_ended(folders, days, paid_after):
    at = NOON + timedelta(days=days)
    run_of(folders, similar(ACME, 0.9), companies=[ACME])
    run_of(folders, similar(ACME, 0.9, at=at), run_id=SECOND, at=at, companies=[ACME])
    assert query(folders, "SELECT paid_at FROM companies") == [(naive(NOON + timedelta(days=paid_after)),)]


def test_a_failure_neither_begins_nor_ends_a_window(folders):
    run_of(folders, failed(ACME), companies=[ACME])
    assert query(folders, "SELECT paid_at FROM companies") == [(None,)]
    run_of(folders, similar(ACME, 0.9, at=LATER), run_id=SECOND, at=LATER, companies=[ACME])
    run_of(folders, failed(ACME, LATER + 40 * DAY), run_id=THIRD, at=LATER + 40 * DAY, companies=[ACME])
    assert query(folders, "SELECT paid_at FROM companies") == [(naive(LATER),)]


# --- what concerns the run -------------------------------------------------------------------------------------------


def test_the_ledger_row_is_the_mark_of_a_loaded_run(folders):
    run_of(folders, similar(ACME, 0.9))
    run_of(folders, similar(ACME, 0.9, at=LATER), run_id=SECOND, at=LATER)
    with duckdb.connect(newest(folders), read_only=True) as connection:
        assert loaded_runs(connection) == [FIRST, SECOND]
    rows = query(folders, "SELECT generation, run_id, published_at, schema_version FROM loads ORDER BY ALL")
    assert rows == [
        (1, FIRST, naive(NOON + MINUTE), SCHEMA_VERSION),
        (2, SECOND, naive(LATER + MINUTE), SCHEMA_VERSION),
    ]


def test_a_run_is_described_by_what_it_set_out_to_do_and_how_it_ended(folders):
    headers = {"x-credits-charged": "2"}
    run_of(folders, similar(ACME, 0.9), failed(BOLT), (header("lookalikes", [BOLT], status=500, headers=headers), b""))
    assert query(
        folders,
        "SELECT list_name, service, started_at, finished_at, outcome, company_count, target_count, request_count, "
        "credit_count, expected_credit_count FROM runs",
    ) == [("list.csv", "this machine", naive(NOON), naive(NOON + MINUTE), "done", 2, 2, 2, 2, 1)]


def test_the_same_drift_in_two_shards_is_one_row(folders):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], shard_companies=1)
    for shard, company, at in ((1, ACME, LATER), (2, BOLT, NOON)):
        element = {**found(company, "lookalikes", {**lookalike(), "unheardOf": shard}), "more": 1}
        land(run, answer("lookalikes", element, at=at), shard=shard)
    publish_landed(run)
    assert query(folders, "SELECT path, example, record_count, first_seen_at FROM drift ORDER BY ALL") == [
        ("[].more", None, 2, naive(NOON)),
        ("unheardOf", "2", 2, naive(NOON)),
    ]


def test_loading_a_run_again_changes_nothing_but_the_ledger(folders):
    """And what it is expected to cost, which is nothing the second time."""
    run = run_of(folders, similar(ACME, 0.9), failed(BOLT), companies=[ACME, BOLT])
    others = WAREHOUSE_TABLES.keys() - {"loads", "runs"}
    before = {name: query(folders, f"SELECT * FROM {name} ORDER BY ALL") for name in others}
    publish_landed(run)
    assert {name: query(folders, f"SELECT * FROM {name} ORDER BY ALL") for name in before} == before


@pytest.mark.parametrize("name", ["it's", *slow("a b", "br[1]*", "\u00fc")])
def test_a_data_folder_may_have_any_name(tmp_path, name):
    folders = Folders(tmp_path / name)
    run_of(folders, similar(ACME, 0.9))
    assert len(scores(folders, ACME)) == 1
