"""A schema holds one state of one data folder: other folders are refused, what others changed is put right."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.exports.selection import EXPORTED_TABLES
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.replay import replay
from support import ACME, DAY, MINUTE, NOON, answer, found, land, lookalike, make_run, publish_landed, slow

from .test_load import assert_same, deliver, now

TAMPERED = {
    "DELETE FROM firmlake.lookalikes": "lookalikes has 0 rows instead of 1",
    "UPDATE firmlake.financials SET revenue = NULL": "financials has 0 values of revenue instead of 3",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue": "financials has no column revenue",
    "ALTER TABLE firmlake.financials RENAME COLUMN revenue TO turnover": "financials has no column revenue",
    "ALTER TABLE firmlake.financials DROP COLUMN revenue; ALTER TABLE firmlake.financials ADD COLUMN revenue "
    "numeric(18,2)": "financials has 0 values of revenue instead of 3",
    "ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision": "instead of ",
    "DROP TABLE firmlake.runs": "runs is gone",
}


@pytest.fixture
def other(tmp_path) -> Folders:
    """A data folder with a run of its own."""
    folders = Folders(tmp_path / "other")
    run = make_run(folders, [ACME], ["lookalikes"], run_id="20260105T120000Z-ffff", at=NOON)
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike()), at=NOON))
    publish_landed(run, at=NOON + MINUTE)
    return folders


def test_the_schema_of_another_data_folder_is_refused_until_it_is_taken_over(weeks, place, other):
    folders = weeks(0)
    deliver(folders, place)
    for options in ({}, {"is_whole": True}):
        with pytest.raises(FirmlakeError, match="another data folder") as caught:
            deliver(other, place, **options)
        assert "--take-over" in caught.value.next_step
        assert_same(folders, place)
    assert deliver(other, place, takes_over=True).record.mode == "whole"
    assert_same(other, place)
    assert not deliver(other, place).is_new
    with pytest.raises(FirmlakeError, match="20260105T120000Z-ffff"):
        deliver(folders, place)


@pytest.mark.slow
def test_a_newer_load_of_another_data_folder_can_be_taken_over_too(weeks, place, other):
    weeks(0)
    folders = weeks(1)
    deliver(folders, place)
    with pytest.raises(FirmlakeError, match="later copy") as caught:
        deliver(other, place)
    assert "--take-over" in caught.value.next_step
    deliver(other, place, takes_over=True)
    assert_same(other, place)


@pytest.mark.slow
def test_a_data_folder_stays_the_same_after_a_prune_a_replay_and_in_a_restored_copy(weeks, place, tmp_path):
    weeks(0)
    folders = weeks(1)
    deliver(folders, place)
    removable, _ = find_removable(folders, NOON + 30 * DAY, keep_generations=1, landed_days=28)
    prune(folders, removable)
    replay(folders, now, memory_limit="256MB", keep=1)
    assert deliver(folders, place).is_new
    restored = Folders(tmp_path / "restored")
    for name in ("runs", "landing", "staged"):
        shutil.copytree(folders.data / name, restored.data / name)
    replay(restored, lambda: now() + DAY, memory_limit="256MB", keep=1)
    assert deliver(restored, place).is_new
    assert_same(restored, place)
    with pytest.raises(FirmlakeError, match="newer load"):
        deliver(folders, place)


def test_a_plan_that_a_replay_left_out_still_tells_its_data_folder(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    place.ask("UPDATE firmlake._firmlake_loads SET run_id = 'a-plan'")
    with pytest.raises(FirmlakeError, match="a-plan"):
        deliver(folders, place)
    (folders.additions / "plan=a-plan").mkdir(parents=True)
    deliver(folders, place)


@pytest.mark.parametrize("week", [0, *slow(1)])
@pytest.mark.parametrize("change", [*list(TAMPERED)[:1], *slow(*list(TAMPERED)[1:])])
def test_what_others_changed_in_the_target_is_put_right(weeks, place, change, week):
    """Neither does "Already there" follow a change by others (week 0), nor a load of changes (week 1)."""
    folders = weeks(0)
    deliver(folders, place)
    for statement in change.split("; "):
        place.ask(statement)
    if week:
        weeks(week)
    done = deliver(folders, place)
    assert (done.record.mode, done.is_new) == ("whole", True)
    assert TAMPERED[change] in done.note
    assert_same(folders, place)
    assert not deliver(folders, place).is_new


@pytest.mark.slow
def test_a_type_that_others_changed_is_put_right_also_by_a_load_that_is_whole_anyway(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    with place.open() as target:
        before = target.shapes()["financials"]
    place.ask("ALTER TABLE firmlake.financials ALTER COLUMN revenue TYPE double precision")
    deliver(folders, place, is_whole=True)
    with place.open() as target:
        assert target.shapes()["financials"] == before


@pytest.mark.slow
def test_a_column_that_others_added_stays(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    place.ask("ALTER TABLE firmlake.companies ADD COLUMN note text")
    place.ask("UPDATE firmlake.companies SET note = 'ours'")
    assert not deliver(folders, place).is_new
    deliver(folders, place, is_whole=True)
    assert place.ask("SELECT DISTINCT note FROM firmlake.companies") == [("ours",)]


@pytest.mark.slow
def test_a_load_of_fewer_tables_keeps_all_tables_of_the_schema_at_one_generation(weeks, place):
    deliver(weeks(0), place)
    folders, said = weeks(1), []
    done = deliver(folders, place, tables=("companies",), tell=said.append)
    assert (done.record.mode, set(done.record.tables)) == ("changes", set(EXPORTED_TABLES))
    assert "financials" in said[0]
    assert_same(folders, place)


def test_tables_that_an_earlier_firmlake_left_behind_are_loaded_again(weeks, place):
    """It loaded only the tables asked for: the newest record then named fewer tables than the schema has."""
    deliver(weeks(0), place)
    with place.open() as target:
        held = target.held()
        assert held
        fewer = msgspec.json.encode({"companies": held.tables["companies"]}).decode()
    place.ask(
        "INSERT INTO firmlake._firmlake_loads SELECT 'later', loaded_at + INTERVAL '1 second', mode, run_id, "
        f"generation, published_at, made_at, base_generation, schema_version, firmlake_version, '{fewer}', row_counts "
        "FROM firmlake._firmlake_loads"
    )
    folders = weeks(1)
    assert deliver(folders, place).note == "the last load had other tables"
    assert_same(folders, place)


@pytest.mark.slow
def test_a_table_that_others_dropped_and_nobody_asks_for_is_not_made_again(weeks, place):
    folders = weeks(0)
    deliver(folders, place)
    place.ask("DROP TABLE firmlake.runs")
    assert "runs" not in deliver(folders, place, tables=("companies",)).record.tables
    assert not deliver(folders, place, tables=("companies",)).is_new
    with place.open() as target:
        assert "runs" not in target.shapes()
