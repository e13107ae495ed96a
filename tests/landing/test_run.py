"""A run on disk: whole or not there, and its damage named."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import polars as pl
import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.files import sha256_of
from firmlake.landing.run import Run, begin, list_runs, new_run_id, open_run, remove_run, remove_unused_lists
from support import ACME, BOLT, NOON, log_of, make_run


def test_a_run_is_read_back_as_it_was_frozen(folders):
    run = make_run(folders, [ACME, BOLT], waiting=[BOLT._replace(company_number="01000005")], refused=[(3, "x", "no")])
    again = open_run(folders, run.run_id)
    assert again == run
    assert again.targets().equals(run.targets())
    assert again.companies().rows() == [tuple(ACME), tuple(BOLT), ("NL", "01000005")]
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


@pytest.mark.parametrize("name", ["targets", "list"])
@pytest.mark.parametrize("harm", ["flip", "remove", "other"])
def test_a_damaged_table_is_named(folders, name, harm):
    """Parquet reads many a flipped bit as another value."""
    run = make_run(folders, refused=[(1, "x", "no")])
    run = Run(folders, msgspec.structs.replace(run.plan, company_list="list.csv"))
    path = run.path(name)
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
        run.targets() if name == "targets" else run.companies()
    assert ("Run its list again, which writes the file anew" in caught.value.next_step) is (name == "list")


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


def test_targets_that_were_replaced_or_left_by_a_crash_go_when_a_run_begins_again(folders):
    run = make_run(folders, [ACME], ["lookalikes"])
    own = folders.landing(run.run_id)
    for name in ("targets-0a1b2c.parquet", "..targets.part.77.part"):
        (own / name).write_text("Ann")
    again = begin(run, run.targets().head(0))
    assert {path.name for path in own.iterdir()} == {"log", again.path("targets").name}
    assert again.path("targets") != run.path("targets")
    assert len(list(folders.log(run.run_id).iterdir())) == 1, "how it began before names targets that are gone"
    assert open_run(folders, run.run_id) == again


def test_a_list_stays_as_long_as_a_run_names_it(folders):
    first, other = make_run(folders, [ACME]), make_run(folders, [ACME], run_id="20260106T120000Z-0002")
    alone = make_run(folders, [BOLT], run_id="20260107T120000Z-0003")
    (folders.lists / ".list-left.part").write_text("x")
    for run in (first, alone):
        remove_run(run)
    remove_unused_lists(folders)
    assert list(folders.lists.iterdir()) == [other.path("list")] == [first.path("list")]
