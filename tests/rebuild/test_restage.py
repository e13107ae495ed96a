"""Records that were held when a run was frozen are not staged; whatever the warehouse holds later, none is missing."""

from __future__ import annotations

import shutil
from functools import partial

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.rebuild.finished import finished_runs
from firmlake.rebuild.prune import find_spared, prune
from firmlake.rebuild.replay import replay as _replay
from firmlake.rebuild.verify import content_hashes, verify
from firmlake.tables.stage import finish_stage, read_manifest, stage_shard
from firmlake.warehouse.generations import newest, open_warehouse
from firmlake.warehouse.load import load_run
from firmlake.warehouse.publish import publish
from support import (
    ACME,
    BOLT,
    CIRC,
    DATASETS,
    DAY,
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
)

EVERYBODY = (ACME, BOLT, CIRC)
LIMITS = {"now": lambda: NOON + 40 * DAY, "memory_limit": "100MB"}
SCORES = "SELECT country, score::DOUBLE FROM lookalikes ORDER BY country"
replay = partial(_replay, **LIMITS, keep=9)

# What a company may say; the same letter is the same answer, and of that of "x" one record cannot be read.
SAYINGS = {
    "a": {"financials": [period()], "lookalikes": [lookalike()], "relationships": [party()]},
    "b": {"financials": [period(), period(2023)], "lookalikes": [lookalike(score=0.5)], "relationships": [party(CIRC)]},
    "x": {"financials": [period(), 5], "lookalikes": [lookalike(), 5], "relationships": [party(), 5]},
    "v": {
        "financials": [
            {**period(), "people": {"employees": 12, "employeeMaleRatio": None, "employeeFemaleRatio": None}}
        ]
    },
    "-": {"financials": [], "lookalikes": [], "relationships": []},
}


class History:
    """Runs over the same three companies, each of which is frozen and later answered and loaded."""

    def __init__(self, folders, datasets=("lookalikes",)):
        self.folders, self.datasets, self.runs, self.clock = folders, datasets, {}, NOON

    def freeze(self, name, **options):
        self.clock += DAY
        run_id = f"{self.clock:%Y%m%dT%H%M%SZ}-000{name}"
        self.runs[name] = make_run(self.folders, EVERYBODY, self.datasets, run_id=run_id, at=self.clock, **options)

    def end(self, name, sayings):
        """Land what companies say, and load the run."""
        publish_landed(self.land(name, sayings), at=self.clock, keep=9)

    def land(self, name, sayings):
        """Let each company say what its letter means, `!` fail and `?` be not found."""
        self.clock += DAY
        run, told = self.runs[name], dict(zip(EVERYBODY, sayings, strict=True))
        for dataset in self.datasets:
            failed = header(dataset, [c for c in told if told[c] == "!"], kind="given_up", status=None, error="x")
            elements = [
                not_found(c, dataset) if letter == "?" else found(c, dataset, *SAYINGS[letter][dataset])
                for c, letter in told.items()
                if letter != "!"
            ]
            heard = [answer(dataset, *elements, at=self.clock, offset=0)] if elements else []
            land(run, (msgspec.structs.replace(failed, fetched_at=self.clock), b""), *heard)
        return run

    def week(self, name, sayings):
        self.freeze(name)
        self.end(name, sayings)

    def lose(self, name):
        """Remove a run as one is told to that cannot be read; the warehouse goes as well."""
        run_id = self.runs[name].run_id
        for folder in (self.folders.run(run_id), self.folders.landing(run_id, 1).parent, self.folders.warehouse):
            shutil.rmtree(folder, ignore_errors=True)

    def is_whole(self, name):
        return read_manifest(self.runs[name]).is_whole

    def staged(self, name, table):
        """The companies of which a run staged rows."""
        frame = pl.read_parquet(self.folders.staged(self.runs[name].run_id) / table / "*.parquet")
        return set(frame.select("country", "company_number").iter_rows())


@pytest.fixture
def history(folders):
    return History(folders)


def content(folders, without=()):
    with open_warehouse(folders) as connection:
        return {name: found for name, found in content_hashes(connection).items() if name not in ("loads", *without)}


def assert_nothing_is_missing(folders, aside):
    """The warehouse is what the same runs give, loaded in the same order, when all their records are staged."""
    order = [run_id for (run_id,) in query(folders, "SELECT run_id FROM loads ORDER BY generation")]
    again = Folders(folders.data, made=aside)
    staged = [
        (run, finish_stage(run, [stage_shard(run, shard, is_whole=True) for shard in run.shards()]), outcome)
        for run, outcome in finished_runs(again, order)
        if run.run_id in order
    ]

    def load(connection, number):
        for run, manifest, outcome in staged:
            load_run(connection, run, manifest, outcome, number, NOON)

    publish(again, load, memory_limit="100MB", keep=1)
    looked_at = ("rejects", "drift")  # they are about the records that were staged
    assert content(folders, looked_at) == content(again, looked_at)


