"""The made-up world: the same every time and from version to version, and consistent."""

from __future__ import annotations

import hashlib
from datetime import date
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import END, parse_number, sample_numbers, spell_number
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.world import World, identify, is_found
from support import examples

SAMPLE = [parse_number(*company) or 0 for company in sample_numbers(1500, seed=1)]

worlds = st.builds(World, seed=st.integers(0, 5), week=st.integers(0, 120))
nodes = st.integers(0, 2).flatmap(
    lambda country: st.integers(0, END[country] - 1).map(lambda base: country << 32 | base)
)


def plain(value):
    """What a client reads."""
    return msgspec.json.decode(msgspec.json.encode(value))


def describe(world, node):
    """All that a world says about a company, None where it does not know it."""
    if not is_found(world, node):
        return None
    return (
        identify(world, node, "EN"),
        list_financials(world, node, 500, 0),
        list_lookalikes(world, node),
        list_relationships(world, node, "EN"),
    )


def node_of(identifier):
    return parse_number(identifier["country"], identifier["companyNumber"])


# --- the same --------------------------------------------------------------------------------------------------------


@given(worlds, nodes, st.integers(1, 25), st.integers(0, 25))
def test_a_company_answers_the_same_every_time_and_its_pages_are_cut_from_the_whole(world, node, limit, offset):
    assert describe(world, node) == describe(World(world.seed, world.week), node)
    records, total = list_financials(world, node, 500, 0)
    assert len(records) == total <= 20
    assert list_financials(world, node, limit, offset) == (records[offset : offset + limit], total)


KEPT = {World(): "a257db547169282d", World(seed=3, week=25): "3ed8d60e848cc531"}
"""By world: a digest of what it says about a thousand and a half companies, who come, go, file and own anew."""


@pytest.mark.parametrize("world", KEPT, ids=str)
def test_the_world_stays_as_it_is_from_version_to_version(world):
    """Whoever keeps an answer of the sandbox as a golden file relies on it."""
    said = msgspec.json.encode([describe(world, node) for node in SAMPLE])
    assert hashlib.sha256(said).hexdigest()[:16] == KEPT[world]
    node = parse_number("BE", "0403227515")
    record = plain(list_financials(World(), node, 1, 0)[0])[0]
    assert identify(World(), node, "EN")["name"] == "Vesdredis Construction CV"
    assert (record["dateReceived"], record["profitability"]["revenue"]) == ("2025-09-05", 153683.93)
    assert identify(World(), node, "EN")["companyNumber"] == "403227515"
    assert identify(World(is_zero_dropped=False), node, "EN")["companyNumber"] == spell_number(node) == "0403227515"


# --- consistent ------------------------------------------------------------------------------------------------------


@given(worlds, nodes)
@examples(300)
def test_periods_follow_each_other_newest_first(world, node):
    found = plain(list_financials(world, node, 500, 0)[0])
    for newer, older in pairwise(found):
        gap = (date.fromisoformat(newer["startDate"]) - date.fromisoformat(older["endDate"])).days
        same = (newer["startDate"], newer["endDate"]) == (older["startDate"], older["endDate"])
        assert gap == 1 or same
        assert newer["dateReceived"] > older["dateReceived"]
    for record in found:
        assert record["startDate"] < record["endDate"] < record["dateReceived"]
    assert date.fromisoformat(found[0]["dateReceived"]).toordinal() <= date(2026, 1, 5).toordinal() + 7 * world.week


@given(worlds, nodes)
@examples(200)
def test_lookalikes_are_others_that_exist_in_strictly_falling_score(world, node):
    entries = plain(list_lookalikes(world, node))
    others = [node_of(entry["companyId"]) for entry in entries]
    assert len(set(others)) == len(others) <= 20
    assert node not in others
    assert all(is_found(world, other) for other in others)
    scores = [entry["score"] for entry in entries]
    assert all(0 < lower < higher <= 1 for higher, lower in pairwise([1, *scores]))


def edges(world, node, side):
    """The companies that a company names on one side, with stake and function."""
    entries = plain(list_relationships(world, node, "EN"))[side]
    return [(node_of(one["identifier"]), one["percentage"], one["function"]) for one in entries if one["identifier"]]


@given(worlds, nodes)
@examples(200)
def test_parents_and_children_mirror_each_other(world, node):
    if is_found(world, node):
        for side, other_side in (("parents", "children"), ("children", "parents")):
            for other, stake, function in edges(world, node, side):
                assert (node, stake, function) in edges(world, other, other_side)
