"""Pruning: what is old goes, and nothing that anybody still needs."""

from __future__ import annotations

import os
import shutil

import pytest
from msgspec.structs import replace

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.landing.segments import read_segment
from firmlake.rebuild import prune as pruning
from firmlake.rebuild.prune import find_pinned, find_removable, prune
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import content_hashes, verify
from firmlake.tables.index import drop_index
from firmlake.warehouse.generations import newest, open_warehouse
from lake import Lake
from support import ACME, DAY, MINUTE, NOON, answer, export, found, held_at, land, lookalike, make_run, publish_landed

RUNS = [f"2026010{5 + day}T120000Z-000{day}" for day in range(3)]
NOW = NOON + 30 * DAY + MINUTE
OLD = 28  # days: older are the first two runs, and the third is exactly as old


def add_run(folders, day, keep=9):
    run = make_run(folders, [ACME], ["lookalikes"], run_id=RUNS[day], at=NOON + day * DAY)
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike(score=0.1 * (day + 1))), at=run.plan.started_at))
    publish_landed(run, at=run.plan.started_at + MINUTE, keep=keep)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("three"))
    for day in range(3):
        add_run(folders, day)
    return folders


@pytest.fixture
def three(made, folders):
    shutil.copytree(made.data, folders.data, symlinks=True)
    return folders


def removable(folders, **limits):
    return find_removable(folders, NOW, **{"keep_generations": 9, **limits})[0]


def replayed(folders):
    return replay(folders, lambda: NOW, settings=RunSettings(keep_generations=9))


def planned(folders):
    drop_index(folders)
    return held_at(folders, NOON + 20 * DAY).paid


def records(folder):
    return [each for path in sorted(folder.glob("shard=*/*.zst")) for each in read_segment(path)]


def bodies(folder):
    return [each.body_frame for each in records(folder) if each.body_frame]


def names(found):
    return [(each.kind, each.path.name) for each in found]


def hashes(folders):
    with open_warehouse(folders) as connection:
        held = content_hashes(connection)
    held.pop("loads")
    return held


@pytest.mark.slow
def test_without_ages_only_generations_beyond_the_kept_ones_go(three):
    found = removable(three, keep_generations=2)
    assert names(found) == [("generation", "gen_000001.duckdb")]
    assert found[0].byte_count == found[0].path.stat().st_size
    prune(three, found, NOW)
    assert [path.name for path in sorted(three.warehouse.glob("gen_*"))] == ["gen_000002.duckdb", "gen_000003.duckdb"]


def test_a_look_changes_nothing(three):
    before = sorted(three.data.rglob("*"))
    assert removable(three, keep_generations=1, staged_days=0, landed_days=0)
    assert sorted(three.data.rglob("*")) == before


@pytest.mark.slow
def test_the_generation_that_changes_start_from_stays(folders, tmp_path):
    add_run(folders, 0)
    export(folders, Request(mode="changes"), Folder(tmp_path / "out"))
    assert find_pinned(folders, keep_generations=1) == []  # it is the newest
    for day in (1, 2):
        add_run(folders, day, keep=1)
    assert names(removable(folders, keep_generations=1)) == []
    [pinned] = find_pinned(folders, keep_generations=1)
    assert (pinned.generation.name, pinned.target) == ("gen_000001.duckdb", str(tmp_path / "out"))
    kept = pinned.record.rename(tmp_path / "record.json")
    assert names(removable(folders, keep_generations=1)) == [("generation", "gen_000001.duckdb")]
    kept.rename(pinned.record)
    assert export(folders, Request(mode="changes"), Folder(tmp_path / "out")).record.mode == "changes"
    assert names(removable(folders, keep_generations=1)) == [("generation", "gen_000001.duckdb")]


@pytest.mark.parametrize("kind", [pytest.param("staged", marks=pytest.mark.slow), "landed"])
def test_old_runs_go_and_replay_and_verify_give_the_same(three, kind):
    expected, paid = hashes(three), held_at(three, NOON + 20 * DAY).paid.rows()
    found = removable(three, **{f"{kind}_days": OLD})
    assert names(found) == [(kind, f"run={RUNS[0]}"), (kind, f"run={RUNS[1]}")]
    prune(three, found, NOW)
    assert not any(bodies(each.path) if each.kind == "landed" else each.path.exists() for each in found)
    assert names(removable(three, staged_days=OLD, landed_days=OLD)) == []  # of each run the other one stays
    assert paid
    for _ in range(2):  # also where the index over the log is made again
        assert held_at(three, NOON + 20 * DAY).paid.rows() == paid, "what was bought is known without its answers"
        drop_index(three)
    runs = []
    assert all(check.agrees for check in verify(three, lambda: NOW, on_run=runs.append))
    assert sorted(run.is_pruned for run in runs) == ([False, True, True] if kind == "landed" else [False] * 3)
    replay(three, lambda: NOW, settings=RunSettings(keep_generations=9))
    assert hashes(three) == expected


