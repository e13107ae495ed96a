"""A world with a history differs from one without in what happens later, and in nothing else."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.related import list_relationships
from firmlake_sandbox.world import World, identify, is_found, list_events

from .test_world import SAMPLE, nodes, plain

FEW = SAMPLE[:1500]
WITHOUT, LATER = World(week=30), World(week=30, has_history=True)


def test_in_week_0_nothing_has_happened() -> None:
    before, world = World(), World(has_history=True)
    for node in FEW[:300]:
        assert is_found(before, node) == is_found(world, node)
        assert identify(before, node, "EN") == identify(world, node, "EN")
        assert list_financials(before, node, 500, 0) == list_financials(world, node, 500, 0)
        assert list_relationships(before, node, "EN") == list_relationships(world, node, "EN")


@given(st.integers(0, 5), st.integers(0, 300), nodes, st.integers(1, 25), st.integers(0, 25))
@settings(deadline=None)
def test_answers_are_repeatable_and_cut_into_pages(seed: int, week: int, node: int, limit: int, offset: int) -> None:
    world = World(seed, week, has_history=True)
    records, total = list_financials(world, node, 500, 0)
    assert len(records) == total <= 20
    assert list_financials(world, node, limit, offset) == (records[offset : offset + limit], total)


EVENTS = ("renamed", "moved", "function", "end corrected", "refiled", "in thousands", "committees", "emptied")
_CHANGED = {
    "end corrected": {"endDate"},
    "refiled": {"dateReceived", "solvency"},
    "in thousands": {"profitability", "liquidity", "solvency"},
    "committees": {"jointCommitteeCodes"},
}


@pytest.mark.parametrize("event", _CHANGED)
def test_each_event_changes_one_period_in_its_own_way(event: str) -> None:
    seen = 0
    for node in FEW:
        others = [other for other in EVENTS if other != event and list_events(LATER, node, other)]
        if others or not list_events(LATER, node, event):
            continue
        old, new = (plain(list_financials(world, node, 500, 0)[0]) for world in (WITHOUT, LATER))
        differing = [one for one in new if one not in old]
        for now in differing:
            before = [one for one in old if one["startDate"] == now["startDate"]]
            assert any({name for name in was if was[name] != now[name]} <= _CHANGED[event] for was in before)
        assert len(new) == min(20, len(old) + (event == "refiled" and bool(differing)))
        seen += bool(differing)
    assert seen > 10


@pytest.mark.parametrize(("event", "part"), [("renamed", "name"), ("moved", "place")])
def test_names_and_places_change_in_every_language(event: str, part: str) -> None:
    moved = [node for node in FEW if list_events(LATER, node, event) and is_found(LATER, node)]
    assert len(moved) > 100
    for node in moved:
        for language in ("NL", "FR", "EN"):
            before, after = (plain(identify(world, node, language)) for world in (WITHOUT, LATER))
            assert before[part] != after[part]


def test_some_are_away_while_they_file_and_return_with_new_accounts() -> None:
    returned = 0
    for node in FEW:
        found = [is_found(World(week=week, has_history=True), node) for week in range(20)]
        if found[0] and found[-1] and not all(found) and all(is_found(World(week=week), node) for week in range(20)):
            first, last = (plain(list_financials(World(week=week), node, 1, 0)[0])[0]["endDate"] for week in (0, 19))
            assert date.fromisoformat(last) > date.fromisoformat(first)
            returned += 1
    assert returned > 5


def test_an_empty_answer_comes_back() -> None:
    emptied = [
        (node, week)
        for week in range(1, 12)
        for node in FEW[:400]
        if is_found(World(week=week), node) and not list_financials(World(week=week, has_history=True), node, 0, 0)[1]
    ]
    assert len(emptied) > 10
    assert all(list_financials(World(week=week + 2, has_history=True), node, 0, 0)[1] for node, week in emptied)
