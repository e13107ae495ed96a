"""The made-up world: the same every time and from version to version, consistent, and as varied as the real one."""

from __future__ import annotations

import hashlib
from datetime import date
from functools import cache
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmlake_sandbox.financials import list_financials
from firmlake_sandbox.numbers import BASE_BITS, END, parse_number, sample_numbers, spell_number
from firmlake_sandbox.related import list_lookalikes, list_relationships
from firmlake_sandbox.world import World, identify, is_found, list_events
from support import examples

SAMPLE = [parse_number(*company) or 0 for company in sample_numbers(1500, seed=1)]
FOUND = [node for node in SAMPLE if is_found(World(), node)]

plain_worlds = st.builds(World, seed=st.integers(0, 5), week=st.integers(0, 120))
worlds = st.builds(World, seed=st.integers(0, 5), week=st.integers(0, 300), has_history=st.booleans())
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
    assert describe(world, node) == describe(World(world.seed, world.week, has_history=world.has_history), node)
    records, total = list_financials(world, node, 500, 0)
    assert len(records) == total <= 20
    assert list_financials(world, node, limit, offset) == (records[offset : offset + limit], total)


KEPT = {
    World(): "a257db547169282d",
    World(seed=3, week=25): "3ed8d60e848cc531",
    World(week=30, has_history=True): "01cca7d4a170c447",
}
"""By world: a digest of what it says about a thousand and a half companies, who come, go, rename, file and own anew."""


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


def test_a_world_with_a_history_begins_as_one_without():
    for node in FOUND[:300]:
        assert describe(World(), node) == describe(World(has_history=True), node)


# --- consistent ------------------------------------------------------------------------------------------------------


@given(plain_worlds, nodes)
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


@given(plain_worlds, nodes)
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


@given(plain_worlds, nodes)
@examples(200)
def test_parents_and_children_mirror_each_other(world, node):
    if is_found(world, node):
        for side, other_side in (("parents", "children"), ("children", "parents")):
            for other, stake, function in edges(world, node, side):
                assert (node, stake, function) in edges(world, other, other_side)


# --- varied ----------------------------------------------------------------------------------------------------------


@cache
def records():
    return [(node, record) for node in FOUND for record in plain(list_financials(World(), node, 500, 0)[0])]


def is_of_another_length(record):
    days = (date.fromisoformat(record["endDate"]) - date.fromisoformat(record["startDate"])).days
    return not 364 <= days <= 366


def adds_up(record):
    part, people = record["solvency"], record["people"]
    sums = (
        part["equity"] + part["debt"] - part["totalAssets"],
        part["longTermDebt"] + part["shortTermDebt"] - part["debt"],
    )
    ratios = people["employeeMaleRatio"] + people["employeeFemaleRatio"] - 1
    return part["totalAssets"] > 1e10 or (max(map(abs, sums)) < 0.02 and abs(ratios) < 1e-6)


def is_rounded(record):
    amounts = [*record["profitability"].values(), *record["solvency"].values(), record["liquidity"]["cash"]]
    ratios = (record["liquidity"]["currentRatio"], record["liquidity"]["quickRatio"])
    return all(amount is None or round(amount, 2) == amount for amount in amounts) and ratios == tuple(
        round(ratio, 4) for ratio in ratios
    )


SHARES = {
    "another length": (is_of_another_length, 0.002, 0.03),
    "adds up": (adds_up, 0.95, 1),
    "two decimals, ratios four": (is_rounded, 0.999, 2),
    "no revenue": (lambda record: record["profitability"]["revenue"] is None, 0.1, 0.3),
    "no capital": (lambda record: record["solvency"]["capital"] is None, 0.02, 0.15),
    "a loss": (lambda record: record["profitability"]["netProfit"] < 0, 0.1, 0.6),
    "negative equity": (lambda record: record["solvency"]["equity"] < 0, 0.03, 0.2),
    "large": (lambda record: record["solvency"]["totalAssets"] > 1e9, 0.01, 0.06),
    "negative health": (lambda record: record["healthIndicator"] < 0, 0, 1),
    "committee 200": (lambda record: "200" in record["jointCommitteeCodes"], 0, 1),
    "no committee": (lambda record: not record["jointCommitteeCodes"], 0, 1),
}
"""Which share of all records is so, at least and at most: as varied as real ones."""


