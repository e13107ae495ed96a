"""What several data folders have landed goes through an archive into one warehouse, and nothing is made twice."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from firmlake.core.errors import DamagedError, UsageError
from firmlake.core.folders import Folders
from firmlake.core.settings import PathSettings, RunSettings, Settings
from firmlake.delivery.destination import open_destination
from firmlake.landing.charged import refresh_off
from firmlake.landing.run import CHARGED, open_run
from firmlake.rebuild import archive as archiving
from firmlake.rebuild.archive import archive, fetch_runs, replay_archive, stage_archived
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.list_names import NameChange, record_name_change
from firmlake.warehouse.lists import held_name
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    land,
    lookalike,
    make_run,
    publish_landed,
    publish_list,
    slow,
)

FIRST, SECOND, THIRD = "20260105T120000Z-0001", "20260106T120000Z-0002", "20260107T120000Z-0003"


def now():
    return datetime(2026, 2, 1, tzinfo=UTC)


def fetch_week(folders, run_id, at, *scores, companies=(ACME, BOLT, CIRC)):
    """A published run of two shards, whose lookalikes have these scores."""
    run = make_run(folders, companies, ("lookalikes",), run_id=run_id, at=at, shard_companies=2)
    for place, (company, score) in enumerate(zip(companies, scores, strict=True)):
        element = found(company, "lookalikes", lookalike(CIRC if company is ACME else ACME, score))
        land(run, answer("lookalikes", element, at=at), shard=1 + place // 2)
    publish_landed(run, at=at + MINUTE)


@pytest.fixture(scope="module")
def portfolios(tmp_path_factory):
    """Two data folders that have a company in common."""
    one, other = (Folders(tmp_path_factory.mktemp(name) / "data") for name in ("one", "other"))
    fetch_week(one, FIRST, NOON, 0.1, 0.2, 0.3)
    fetch_week(other, SECOND, NOON + DAY, 0.4, 0.5, companies=(ACME, CIRC))
    return one, other


@pytest.fixture
def target(tmp_path):
    return open_destination(str(tmp_path / "archive"))


def load(target, folders, name="replay"):
    run = RunSettings(duckdb_memory="100MB", keep_generations=2)
    settings = Settings(paths=PathSettings(data=str(folders.data)), run=run)
    return replay_archive(settings, target, name, "a test", now=now).run_count


def content(folders):
    with open_warehouse(folders) as connection:
        return {name: found for name, found in content_hashes(connection).items() if name != "loads"}


@pytest.mark.slow
def test_a_warehouse_of_the_archive_holds_what_one_of_both_folders_would(portfolios, target, folders, tmp_path):
    """Also if one folder heard the same answer twice and the other heard something else in between."""
    one, other = Folders(tmp_path / "one"), portfolios[1]
    shutil.copytree(portfolios[0].data, one.data, symlinks=True)
    fetch_week(one, THIRD, NOON + 2 * DAY, 0.1, 0.2, 0.6)
    for portfolio in (one, other):
        archive(portfolio, target)
    load(target, folders)
    together = Folders(tmp_path / "together")
    for portfolio in (one, other):
        shutil.copytree(portfolio.data / "landing", together.data / "landing", dirs_exist_ok=True)
    replay(together, now, settings=RunSettings(keep_generations=1))
    assert content(folders) == content(together)
    assert content(folders)["lookalikes_history"][0] > 0, "or the order of the runs would not matter"


@pytest.mark.slow
def test_what_is_there_is_neither_archived_nor_staged_again(portfolios, target, tmp_path, monkeypatch):
    done = archive(portfolios[0], target)
    assert done.runs == [FIRST]
    assert done.file_count == len(target.sizes("landing"))
    assert archive(portfolios[0], target) == ([], 0, 0, {})
    load(target, Folders(tmp_path / "first"))
    monkeypatch.delattr(archiving, "stage_shard")
    load(target, Folders(tmp_path / "second"))


def test_what_a_killed_worker_left_is_completed_and_its_shard_is_staged_once(portfolios, target):
    """It has written files, but not yet what says that the shard is staged; then two work on it at once."""
    archive(portfolios[0], target)
    manifest = stage_archived(target.url, "one", FIRST, 1)
    target.clear("staged/one/run=20260105T120000Z-0001/companies")
    (target.path / "staged/one/run=20260105T120000Z-0001/shard=00001.json").unlink()
    assert stage_archived(target.url, "one", FIRST, 1) == manifest
    before = target.sizes("staged")
    assert stage_archived(target.url, "one", FIRST, 1) == manifest
    assert target.sizes("staged") == before


@pytest.mark.slow
def test_an_archive_that_was_interrupted_is_gone_on_with_and_not_read_before(portfolios, target, folders):
    archive(portfolios[0], target)
    whole = target.sizes("")
    (target.path / "landing" / f"run={FIRST}" / "log" / "00002.zst").unlink()
    next(target.path.glob(f"landing/run={FIRST}/targets-*.parquet")).unlink()
    with pytest.raises(UsageError, match="holds no run"):
        fetch_runs(target, folders)
    assert archive(portfolios[0], target).file_count == 2
    assert target.sizes("") == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"landing/run={FIRST}/log/00001.zst", f"landing/run={FIRST}/targets-*.parquet"])
def test_another_file_of_the_same_name_is_never_replaced(name, portfolios, target):
    archive(portfolios[0], target)
    (target.path / "landing" / f"run={FIRST}" / "log" / "00002.zst").unlink()
    [path] = target.path.glob(name)
    path.write_bytes(b"another")
    done = archive(portfolios[0], target)
    assert done.runs == []
    assert f"{path.relative_to(target.path)} differs from the file of the same name" in done.damaged[FIRST].message


def test_a_run_that_was_not_published_waits(folders, target):
    run = make_run(folders, [ACME], ("lookalikes",))
    land(run, answer("lookalikes", found(ACME, "lookalikes")))
    run.finish("done", "", NOON)
    assert archive(folders, target).runs == []


# --- a damaged run ---------------------------------------------------------------------------------------------------

DAMAGED = (
    f"landing/run={FIRST}/log/00001.zst", f"landing/run={FIRST}/targets-*.parquet", "landing/lists/*.parquet",
    f"landing/run={FIRST}/shard=00001/00001.zst",
)  # fmt: skip


def harm(folder, name):
    """Change a byte of the first run's file of that name; return the file and what it held."""
    path = min(folder.glob(name), key=lambda path: path.stat().st_mtime_ns)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return path, content


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A data folder with two published runs."""
    folders = Folders(tmp_path_factory.mktemp("together"))
    fetch_week(folders, FIRST, NOON, 0.1, 0.2, 0.3)
    fetch_week(folders, SECOND, NOON + DAY, 0.4, 0.5, companies=(ACME, CIRC))
    return folders


@pytest.fixture
def together(world, tmp_path):
    """A copy of it, to be harmed."""
    folders = Folders(tmp_path / "together")
    shutil.copytree(world.data, folders.data, symlinks=True)
    return folders


def test_a_folder_from_an_archive_knows_of_a_charge_for_a_free_refresh(together, target, folders):
    charge = {"credit_window_days": RunSettings().credit_window_days, "credits": 1, "companies": 1}
    open_run(together, FIRST).note(CHARGED, charge, NOON)
    archive(together, target)
    runs = fetch_runs(target, folders)
    assert f"charged run {FIRST} 1 credits" in refresh_off(RunSettings(), runs)


@pytest.mark.parametrize("name", [DAMAGED[-1], *slow(*DAMAGED[:-1])])
@pytest.mark.slow
def test_a_file_damaged_in_the_archive_is_named_and_the_replay_resumes_once_it_is_restored(
    name, together, target, folders
):
    archive(together, target)
    path, whole = harm(target.path, name)
    with pytest.raises(DamagedError) as caught:
        load(target, folders)
    assert f"{target.url}/{path.relative_to(target.path)}" in caught.value.message
    assert "Restore it in the archive" in caught.value.next_step
    assert not folders.warehouse.exists()
    path.write_bytes(whole)
    assert load(target, folders) == 2
    assert content(folders) == content(together)


def test_lists_keep_their_new_names_in_the_warehouse_of_an_archive(folders, target, tmp_path):
    run = publish_list(folders, [ACME], name="klanten")
    for day, (name, new_name) in enumerate((("klanten", "clients"), ("clients", "customers")), 1):
        record_name_change(folders, NameChange(at=run.plan.started_at + day * DAY, name=name, new_name=new_name))
    first = archive(folders, target)
    assert archive(folders, target).file_count == 0 < first.file_count
    elsewhere = Folders(tmp_path / "elsewhere")
    (fetched,) = fetch_runs(target, elsewhere)
    assert held_name(fetched) == "customers"
