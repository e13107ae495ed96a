"""Whoever was forgotten stays forgotten: in later answers and lists, and in restored files; a lost key is noticed."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

import firmlake_sandbox
from firmlake.core.company import Company
from firmlake.core.errors import SettingsError
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.core.work import utc_now
from firmlake.delivery.destination import Folder
from firmlake.enrich.lookup import fetch_company
from firmlake.enrich.run import enrich
from firmlake.forget.forget import clean_restored, forget
from firmlake.forget.retention import is_lookup
from firmlake.landing.run import list_runs
from firmlake.privacy.tombstones import Subject
from firmlake.rebuild.archive import archive, replay_archive
from firmlake.rebuild.prune import find_removable
from support import BOLT, DAY, UNASKED, query

from .world import NAME, SPELLED, make_weeks, now, places_of, settings_of

_PERSON = "SELECT related_name FROM relationships WHERE related_kind = 'named_party' ORDER BY ALL LIMIT 1"
_COMPANY = "SELECT country, company_number FROM companies WHERE paid_at IS NOT NULL ORDER BY ALL LIMIT 1"
_REFUSED = """
    SELECT count(*) FROM refused_lines WHERE reason LIKE '%forgotten%' AND run_id = (SELECT max(run_id) FROM runs)
"""


@pytest.mark.slow
def test_who_was_forgotten_comes_back_by_no_way(sandbox, tmp_path, monkeypatch):
    numbers = firmlake_sandbox.sample_numbers(20)
    company_list = tmp_path / "list.csv"
    company_list.write_text("land;nummer\n" + "".join(f"{country};{number}\n" for country, number in numbers))
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    flags = {
        "api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "run.datasets": "relationships",
        "paths.data": str(tmp_path / "data"), "run.refresh_after_days": "0",
    }  # fmt: skip
    settings = load_settings(flags=flags, environment=UNASKED)[0]
    enrich(settings, company_list, "a test")
    shutil.copytree(tmp_path / "data", tmp_path / "copy", symlinks=True)
    folders = Folders.of(settings)
    [(name,)], [row] = query(folders, _PERSON), query(folders, _COMPANY)
    company = Company(*row)

    def found():
        return places_of(folders.data, name, company.company_number)

    forget(settings, [Subject("person", name), Subject("company", "", company)], utc_now)
    assert found() == set()
    enrich(settings, company_list, "a test")  # later answers and the same list
    assert found() == set()
    assert query(folders, _REFUSED) == [(1,)]
    shutil.copytree(tmp_path / "copy" / "landing", folders.data / "landing", dirs_exist_ok=True)  # a restored backup
    assert found()
    assert clean_restored(folders, settings.privacy)
    assert found() == set()
    fetch_company(settings, company, ["relationships"])  # named explicitly
    assert query(folders, f"SELECT count(*) FROM companies WHERE company_number = '{company.company_number}'") == [(1,)]
    [looked_up] = [run for run in list_runs(folders) if is_lookup(run)]
    removable, _ = find_removable(
        folders, utc_now() + DAY, keep_generations=9, landed_days_of=lambda run: 0 if is_lookup(run) else None
    )
    assert [each.path.name for each in removable if each.kind == "landed"] == [f"run={looked_up.run_id}"]
    key = folders.state / "privacy.key"
    key.rename(tmp_path / "key")
    with pytest.raises(SettingsError, match="is missing, but hashes were made with it"):
        enrich(settings, company_list, "a test")
    key.write_text("x" * 64)
    with pytest.raises(SettingsError, match="does not belong to"):
        forget(settings, [], utc_now)


@pytest.mark.slow
def test_who_was_forgotten_does_not_come_back_by_a_merged_archive(copy_of, tmp_path):
    """The archive was made before, by another data folder, and still names the person."""
    archive(copy_of(make_weeks, 1), Folder(tmp_path / "archive"))
    union = Folders(tmp_path / "union")
    settings = settings_of(union)
    forget(settings, [Subject("person", NAME), Subject("company", "", BOLT)], now)
    clean = partial(clean_restored, settings=settings.privacy)
    for _ in range(2):
        replay_archive(settings, Folder(tmp_path / "archive"), "a", "a test", now=now, clean=clean)
        assert places_of(union.data, *SPELLED, BOLT.company_number) == set()
        assert query(union, "SELECT count(*) FROM relationships") == [(5,)]
    assert places_of(tmp_path / "archive", *SPELLED)