def test_of_pruned_answers_the_headers_stay_in_frames_of_their_own(three):
    folder = three.landing(RUNS[0])
    before = records(folder)
    [one] = [each for each in removable(three, landed_days=OLD) if each.path == folder]
    assert one.byte_count == sum(len(each.body_frame) for each in before)
    prune(three, [one], NOW)
    assert [each.header for each in records(folder)] == [replace(each.header, body_sha256="") for each in before]
    assert all(each.header.body_bytes for each in records(folder)), "how long it was is known"
    with pytest.raises(DamagedError, match=r"00001\.zst, byte 0: the body was pruned"):
        _ = records(folder)[0].body


def test_after_a_prune_and_without_an_index_nothing_is_bought_again(sandbox, tmp_path):
    """Also a company that is no longer fresh is free inside its window."""
    lake = Lake(tmp_path, sandbox, 5, run__refresh_after_days=0)
    lake.run()
    before = lake.call("plan", str(lake.list), "--json").content
    assert before["credits"] == 0
    assert before["target_count"]
    pruned = lake.call("prune", "--landed-days", "0", "--json").content
    assert [each["kind"] for each in pruned["removable"]] == ["landed"]
    drop_index(lake.folders)
    assert lake.call("plan", str(lake.list), "--json").content == before


@pytest.mark.slow
def test_what_was_given_up_and_is_damaged_is_told_not_left_out(three):
    """Planning reads only what it needs. There is a way on without the run."""
    prune(three, removable(three, landed_days=OLD), NOW)
    for table, needs in (("lookalikes", [replayed]), ("companies", [planned])):
        assert planned(three).height
        path = next(three.staged(RUNS[0]).glob(f"{table}/*.parquet"))
        path.unlink()
        for call in needs:
            with pytest.raises(DamagedError, match=str(path)) as caught:
                call(three)
    ways = [three.landing(RUNS[0]), three.staged(RUNS[0]), three.warehouse]
    assert all(str(way) in caught.value.next_step for way in ways)
    for way in ways:
        shutil.rmtree(way)
    replayed(three)
    assert planned(three).height


def test_a_run_that_is_not_in_the_warehouse_keeps_all(three):
    shutil.rmtree(three.warehouse)
    assert removable(three, staged_days=0, landed_days=0) == []


@pytest.mark.slow
def test_a_killed_prune_is_finished_by_the_next(three, monkeypatch):
    found = removable(three, keep_generations=1, landed_days=OLD)

    def dies(path, records):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pruning, "rewrite_segment", dies)
        with pytest.raises(KeyboardInterrupt):
            prune(three, found, NOW)
    assert bodies(three.landing(RUNS[0])), "it was killed after its mark"
    prune(three, removable(three, keep_generations=1, landed_days=OLD), NOW)
    assert not bodies(three.landing(RUNS[0]))
    assert removable(three, keep_generations=1, landed_days=OLD) == []
    assert newest(three).exists()
    assert all(check.agrees for check in verify(three, lambda: NOW))


def test_an_old_copy_of_a_list_goes_unless_an_unfinished_run_has_its_name(three):
    unfinished = make_run(three, [ACME], run_id="20260120T120000Z-0009")
    for folder, name in (("a", "query.parquet"), ("b", unfinished.plan.list_name)):
        (three.inputs / folder).mkdir(parents=True)
        (three.inputs / folder / name).write_text("kept")
        os.utime(three.inputs / folder / name, (NOON.timestamp(), NOON.timestamp()))
    assert ("list", "a") not in names(removable(three))
    assert [each for each in names(removable(three, staged_days=OLD)) if each[0] == "list"] == [("list", "a")]
    prune(three, removable(three, staged_days=OLD), NOW)
    assert [path.name for path in three.inputs.iterdir()] == ["b"]
