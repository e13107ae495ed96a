"""Whoever was forgotten stays forgotten: in later answers and lists, and in restored files; a lost key is noticed."""

from __future__ import annotations

import shutil
from functools import partial

import pytest
from click.testing import CliRunner

import firmlake_sandbox
from firmlake.cli import firmlake
from firmlake.core.company import Company
from firmlake.core.errors import SettingsError
from firmlake.core.folders import Folders
from firmlake.core.settings_layers import load_settings
from firmlake.delivery.destination import Folder
from firmlake.enrich.lookup import fetch_company
from firmlake.enrich.run import enrich
from firmlake.forget.forget import clean_restored, forget
from firmlake.forget.retention import is_lookup
from firmlake.landing.run import list_runs
from firmlake.privacy.tombstones import Subject, lift
from firmlake.rebuild.archive import archive, replay_archive
from firmlake.rebuild.prune import find_removable
from support import BOLT, DAY, UNASKED, query

from .everything import places_of
from .support import NAME, SPELLED, make_weeks, settings_of, week
from .support import now as at

_PERSON = "SELECT related_name FROM relationships WHERE related_kind = 'named_party' ORDER BY ALL LIMIT 1"
_COMPANY = "SELECT country, company_number FROM companies WHERE paid_at IS NOT NULL ORDER BY ALL LIMIT 1"


@pytest.fixture(scope="module")
def made(tmp_path_factory, sandbox_process):
    """A run over a few companies, and the settings it was made with."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    folder = tmp_path_factory.mktemp("later")
    numbers = firmlake_sandbox.sample_numbers(20)
    (folder / "list.csv").write_text("land;nummer\n" + "".join(f"{country};{number}\n" for country, number in numbers))
    flags = {
        "api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "run.datasets": "relationships",
        "paths.data": str(folder / "data"), "run.refresh_after_days": "0",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
        settings = load_settings(flags=flags, environment=UNASKED)[0]
        enrich(settings, folder / "list.csv", "a test")
        shutil.copytree(folder / "data", folder / "copy", symlinks=True)
        yield settings, folder


@pytest.mark.slow
def test_who_was_forgotten_comes_back_by_no_way(made, now):
    settings, folder = made
    folders = Folders.of(settings)
    [(name,)], [row] = query(folders, _PERSON), query(folders, _COMPANY)
    company = Company(*row)
    forget(settings, [Subject("person", name), Subject("company", "", company)], now)
    assert places_of(folders.data, name, company.company_number) == set()
    enrich(settings, folder / "list.csv", "a test")  # later answers and the same list
    assert places_of(folders.data, name, company.company_number) == set()
    [(refused,)] = query(
        folders,
        "SELECT count(*) FROM refused_lines WHERE reason LIKE '%forgotten%' AND run_id = "
        "(SELECT max(run_id) FROM runs)",
    )
    assert refused == 1
    shutil.copytree(folder / "copy" / "landing", folders.data / "landing", dirs_exist_ok=True)  # a restored backup
    assert places_of(folders.data, name)
    assert clean_restored(folders, settings.privacy)
    assert places_of(folders.data, name, company.company_number) == set()
    fetch_company(settings, company, ["relationships"])  # named explicitly
    assert query(folders, f"SELECT count(*) FROM companies WHERE company_number = '{company.company_number}'") == [(1,)]
    [looked_up] = [run for run in list_runs(folders) if is_lookup(run)]
    removable, _ = find_removable(
        folders, now() + DAY, keep_generations=9, landed_days_of=lambda run: 0 if is_lookup(run) else None
    )
    assert [each.path.name for each in removable if each.kind == "landed"] == [f"run={looked_up.run_id}"]
    key = folders.state / "privacy.key"
    key.rename(folder / "key")
    with pytest.raises(SettingsError, match="is missing, but hashes were made with it"):
        enrich(settings, folder / "list.csv", "a test")
    key.write_text("x" * 64)
    with pytest.raises(SettingsError, match="does not belong to"):
        forget(settings, [], now)


@pytest.mark.slow
def test_after_a_withdrawal_later_answers_keep_the_name_and_what_was_erased_stays_so(copy_of):
    folders = copy_of(make_weeks, 1)

    def call(*arguments):
        return CliRunner().invoke(firmlake, [*arguments, "--data", str(folders.data)], standalone_mode=False)

    subject = ("forget", "person", NAME)
    assert call(*subject).return_value == 0
    assert "Withdrawn: 1 of 1 subject" in call(*subject, "--withdraw").stdout
    again = call(*subject, "--withdraw")
    assert again.return_value == 1
    assert "Not withdrawn: 1 subject" in again.stderr
    assert (call("verify").return_value, call("replay").return_value) == (0, 0)
    assert places_of(folders.data, *SPELLED) == set()
    week(folders, 4)
    assert query(folders, f"SELECT count(*) FROM relationships WHERE related_name = '{NAME}'") == [(2,)]


@pytest.mark.slow
def test_who_was_forgotten_does_not_come_back_by_a_merged_archive(copy_of, tmp_path):
    """The archive was made before, by another data folder, and still names the person."""
    folders = copy_of(make_weeks, 1)
    archive(folders, Folder(tmp_path / "archive"))
    union = Folders(tmp_path / "union")
    settings = settings_of(union)
    forget(settings, [Subject("person", NAME), Subject("company", "", BOLT)], at)
    clean = partial(clean_restored, settings=settings.privacy)
    for _ in range(2):
        made = replay_archive(settings, Folder(tmp_path / "archive"), "a", "a test", now=at, clean=clean)
        assert not made.damaged
        assert places_of(union.data, *SPELLED, BOLT.company_number) == set()
        assert query(union, "SELECT count(*) FROM relationships") == [(5,)]
    assert places_of(tmp_path / "archive", *SPELLED)


def test_a_file_names_a_subject_on_each_line(folders, tmp_path):
    path, settings = tmp_path / "subjects.csv", settings_of(folders).privacy
    acme = Company("BE", "0403227515")
    lines = {
        "person;Jan Peeters": Subject("person", "Jan Peeters"),
        'person,"Peeters, An",BE,0403.227.515': Subject("person", "Peeters, An", acme),
        "": None,
        "contact\t4711": Subject("contact", "4711"),
        "company;BE;0403.227.515": Subject("company", "", acme),
        "company;NL 24202194": Subject("company", "", BOLT),
    }
    path.write_text("\n".join(lines))
    folders.data.mkdir()
    command = ["forget", "--from", str(path), "--data", str(folders.data)]
    assert CliRunner().invoke(firmlake, command, standalone_mode=False).return_value == 0
    assert all(lift(settings, folders, subject) for subject in lines.values() if subject)
    path.write_text("contact;1\nperson;")
    assert "subjects.csv, line 2: This is not a person" in CliRunner().invoke(firmlake, command).stderr