def test_accounts_are_as_varied_as_real_ones():
    for name, (is_so, least, most) in SHARES.items():
        found = [is_so(record) for _, record in records()]
        assert least < sum(found) / len(found) < most, name
    counts = [list_financials(World(), node, 0, 0)[1] for node in SAMPLE]
    assert set(counts) == set(range(1, 21))
    assert 7.5 < sum(counts) / len(counts) < 8.5
    keys = [(node, record["endDate"]) for node, record in records()]
    assert 0.002 < 1 - len(set(keys)) / len(keys) < 0.02, "filed twice"
    assert 0.01 < 1 - len(FOUND) / len(SAMPLE) < 0.03, "unknown to the service"


def test_owners_are_companies_persons_and_nobody_across_borders_and_texts_follow_the_language():
    entries = [entry for node in FOUND for entry in plain(list_relationships(World(), node, "EN"))["parents"]]
    companies = [entry for entry in entries if entry["identifier"]]
    persons = [entry for entry in entries if not entry["identifier"] and "name" in entry]
    anonymous = [entry for entry in entries if entry == {"identifier": None}]
    assert len(companies) + len(persons) + len(anonymous) == len(entries)
    assert min(len(companies), len(persons), len(anonymous)) > 100
    assert all(entry["name"] == entry["identifier"]["name"] for entry in companies)
    assert 0.85 < sum(entry["function"] == "SHAREHOLDER" for entry in companies) / len(companies) < 1
    owners = {node: [other for other, _, _ in edges(World(), node, "parents")] for node in FOUND}
    assert any(other >> BASE_BITS != node >> BASE_BITS for node, others in owners.items() for other in others)
    assert any(node in others for node, others in owners.items()), "of itself"
    places = {tuple(identify(World(), node, language)["place"] for language in ("NL", "FR", "EN")) for node in FOUND}
    assert ("Brussel", "Bruxelles", "Brussels") in places


# --- later -----------------------------------------------------------------------------------------------------------

EVENTS = ("renamed", "moved", "function", "end corrected", "refiled", "in thousands", "committees", "emptied")
CHANGED = {
    "end corrected": {"endDate"},
    "refiled": {"dateReceived", "solvency"},
    "in thousands": {"profitability", "liquidity", "solvency"},
    "committees": {"jointCommitteeCodes"},
}
"""What of a period each event of a history changes."""


def test_each_event_of_a_history_changes_one_period_in_its_own_way():
    without, later, seen = World(week=30), World(week=30, has_history=True), dict.fromkeys(CHANGED, 0)
    for node in SAMPLE:
        happened = [event for event in EVENTS if list_events(later, node, event)]
        if len(happened) != 1 or happened[0] not in CHANGED:
            continue
        (event,) = happened
        old, new = (plain(list_financials(world, node, 500, 0)[0]) for world in (without, later))
        differing = [one for one in new if one not in old]
        for now in differing:
            before = [one for one in old if one["startDate"] == now["startDate"]]
            assert any({name for name in was if was[name] != now[name]} <= CHANGED[event] for was in before)
        assert len(new) == min(20, len(old) + (event == "refiled" and bool(differing)))
        seen[event] += bool(differing)
    assert min(seen.values()) > 10


def test_names_and_places_change_in_every_language_and_an_empty_answer_comes_back():
    without, later = World(week=30), World(week=30, has_history=True)
    for event, part in (("renamed", "name"), ("moved", "place")):
        changed = [node for node in SAMPLE if list_events(later, node, event) and is_found(later, node)]
        assert len(changed) > 100
        for node in changed:
            for language in ("NL", "FR", "EN"):
                assert identify(without, node, language)[part] != identify(later, node, language)[part]
    emptied = [
        (node, week)
        for week in range(1, 12)
        for node in SAMPLE[:400]
        if is_found(World(week=week), node) and not list_financials(World(week=week, has_history=True), node, 0, 0)[1]
    ]
    assert len(emptied) > 10
    assert all(list_financials(World(week=week + 2, has_history=True), node, 0, 0)[1] for node, week in emptied)
