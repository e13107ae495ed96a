"""Every file that has a checksum is compared with it, and the one that differs is named."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.rebuild.prune import find_removable, prune
from firmlake.rebuild.verify import check_unchanged
from firmlake.warehouse.generations import newest
from support import ACME, DATASETS, DAY, MINUTE, NOON, answer, found, land, make_run, period, publish_landed

unchanged = partial(check_unchanged, memory_limit="100MB")
LOADED, UNLOADED = "20260105T120000Z-0001", "20260106T120000Z-0002"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A run in the warehouse, and one that has not ended."""
    folders = Folders(tmp_path_factory.mktemp("unchanged"))
    for run_id in (LOADED, UNLOADED):
        run = make_run(folders, run_id=run_id, refused=[(7, "x", "no number")])
        for dataset in DATASETS:
            records = (period(),) if dataset == "financials" else ()
            land(run, answer(dataset, found(ACME, dataset, *records)))
        if run_id == LOADED:
            publish_landed(run, at=NOON + MINUTE)
    return folders


@pytest.fixture
def lake(made, folders):
    """A copy of them, to be harmed."""
    shutil.copytree(made.data, folders.data, symlinks=True)
    return folders


def checked(folders):
    """List what has a checksum of its own; markers of shards are only hints for staging."""
    return {
        *(folders.data / "landing").rglob("*.zst"),
        *folders.staged(LOADED).rglob("*.parquet"),
        *folders.lists.iterdir(),
        *folders.landing(LOADED).glob("*.parquet"),
        newest(folders),
    }


def test_all_files_are_counted_and_left_as_they_are(lake):
    before = {path: path.stat().st_mtime_ns for path in lake.data.rglob("*")}
    found = unchanged(lake)
    assert (found.runs, found.files) == (1, len(checked(lake)))
    assert found.bytes == sum(path.stat().st_size for path in checked(lake))
    assert {path: path.stat().st_mtime_ns for path in lake.data.rglob("*")} == before


@pytest.mark.parametrize("harm", ["flip", "remove"])
@pytest.mark.parametrize(
    "pattern",
    [
        "landing/*01/shard=*/00001.zst",
        "staged/*/financials/*.parquet",
        "staged/*/manifest.json",
        "landing/*01/log/00001.zst",
        "landing/*01/log/00002.zst",
        "landing/*01/targets-*.parquet",
        "warehouse/gen_*",
    ],
)
def test_a_file_that_was_changed_or_removed_is_named(lake, pattern, harm):
    (path,) = lake.data.glob(pattern)
    content = path.read_bytes()
    path.unlink()
    if harm == "flip":
        path.write_bytes(b"".join(bytes([byte ^ 1]) for byte in content))
    with pytest.raises(DamagedError) as caught:
        unchanged(lake)
    assert str(path) in caught.value.message or str(path.parent) in caught.value.message
    assert caught.value.next_step


def test_answers_of_a_run_that_has_not_ended_are_read_too(lake):
    path = min((lake.data / "landing" / f"run={UNLOADED}").rglob("shard=*/*.zst"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=str(path)):
        unchanged(lake)


@pytest.mark.parametrize("days", [{"landed_days": 1}, {"staged_days": 1}], ids=["landed", "staged"])
def test_what_was_pruned_is_not_missed(lake, days):
    removable, _ = find_removable(lake, NOON + 9 * DAY, keep_generations=5, **days)
    prune(lake, removable, NOON + 9 * DAY)
    assert unchanged(lake).runs == 1
