"""A forgotten contact leaves the ledger of additions, its plans and its answers; the others stay as they are."""

from __future__ import annotations

import pytest

from firmlake.core.files import write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings, Settings
from firmlake.core.settings_layers import load_settings
from firmlake.forget.forget import forget
from firmlake.forget.retention import apply_retention, find_expired
from firmlake.privacy.tombstones import Subject
from firmlake.rebuild.verify import verify
from firmlake.service_lists.apply import apply_plan, plan_contacts
from firmlake.service_lists.contacts import read_contact_list, read_plan
from support import DAY, query

from .everything import places_of

GONE, KEPT = "ct-90210-x", "ct-90211-x"


@pytest.fixture
def settings(tmp_path, sandbox, monkeypatch) -> Settings:
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)
    flags = {"api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "paths.data": str(tmp_path / "data")}
    return load_settings(flags=flags, environment={})[0]


def test_a_contact_is_forgotten_and_is_not_sent_again(settings, tmp_path, now):
    (tmp_path / "contacts.csv").write_text(
        f"country,company_number,contact\nBE,0403227515,{GONE}\nBE,0403227515,{KEPT}\nBE,,{GONE}\n"
    )
    folders = Folders.of(settings)
    contacts = read_contact_list(tmp_path / "contacts.csv", settings.intake)
    plan = plan_contacts(settings, contacts, 1002, "tests", now)
    write_json(folders.data / "plans" / "plan.json", plan)
    apply_plan(settings, plan, "tests", now)
    rows = query(folders, "SELECT company_number, status, sent_count FROM contact_additions ORDER BY ALL")
    assert len(places_of(folders.data, GONE)) > 3
    forget(settings, [Subject("contact", GONE)], now)
    assert places_of(folders.data, GONE) == set()
    assert places_of(folders.data, KEPT)
    assert query(folders, "SELECT company_number, status, sent_count FROM contact_additions ORDER BY ALL") == rows
    assert all(check.agrees for check in verify(folders, now))
    again = read_plan(folders.data / "plans" / "plan.json")
    apply_plan(settings, again, "tests", now)
    planned = plan_contacts(settings, contacts, 1002, "tests", now)
    assert GONE not in str(planned)
    assert places_of(folders.data, GONE) == set()


def test_contacts_go_after_their_days(settings, tmp_path, now):
    (tmp_path / "contacts.csv").write_text(f"country,company_number,contact\nBE,0403227515,{KEPT}\nBE,,{KEPT}\n")
    folders = Folders.of(settings)
    contacts = read_contact_list(tmp_path / "contacts.csv", settings.intake)
    apply_plan(settings, plan_contacts(settings, contacts, 1002, "tests", now), "tests", now)
    days, run = KeepDaysSettings(contacts=5), settings.run
    assert find_expired(folders, days, now() + 4 * DAY) == []
    assert places_of(folders.data, KEPT)
    assert [each.kind for each in find_expired(folders, days, now() + 6 * DAY)] == ["contacts"]
    apply_retention(folders, days, run, now() + 6 * DAY)
    assert places_of(folders.data, KEPT) == set()
    assert query(folders, "SELECT count(*) FROM contact_additions") == [(0,)]
    assert find_expired(folders, days, now() + 6 * DAY) == []
    assert all(check.agrees for check in verify(folders, now))
