"""A run on disk: whole or not there, and its damage named."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import polars as pl
import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.files import sha256_of
from firmlake.landing.run import freeze_again, freeze_run, list_runs, new_run_id, open_run
from support import ACME, BOLT, NOON, log_of, make_run


def test_a_run_is_read_back_as_it_was_frozen(folders):
    run = make_run(folders, [ACME, BOLT], waiting=[BOLT._replace(company_number="01000005")], refused=[(3, "x", "no")])
    again = open_run(folders, run.run_id)
    assert again == run
    assert again.targets().equals(run.targets())
    assert again.table("refused_lines").rows() == [(3, "x", "no")]
    assert again.targets(1)["company_number"].unique(maintain_order=True).to_list() == [
        c.company_number for c in (ACME, BOLT)
    ]


def test_shards_are_numbered_from_1_and_0_holds_what_a_budget_left_out(folders):
    assert list(make_run(folders, [ACME, BOLT], shard_companies=1).shards()) == [1, 2]
    assert list(make_run(folders, [ACME], waiting=[BOLT]).shards()) == [0, 1]
    assert list(make_run(folders, [], waiting=[BOLT]).shards()) == [0]
    assert list(make_run(folders, []).shards()) == []


def test_a_frozen_table_is_hashed_once_for_all_shards(folders, monkeypatch):
    run, hashed = make_run(folders, [ACME, BOLT], shard_companies=1), []
    monkeypatch.setattr("firmlake.landing.run.sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    assert [run.targets(shard).height for shard in (1, 2)] == [3, 3]
    assert len(hashed) == 1


def test_a_run_killed_before_its_plan_was_written_is_none(folders):
    log_of(folders, make_run(folders).run_id, "begun").write_bytes(b"")
    assert list_runs(folders) == []


def test_runs_are_listed_by_the_time_they_started(folders):
    for run_id in ("20260106T000000Z-0000", "20251231T000000Z-ffff", "20260105T235959Z-9999"):
        make_run(folders, run_id=run_id)
    assert [run.run_id[:8] for run in list_runs(folders)] == ["20251231", "20260105", "20260106"]


def test_names_of_runs_sort_by_time_and_do_not_meet():
    names = [new_run_id(NOON + timedelta(seconds=number)) for number in range(100)]
    assert names == sorted(names)
    assert len({new_run_id(NOON) for _ in range(20)}) > 15


@pytest.mark.parametrize("name", ["targets", "companies", "refused_lines"])
@pytest.mark.parametrize("harm", ["flip", "remove", "other"])
def test_a_damaged_table_is_named(folders, name, harm):
    """Parquet reads many a flipped bit as another value."""
    run = make_run(folders, refused=[(1, "x", "no")])
    path = run.folder / f"{name}.parquet"
    match harm:
        case "flip":
            content = bytearray(path.read_bytes())
            content[len(content) // 3] ^= 1
            path.write_bytes(content)
        case "remove":
            path.unlink()
        case "other":
            pl.read_parquet(path).head(0).write_parquet(path)
    with pytest.raises(DamagedError, match=str(path)) as caught:
        run.targets() if name == "targets" else run.table(name)
    assert caught.value.next_step


@pytest.mark.parametrize("place", [0, 20, 100, -1])
@pytest.mark.parametrize("kind", ["begun", "ended"])
def test_a_damaged_record_of_the_log_is_named(folders, kind, place):
    """An end that cannot be read must not look like a run that has not ended."""
    run = make_run(folders)
    run.finish("done", "", NOON)
    path = log_of(folders, run.run_id, kind)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=str(path)):
        open_run(folders, run.run_id).outcome()


def test_an_outcome_is_read_back_and_there_is_none_before(folders):
    run = make_run(folders)
    assert run.outcome() is None
    ended = run.finish("some_failed", "3 companies failed", NOON)
    assert open_run(folders, run.run_id).outcome() == ended
    assert (ended.outcome, ended.reason, ended.finished_at) == ("some_failed", "3 companies failed", NOON)


def test_a_run_that_cannot_be_frozen_whole_is_none(folders):
    run = make_run(folders)
    plan = msgspec.structs.replace(run.plan, run_id="20260106T120000Z-0002")
    with pytest.raises(TypeError):
        freeze_run(folders, plan, run.targets(), {"companies": None})
    assert list_runs(folders) == [run]


def test_replaced_tables_and_those_that_a_crash_left_go_when_tables_are_frozen_again(folders):
    run = make_run(folders, [ACME], ["lookalikes"])
    run = freeze_again(run, run.plan, {"members": pl.DataFrame({"name": ["Ann"]})})
    for name in ("members-0a1b2c.parquet", ".members-0a1b2c.parquet.77.part"):
        (run.folder / name).write_text("Ann")
    again = freeze_again(run, run.plan, {"members": pl.DataFrame({"name": ["Els"]})})
    kept = {path.name for path in again.folder.iterdir()}
    named = {again.plan.files.get(name, f"{name}.parquet") for name in again.plan.sha256}
    assert kept == named
    assert len(list(folders.log(run.run_id).iterdir())) == 1, "how it began before names tables that are gone"
    assert all(sha256_of(again.checked(name)) == sha256 for name, sha256 in again.plan.sha256.items())
    assert run.plan.files["members"] not in kept
