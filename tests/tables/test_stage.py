"""Staging: what landed becomes files that say what they hold and came from, the same every time."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.files import read_json, sha256_of, write_json
from firmlake.tables import flatten
from firmlake.tables.flatten import flatten_shard
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.tables.stage import (
    Manifest,
    check_staged,
    read_manifest,
    stage_shard,
    stage_shards,
)
from support import (
    ACME,
    BOLT,
    CIRC,
    DATASETS,
    STAGED,
    answer,
    found,
    header,
    land,
    lookalike,
    make_run,
    party,
    period,
    stage,
)

RECORDS = {"financials": period(), "lookalikes": lookalike(), "relationships": party()}


def land_all(run, companies=(ACME, BOLT, CIRC), **values):
    return land(
        run,
        *(answer(name, *(found(c, name, RECORDS[name]) for c in companies), offset=0, **values) for name in DATASETS),
    )


def content_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run(folders):
    run = make_run(folders, refused=[(3, "BE 1", "wrong length")])
    land_all(run)
    return run


# --- the tables ------------------------------------------------------------------------------------------------------


def test_every_table_has_its_own_shape_even_when_nothing_landed(folders):
    tables = dict(flatten_shard(make_run(folders), 1))
    assert tables.keys() == STAGED - {"refused_lines"}
    for name, frame in tables.items():
        assert frame.schema == polars_schema(TABLES[name])
        assert frame.height == {"company_state": 9, "companies": 3}.get(name, 0)


@pytest.mark.parametrize("name", sorted(STAGED))
def test_the_key_of_a_table_names_one_row(folders, name):
    """With everything twice that can be there twice."""
    run = make_run(folders, refused=[(1, "a", "x"), (2, "a", "x")])
    mess = {
        "financials": found(ACME, "financials", period(), period(), period(2020), 5, 5),
        "lookalikes": found(ACME, "lookalikes", lookalike(), lookalike(), 5, 5),
        "relationships": found(ACME, "relationships", party(), party(), party(None), 5, 5),
    }
    mess["relationships"]["data"]["children"] = [party(), party(), 5, 5, {"unheardOf": 1}]
    failed = [(header(dataset, [CIRC], kind="given_up", status=None, error="x"), b"") for dataset in DATASETS]
    land(run, *(answer(name, element, found(BOLT, name), offset=0) for name, element in mess.items()), *failed)
    stage(run)
    files = list((run.folders.staged(run.run_id) / name).glob("*.parquet"))
    frame = pl.concat(pl.read_parquet(path) for path in files)
    assert frame.height > 0
    assert frame.select(TABLES[name].key).is_duplicated().sum() == 0


# --- the files -------------------------------------------------------------------------------------------------------


def test_staging_twice_gives_the_same_bytes(run, folders):
    stage(run)
    first = content_of(folders.staged(run.run_id))
    for path in folders.staged(run.run_id).rglob("*.*"):
        path.unlink()
    stage(run)
    assert content_of(folders.staged(run.run_id)) == first
    assert len(first) > 12


def test_the_manifest_tells_each_file_and_each_segment(run, folders):
    manifest = stage(run)
    folder = folders.staged(run.run_id)
    assert {file.path for file in manifest.files} == {str(p.relative_to(folder)) for p in folder.rglob("*.parquet")}
    for file in manifest.files:
        path = folder / file.path
        assert (file.sha256, file.byte_count) == (sha256_of(path), path.stat().st_size)
        assert file.row_count == pl.read_parquet(path).height
        assert file.path.startswith(f"{file.table}/")
    [segment] = folders.landing(run.run_id, 1).iterdir()
    assert manifest.segments == {str(segment.relative_to(folders.data)): sha256_of(segment)}
    assert read_manifest(run) == manifest


def test_what_is_staged_and_whole_is_not_made_again(run, monkeypatch):
    first = stage_shard(run, 1)
    monkeypatch.setattr(flatten, "flatten_shard", lambda *_: pytest.fail("made again"))
    assert stage_shard(run, 1) == first


@pytest.mark.parametrize("harm", ["remove", "change", "marker removed", "marker cut", "marker changed", "older schema"])
def test_what_is_harmed_is_made_again(run, folders, harm):
    whole = stage_shard(run, 1)
    folder = folders.staged(run.run_id)
    marker, table = folder / "shard=00001.json", folder / "lookalikes" / "shard=00001.parquet"
    match harm:
        case "remove":
            table.unlink()
        case "change":
            content = bytearray(table.read_bytes())
            content[len(content) // 2] ^= 1
            table.write_bytes(content)
        case "marker removed":
            marker.unlink()
        case "marker cut":
            marker.write_bytes(marker.read_bytes()[:50])
        case "marker changed":
            marker.write_bytes(marker.read_bytes().replace(b"lookalikes", b"lookalik\xff\xff"))
        case "older schema":
            write_json(marker, {"schema_version": 0, "run_id": run.run_id, "files": [], "segments": {}})
    assert stage_shard(run, 1) == whole
    check_staged(run, whole)
    assert read_json(marker, Manifest) == whole


def test_when_more_has_landed_the_shard_is_staged_anew(folders):
    run = make_run(folders, [ACME], ["lookalikes"])
    before = stage_shard(run, 1)
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
    after = stage_shard(run, 1)
    assert (len(before.segments), len(after.segments)) == (0, 1)
    assert sum(file.row_count for file in after.files if file.table == "lookalikes") == 1


def test_a_run_with_nothing_to_ask_is_staged_too(folders):
    run = make_run(folders, [])
    assert [file.table for file in stage(run).files] == ["refused_lines"]


@pytest.mark.slow
def test_processes_stage_what_one_would_and_say_what_is_damaged(folders):
    run = make_run(folders, [ACME], ["lookalikes"], waiting=[BOLT])
    path = land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
    alone = stage_shards(run)
    shutil.rmtree(folders.staged(run.run_id))
    assert stage_shards(run, processes=2) == alone
    path.write_bytes(path.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"))
    with pytest.raises(DamagedError) as caught:
        stage_shards(run, processes=2)
    assert path.name in caught.value.message
    assert caught.value.next_step
