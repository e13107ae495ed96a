"""What this and earlier versions of firmlake wrote opens, or is refused with a way out that then works."""

from __future__ import annotations

import shutil
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.landing.run import list_runs
from firmlake.rebuild.replay import convert_earlier, replay
from firmlake.rebuild.verify import content_hashes, verify
from firmlake.report.status import read_status, render_metrics
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.generations import ask, open_warehouse
from support import DAY, NOON, edit_warehouse, publish_landed, query, slow

KEPT = {int(path.name.partition(".")[0]): path for path in (Path(__file__).parent / "fixtures").glob("*.tar.xz")}
"""Data folders by the version of their tables' shape; tests/fixtures/make.py says what is in them."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Unpack a data folder, once."""
    held = {}

    def unpack(version):
        if version not in held:
            held[version] = tmp_path_factory.mktemp(f"version-{version}")
            with tarfile.open(KEPT[version]) as archive:
                archive.extractall(held[version], filter="data")
        return held[version] / "data"

    return unpack


@pytest.fixture
def kept(unpacked, folders):
    def copy(version):
        shutil.copytree(unpacked(version), folders.data, symlinks=True)
        return folders

    return copy


def test_what_is_written_now_is_kept_for_later_versions():
    assert SCHEMA_VERSION in KEPT, "python tests/fixtures/make.py"


@pytest.mark.parametrize("version", [min(KEPT), *slow(*sorted(KEPT)[1:])])
@pytest.mark.slow
def test_kept_state_opens_and_goes_on(kept, version):
    folders = kept(version)
    if version != SCHEMA_VERSION:
        with pytest.raises(FirmlakeError, match="earlier version") as refused, open_warehouse(folders):
            pass
        assert "firmlake replay" in refused.value.next_step
        replay(folders, lambda: NOON + 365 * DAY, settings=RunSettings(keep_generations=9))
    published, landed = list_runs(folders)
    now = landed.plan.started_at + timedelta(hours=1)
    status = read_status(folders)
    assert (status.last_run.run_id, status.last_run.outcome) == (published.run_id, "done")
    assert [run_id for run_id, *_ in status.unfinished] == [landed.run_id]
    assert all(check.agrees for check in verify(folders, lambda: now))

    publish_landed(landed, at=now)
    assert query(folders, "SELECT run_id, count(*) FROM companies GROUP BY ALL ORDER BY ALL") == [
        (published.run_id, 10),
        (landed.run_id, 4),
    ]
    assert query(folders, "SELECT count(*) > 0 FROM service_lists") == [(True,)]
    assert query(folders, "SELECT status, count(*) FROM contact_additions GROUP BY ALL") == [("added", 2)]
    assert all(check.agrees for check in verify(folders, lambda: now))


def test_runs_of_development_versions_get_what_targets_did_not_have_then(kept):
    folders = kept(min(KEPT))
    convert_earlier(folders)
    for run in list_runs(folders):
        [added] = run.targets().select("is_refresh", "is_barred", "free_until").unique().rows()
        assert added == (False, False, None)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (SCHEMA_VERSION - 1, "an earlier version"),
        pytest.param(SCHEMA_VERSION + 1, "a later version", marks=pytest.mark.slow),
    ],
)
def test_a_generation_of_another_version_is_refused_until_it_is_replayed(kept, version, words):
    folders = kept(SCHEMA_VERSION)
    held = _hashes(folders)
    edit_warehouse(folders, f"UPDATE loads SET schema_version = {version}; DROP VIEW company_state")
    status = read_status(folders)
    assert words in status.outdated, "status and its metrics go on, for those who watch them"
    assert status.next_step.startswith(("Rebuild it with `firmlake replay`", "Install that version again"))
    assert status.unfinished
    assert "firmlake_outdated 1" in render_metrics(status)
    for look in (_hashes, lambda folders: verify(folders, _never)):
        with pytest.raises(FirmlakeError, match=words) as refused:
            look(folders)
        assert "firmlake replay" in refused.value.next_step
    assert ask(folders, "SELECT count(*) FROM companies")[1] == [(10,)]
    replay(folders, lambda: list_runs(folders)[0].plan.started_at, settings=RunSettings(keep_generations=9))
    assert _hashes(folders) == held


def _hashes(folders: Folders):
    with open_warehouse(folders) as connection:
        hashes = content_hashes(connection)
    hashes.pop("loads")
    return hashes


def _never():
    raise AssertionError