def test_only_what_changed_is_staged(folders, tmp_path):
    history = History(folders, DATASETS)
    history.week("0", "aax")
    history.week("1", "abx")
    tables = {table: history.staged("1", table) for table in (*DATASETS, "rejects", "company_state")}
    # Records that were rejected are read again; of related parties none is.
    assert tables == {name: {BOLT, CIRC} for name in DATASETS} | {
        "relationships": {BOLT},
        "rejects": {CIRC},
        "company_state": set(EVERYBODY),
    }
    assert not history.is_whole("1")
    assert_nothing_is_missing(folders, tmp_path / "whole")
    assert all(check.agrees for check in verify(folders, **LIMITS))


def test_a_run_is_staged_whole_where_the_warehouse_changed_meanwhile(history, folders):
    history.week("0", "ab-")
    history.freeze("1")
    history.week("2", "bb-")
    history.end("1", "ab-")
    assert history.is_whole("1")
    assert query(folders, SCORES) == [("BE", 0.75), ("NL", 0.5)]


@pytest.mark.slow
def test_a_run_that_was_staged_whole_is_verified_and_replayed_like_that(history, folders):
    history.week("0", "ab-")
    history.freeze("1")
    history.week("2", "bb-")
    history.end("1", "ab-")
    assert all(check.agrees for check in verify(folders, **LIMITS))
    before = content(folders)
    replay(folders)
    assert (content(folders), history.is_whole("1")) == (before, True)


def test_a_replay_without_the_first_run_has_what_the_second_left_out(history, folders):
    history.week("0", "ab-")
    history.week("1", "aa-")
    assert history.staged("1", "lookalikes") == {BOLT}
    history.lose("0")
    replay(folders)
    assert query(folders, SCORES) == [("BE", 0.75), ("NL", 0.75)]


@pytest.mark.slow
def test_what_an_earlier_version_froze_is_staged_whole(history, folders):
    history.week("0", "ab-")
    history.freeze("1", knows_held=False)
    history.end("1", "ab-")
    assert history.staged("1", "lookalikes") == {ACME, BOLT}


def test_a_shard_staged_the_other_way_is_staged_again(history):
    history.week("0", "aaa")
    history.freeze("1")
    run = history.land("1", "aaa")
    counts = [
        sum(file.row_count for file in stage_shard(run, 1, is_whole=is_whole).files if file.table == "lookalikes")
        for is_whole in (True, False, True)
    ]
    assert counts == [3, 0, 3]


@pytest.mark.slow
def test_a_pruned_run_whose_left_out_records_are_lost_is_named(history, folders):
    """Its landed answers are gone, so that nobody has them any more; no warehouse without them passes for whole."""
    history.week("0", "ab-")
    history.week("1", "aa-")
    spared, _ = find_spared(folders, NOON + 40 * DAY, keep_generations=9, landed_days=0)
    assert [each.kind for each in spared] == ["landed", "landed"]
    prune(folders, spared)
    before = content(folders)
    replay(folders)
    assert content(folders) == before
    history.lose("0")
    with pytest.raises(DamagedError, match=f"{history.runs['1'].run_id} cannot be loaded"):
        replay(folders)
    assert newest(folders) is None


@pytest.mark.reliability
@pytest.mark.timeout(1200)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    runs=st.lists(st.text("aabbx-?!", min_size=3, max_size=3), min_size=2, max_size=4),
    late=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    lost=st.none() | st.integers(0, 3),
)
def test_in_whatever_order_runs_are_frozen_loaded_and_lost_nothing_is_missing(runs, late, lost, tmp_path_factory):
    """Each run is loaded after so many later ones were frozen, or loaded themselves."""
    folder = tmp_path_factory.mktemp("orders")
    history = History(Folders(folder / "data"))
    turns = sorted(range(len(runs)), key=lambda number: number + late[number])
    for turn, number in enumerate(turns):
        for frozen in range(len(history.runs), max(turns[: turn + 1]) + 1):
            history.freeze(str(frozen))
        history.end(str(number), runs[number])
    assert_nothing_is_missing(history.folders, folder / "whole")
    if lost is not None and lost < len(runs):
        history.lose(str(lost))
        replay(history.folders)
        assert_nothing_is_missing(history.folders, folder / "whole again")
