"""A file that is not what was written is named by every command that relies on it, and nothing is changed or lost."""

from __future__ import annotations

import shutil

import pytest

from firmlake.core.errors import DamagedError
from firmlake.delivery.destination import open_destination
from firmlake.landing.run import open_run
from firmlake.rebuild.archive import archive
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import check_unchanged, verify
from firmlake.warehouse.generations import newest
from support import BOLT, DAY, NOON, answer, found, land, make_run, query, slow

from .conftest import FIRST, SECOND

NOW = NOON + 30 * DAY


def clock():
    return NOW


def raised(call, *arguments, **options):
    with pytest.raises(DamagedError) as caught:
        call(*arguments, **options)
    return caught.value


def named_by_prune(folders, **days):
    """A damaged run keeps all, and the other is pruned."""
    found, damaged = find_removable(folders, NOW, keep_generations=9, **days)
    assert f"run={FIRST}" not in [each.path.name for each in found]
    return damaged[FIRST]


def named_by_archive(folders):
    target = open_destination(str(folders.data.parent / "archive"))
    done = archive(folders, target)
    assert FIRST not in done.runs
    assert f"landing/run={FIRST}/log/00002.zst" not in target.sizes("landing")
    return done.damaged[FIRST]


# What names a file that is damaged or gone, and of what it says that it is lost.
COMMANDS = {
    "verify": lambda folders: raised(verify, folders, clock),
    "verify --files": lambda folders: raised(check_unchanged, folders, memory_limit="100MB"),
    "replay": lambda folders: raised(replay, folders, clock),
    "archive": named_by_archive,
    "prune staged": lambda folders: named_by_prune(folders, staged_days=1),
    "prune landed": lambda folders: named_by_prune(folders, landed_days=1),
}
PROOFS = ("verify", "verify --files")
FILES = {
    f"landing/run={FIRST}/shard=00001/00001.zst": COMMANDS,
    f"landing/run={FIRST}/log/00001.zst": COMMANDS,
    f"landing/run={FIRST}/log/00002.zst": (*PROOFS, "replay", "archive"),
    f"landing/run={FIRST}/targets-*.parquet": COMMANDS,
    "landing/lists/*.parquet": COMMANDS,
    f"staged/run={FIRST}/financials/*.parquet": (*PROOFS, "prune landed"),
    f"staged/run={FIRST}/manifest.json": PROOFS,
    "warehouse/gen_000002.duckdb": PROOFS,
}
_USUAL = [f"landing/run={FIRST}/shard=00001/00001.zst", f"staged/run={FIRST}/financials/*.parquet"]


@pytest.mark.parametrize("harm", ["flip", *slow("remove")])
@pytest.mark.parametrize("pattern", [*_USUAL, *slow(*(name for name in FILES if name not in _USUAL))])
def test_a_file_that_was_changed_or_removed_is_named_and_nothing_is_made_of_the_rest(two_runs, pattern, harm):
    """Neither may look like answers that never came, or a replay would make the loss the truth."""
    (path,) = two_runs.data.glob(pattern)
    content = path.read_bytes()
    path.unlink()
    if harm == "flip":
        path.write_bytes(bytes(byte ^ 1 for byte in content))
    kept = {path for path in two_runs.data.rglob("*") if path.is_file() and "state" not in path.parts}
    for command in FILES[pattern]:
        error = COMMANDS[command](two_runs)
        assert str(path) in error.message or str(path.parent) in error.message, command
        assert error.next_step, command
        assert kept <= set(two_runs.data.rglob("*")), command


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "replay"])
def test_one_can_do_without_a_damaged_segment_on_purpose(two_runs, command):
    """By the steps that the error names, whichever command finds it."""
    path = min(two_runs.landing(FIRST, 1).glob("*.zst"))
    path.write_bytes(path.read_bytes()[::-1])
    step = COMMANDS[command](two_runs).next_step
    assert f"remove it and {two_runs.staged(FIRST)}, then run `firmlake replay`" in step
    path.unlink()
    shutil.rmtree(two_runs.staged(FIRST))
    replay(two_runs, clock)
    assert all(check.agrees for check in verify(two_runs, clock))


@pytest.mark.slow
def test_one_can_do_without_a_lost_run_on_purpose(two_runs):
    next(two_runs.log(SECOND).glob("00001.zst")).write_bytes(b"")
    step = COMMANDS["replay"](two_runs).next_step
    for folder in (two_runs.landing(SECOND), two_runs.warehouse):
        assert str(folder) in step
        shutil.rmtree(folder)
    replay(two_runs, clock)
    assert query(two_runs, "SELECT run_id FROM runs") == [(FIRST,)]


def test_all_files_are_counted_and_left_as_they_are(two_runs):
    """Also answers of a run that has not ended. Markers of shards are only hints for staging."""
    path = land(make_run(two_runs, [BOLT], run_id="open"), answer("lookalikes", found(BOLT, "lookalikes")))
    checked = {
        *two_runs.landed.rglob("*.zst"), *(two_runs.data / "staged").rglob("*.parquet"), newest(two_runs),
        *two_runs.landed.glob("run=2026*/*.parquet"), open_run(two_runs, FIRST).path("list"),
    }  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in two_runs.data.rglob("*")}
    counted = check_unchanged(two_runs, memory_limit="100MB")
    assert (counted.runs, counted.files) == (2, len(checked))
    assert counted.bytes == sum(path.stat().st_size for path in checked)
    assert {path: path.stat().st_mtime_ns for path in two_runs.data.rglob("*")} == before
    path.write_bytes(path.read_bytes()[::-1])
    assert str(path) in COMMANDS["verify --files"](two_runs).message


@pytest.mark.slow
@pytest.mark.parametrize("days", [{"landed_days": 1}, {"staged_days": 1}], ids=["landed", "staged"])
def test_what_was_pruned_is_not_missed(two_runs, days):
    prune(two_runs, find_removable(two_runs, NOW, keep_generations=5, **days)[0], NOW)
    assert check_unchanged(two_runs, memory_limit="100MB").runs == 2
