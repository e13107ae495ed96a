"""`privacy.keep_days` ends what is kept of lists, refused lines and contacts, in every place; prune says what goes."""

from __future__ import annotations

import pytest

from firmlake.core.folders import Folders
from firmlake.core.settings import KeepDaysSettings
from firmlake.forget.retention import apply_retention, find_expired
from firmlake.rebuild.verify import verify
from support import ACME, BOLT, DAY, NOON, publish_list, query

from .everything import places_of
from .support import settings_of

WORDS = ("Oldcell", "Oldrefused", "Newcell", "Newrefused")
_LINES = "SELECT list_name, line, status, country FROM list_members ORDER BY ALL"


@pytest.fixture
def lists(folders: Folders) -> Folders:
    """Two versions of a list, ten days apart, each with a line that was refused."""
    for day, age in ((0, "Old"), (10, "New")):
        cells = [{"note": f"{age}cell"}, {"note": f"{age}refused"}, {"note": f"{age}cell"}]
        publish_list(folders, [ACME, None, BOLT], day=day, cells=cells, given="x", reason="no number")
    return folders


def kept(folders):
    return {word for word in WORDS if places_of(folders.data, word)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("days", "left"),
    [
        pytest.param({}, set(WORDS), marks=pytest.mark.slow),
        ({"refused_lines": 5}, {"Oldcell", "Newcell", "Newrefused"}),
        pytest.param({"lists": 5}, {"Newcell", "Newrefused"}, marks=pytest.mark.slow),
        pytest.param({"lists": 0}, set(), marks=pytest.mark.slow),
    ],
)
def test_what_is_too_old_goes_from_every_place(lists, days, left):
    now, keep = NOON + 11 * DAY, KeepDaysSettings(**days)
    lines = query(lists, _LINES)
    assert bool(find_expired(lists, keep, now)) is bool(days)
    apply_retention(lists, keep, settings_of(lists).run, now)
    assert kept(lists) == left
    assert find_expired(lists, keep, now) == []
    assert query(lists, _LINES) == lines
    assert all(check.agrees for check in verify(lists, lambda: now))
