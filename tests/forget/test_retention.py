"""`privacy.keep_days` ends what is kept of lists, refused lines and contacts, in every place; prune says what goes.

A forgotten contact leaves the ledger of additions, its plans and its answers; the others stay for their days.
"""

from __future__ import annotations

import pytest

from firmlake.core.files import write_json
from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings
from firmlake.core.settings_layers import load_settings
from firmlake.core.work import utc_now
from firmlake.forget.forget import forget
from firmlake.forget.retention import apply_retention, find_expired
from firmlake.privacy.tombstones import Subject
from firmlake.service_lists.apply import apply_plan, plan_contacts
from firmlake.service_lists.contacts import read_contact_list, read_plan
from support import ACME, BOLT, DAY, NOON, publish_list, query, slow

from .world import agrees, places_of, settings_of

WORDS = {"Oldcell", "Oldrefused", "Newcell", "Newrefused"}
_LINES = "SELECT list_name, line, status, country FROM list_members ORDER BY ALL"
_ADDITIONS = "SELECT company_number, status, sent_count FROM contact_additions ORDER BY ALL"


def publish_versions(folders: Folders) -> None:
    """Two versions of a list, ten days apart, each with a line that was refused."""
    for day, age in ((0, "Old"), (10, "New")):
        cells = [{"note": f"{age}cell"}, {"note": f"{age}refused"}, {"note": f"{age}cell"}]
        publish_list(folders, [ACME, None, BOLT], day=day, cells=cells, given="x", reason="no number")


@pytest.mark.parametrize(
    ("days", "left"),
    [
        *slow(({}, WORDS), ({"lists": 5}, {"Newcell", "Newrefused"}), ({"lists": 0}, set())),
        ({"refused_lines": 5}, {"Oldcell", "Newcell", "Newrefused"}),
    ],
)
def test_what_is_too_old_goes_from_every_place(copy_of, days, left):
    folders, now, keep = copy_of(publish_versions), NOON + 11 * DAY, KeepDaysSettings(**days)
    lines = query(folders, _LINES)
    assert bool(find_expired(folders, keep, now)) is bool(days)
    apply_retention(folders, keep, settings_of(folders).run, now)
    assert {word for word in WORDS if places_of(folders.data, word)} == left
    assert find_expired(folders, keep, now) == []
    assert query(folders, _LINES) == lines
    assert agrees(folders)


@pytest.mark.slow
def test_a_forgotten_contact_is_not_sent_again_and_the_others_go_after_their_days(tmp_path, sandbox, monkeypatch):
    gone, kept = "ct-90210-x", "ct-90211-x"
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    sandbox.set_options(lists=20)
    flags = {"api.base_url": sandbox.base_url, "api.requests_per_minute": "0", "paths.data": str(tmp_path / "data")}
    settings = load_settings(flags=flags, environment={})[0]
    (tmp_path / "contacts.csv").write_text(
        f"country,company_number,contact\nBE,0403227515,{gone}\nBE,0403227515,{kept}\nBE,,{gone}\nBE,,{kept}\n"
    )
    folders, contacts = Folders.of(settings), read_contact_list(tmp_path / "contacts.csv", settings.intake)
    plan = plan_contacts(settings, contacts, 1002, "tests", utc_now)
    write_json(folders.data / "plans" / "plan.json", plan)
    apply_plan(settings, plan, "tests", utc_now)
    rows = query(folders, _ADDITIONS)
    assert len(places_of(folders.data, gone)) > 3
    forget(settings, [Subject("contact", gone)], utc_now)
    assert places_of(folders.data, gone) == set()
    assert places_of(folders.data, kept)
    assert query(folders, _ADDITIONS) == rows
    apply_plan(settings, read_plan(folders.data / "plans" / "plan.json"), "tests", utc_now)
    assert gone not in str(plan_contacts(settings, contacts, 1002, "tests", utc_now))
    assert places_of(folders.data, gone) == set()
    days, now = KeepDaysSettings(contacts=5), utc_now()
    assert find_expired(folders, days, now + 4 * DAY) == []
    assert {each.kind for each in find_expired(folders, days, now + 6 * DAY)} == {"contacts"}
    apply_retention(folders, days, settings.run, now + 6 * DAY)
    assert places_of(folders.data, kept) == set()
    assert query(folders, "SELECT count(*) FROM contact_additions") == [(0,)]
    assert find_expired(folders, days, now + 6 * DAY) == []
    assert agrees(folders)
