"""The index over the log says the same however it came to be, and whatever happens to its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import polars as pl
import pytest

from firmlake.core.company import company_key, names_of
from firmlake.core.errors import DamagedError
from firmlake.core.settings import RunSettings, Settings
from firmlake.enrich.held import read_held
from firmlake.intake.lines import known_companies
from firmlake.landing.run import open_run
from firmlake.tables import index as indexing
from firmlake.warehouse.generations import LINK
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
    held_at,
    land,
    log_of,
    make_run,
    named,
    not_found,
    period,
    publish_landed,
    query,
    slow,
)

SECOND = "20260106T120000Z-0002"


def make_two_runs(folders):
    """A published run about two companies, and one that goes on, about a third."""
    first = make_run(folders, [ACME, BOLT], ["financials"])
    charge = {first.plan.names.credits_charged_header.lower(): "1"}
    land(first, answer("financials", found(ACME, "financials", period()), offset=0, headers=charge))
    land(first, (header("financials", [BOLT], kind="given_up", status=None, error="refused"), b""))
    publish_landed(first)
    second = make_run(folders, [CIRC], ["financials"], run_id=SECOND, at=NOON + DAY)
    land(second, answer("financials", found(CIRC, "financials", period()), offset=0, at=NOON + DAY, headers=charge))
    folders.state.mkdir(exist_ok=True)


@pytest.fixture
def two_runs(copy_of):
    return copy_of(make_two_runs)


def told(folders, now=NOON + 2 * DAY):
    held = held_at(folders, now)
    paid = named(held.paid).select("country", "company_number").sort("country").rows()
    return held.state.sort("company").rows(), paid, held.spent


def file_of(folders):
    return folders.state / "index.sqlite"


def test_what_any_run_paid_for_counts_and_what_a_published_one_said(two_runs):
    state, paid, spent = told(two_runs)
    assert [row[1:8] for row in state] == [
        ("financials", True, False, False, False, False, 1),
        ("financials", False, False, False, True, False, None),
    ]
    assert (paid, spent) == ([tuple(ACME), tuple(CIRC)], 2)
    assert file_of(two_runs).exists()


def remove(path):
    path.unlink()


def overwrite(path):
    path.write_bytes(b"x" * 5000)


def cut(path):
    path.write_bytes(path.read_bytes()[:5000])


def empty(path):
    path.write_bytes(b"")


def age(path):
    with closing(sqlite3.connect(path)) as index:
        index.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("harm", [remove, age, *slow(overwrite, cut, empty)])
def test_an_index_that_is_missing_damaged_or_of_another_version_is_made_again(two_runs, harm):
    before = told(two_runs)
    harm(file_of(two_runs))
    assert told(two_runs) == before
    assert told(two_runs) == before


def test_an_index_with_a_damaged_page_is_removed_and_made_again_by_the_next_command(two_runs):
    before, path = told(two_runs), file_of(two_runs)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))
    with pytest.raises(DamagedError, match=r"index\.sqlite was damaged .* removed.*Run again"):
        told(two_runs)
    assert told(two_runs) == before


@pytest.mark.slow
def test_the_index_says_what_the_warehouse_says_in_whatever_order_answers_and_loads_come(folders):
    """A failure keeps the held answer, an older answer changes nothing, and one from a wrong clock gives way to any."""
    folders.state.mkdir(parents=True)
    told_by = [
        (ACME, answer("financials", found(ACME, "financials", period()), offset=0)),
        (BOLT, answer("financials", not_found(BOLT), offset=0, at=NOON + DAY)),
        (ACME, (header("financials", [ACME], kind="given_up", status=None, error="x", at=NOON + 2 * DAY), b"")),
        (BOLT, answer("financials", found(BOLT, "financials", period()), offset=0, at=NOON)),
        (CIRC, answer("financials", found(CIRC, "financials", period()), offset=0, at=NOON + 400 * DAY)),
        (CIRC, answer("financials", not_found(CIRC), offset=0, at=NOON + 5 * DAY)),
    ]
    for day, (company, landed) in enumerate(told_by):
        run = make_run(folders, [company], ["financials"], run_id=f"2026-{day}", at=NOON + day * DAY)
        land(run, landed)
        publish_landed(run, at=NOON + day * DAY + MINUTE)
        told(folders)
        with closing(sqlite3.connect(file_of(folders))) as index:
            said = index.execute(
                "SELECT company, status, record_count, reject_count, fetched_at, name "
                "FROM said JOIN run ON number = said.run ORDER BY company"
            ).fetchall()
        state = query(
            folders,
            "SELECT country, company_number, status, record_count, reject_count, epoch_us(fetched_at), run_id "
            "FROM company_state",
        )
        keys = pl.DataFrame([row[:2] for row in state], ACME._fields, orient="row").select(company_key()).to_series()
        assert said == sorted((key, *row[2:]) for key, row in zip(keys, state, strict=True))
    assert [row[2] for row in sorted(state)] == ["failed", "not_found", "not_found"]


@pytest.mark.slow
def test_an_index_learns_what_landed_since(two_runs):
    second = open_run(two_runs, SECOND)
    told(two_runs)
    charge = {second.plan.names.credits_charged_header.lower(): "3"}
    land(second, (header("financials", [CIRC], kind="no_answer", at=NOON + DAY + MINUTE, headers=charge), b""))
    assert told(two_runs)[2] == 5
    publish_landed(second, at=NOON + DAY + MINUTE)
    state, _, spent = told(two_runs)
    assert (len(state), spent) == (3, 5)


def test_a_folder_that_cannot_be_written_to_is_planned_from_and_keeps_its_files(two_runs, monkeypatch):
    second = open_run(two_runs, SECOND)
    before = told(two_runs)
    publish_landed(second, at=NOON + DAY + MINUTE)
    content = file_of(two_runs).read_bytes()
    monkeypatch.setattr(indexing, "is_writable", lambda folder: False)
    assert len(told(two_runs)[0]) == len(before[0]) + 1
    assert file_of(two_runs).read_bytes() == content


def test_nothing_is_made_where_no_data_folder_is(folders):
    assert held_at(folders, NOON).state.is_empty()
    assert not folders.data.exists()


def test_a_run_that_ended_counts_although_the_generation_lacks_it(two_runs):
    """Somebody points the link back: the later run ended, so it is loaded again before anything is asked."""
    second = open_run(two_runs, SECOND)
    newest = two_runs.warehouse / LINK
    first = newest.readlink()
    publish_landed(second, at=NOON + DAY + MINUTE)
    published = told(two_runs)
    newest.unlink()
    newest.symlink_to(first)
    assert told(two_runs) == published


def test_a_published_run_that_is_lost_counts_as_long_as_the_index_has_read_it(two_runs):
    before = told(two_runs)
    path = log_of(two_runs, "20260105T120000Z-0001", "begun")
    path.write_bytes(path.read_bytes()[::-1])
    assert told(two_runs) == before
    file_of(two_runs).unlink()
    with pytest.raises(DamagedError, match=str(path)):
        told(two_runs)


def test_windows_begin_with_the_first_answer_whatever_the_order_of_reading(folders):
    late = make_run(folders, [ACME], ["financials"], run_id=SECOND, at=NOON + 20 * DAY)
    land(late, answer("financials", found(ACME, "financials", period()), offset=0, at=NOON + 20 * DAY))
    folders.state.mkdir(exist_ok=True)
    assert told(folders, NOON + 31 * DAY)[1] == [tuple(ACME)]
    early = make_run(folders, [ACME], ["financials"])
    land(early, answer("financials", found(ACME, "financials", period()), offset=0))
    assert told(folders, NOON + 31 * DAY)[1] == [], "it began twenty days earlier"


def test_what_is_answered_or_given_up_need_not_be_asked_again_and_a_part_of_a_history_must(folders):
    run = make_run(folders, [ACME, BOLT, CIRC], ["financials"])
    parts = found(ACME, "financials", period(), total=7), found(BOLT, "financials", period()), not_found(CIRC)
    charge = {run.plan.names.credits_charged_header.lower(): "2"}
    land(run, answer("financials", *parts, offset=0, headers=charge))
    settings, listed = Settings(run=RunSettings(datasets=("financials",))), run.companies()
    held = read_held(settings, folders, known_companies(listed, "list.csv"), NOON + DAY)
    assert (held.unfinished.run_id, held.spent_before) == (run.run_id, 2)
    assert names_of(held.answered["company"]).rows() == [tuple(BOLT), tuple(CIRC)]
    assert named(held.paid).select(ACME._fields).rows() == [tuple(ACME), tuple(BOLT)]


def test_a_refused_run_has_bought_what_it_bought_but_said_nothing(two_runs):
    run = open_run(two_runs, SECOND)
    run.finish("refused", "", NOON, vanished_share=2.0)
    held = held_at(two_runs, NOON + 2 * DAY)
    assert (held.state.height, held.paid.height, held.spent) == (2, 2, 2)


def test_an_answer_inside_a_window_begins_none(folders):
    first = make_run(folders, [ACME], ["financials"])
    land(first, answer("financials", found(ACME, "financials", period()), offset=0))
    publish_landed(first)
    for days, is_paid in ((29, False), (30, True)):
        at = NOON + days * DAY
        late = make_run(folders, [ACME], ["financials"], run_id=f"20260{days}", at=at)
        land(late, answer("financials", found(ACME, "financials", period()), offset=0, at=at))
        held = held_at(folders, NOON + 31 * DAY)
        assert named(held.paid).select(ACME._fields).rows() == [tuple(ACME)] * is_paid
