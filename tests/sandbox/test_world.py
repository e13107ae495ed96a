"""The made-up world: the same every time, consistent, as varied as the real one, and moving on from week to week."""

from __future__ import annotations

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

SAMPLE = [parse_number(*company) or 0 for company in sample_numbers(10_000, seed=1)]
FEW = [node for node in SAMPLE[:1500] if is_found(World(), node)]

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
    node = parse_number(identifier["country"], identifier["companyNumber"])
    assert node is not None
    return node


@cache
def records():
    return [(node, record) for node in FEW for record in plain(list_financials(World(), node, 500, 0)[0])]


# --- a company always answers the same -------------------------------------------------------------------------------


@given(worlds, nodes, st.integers(1, 25), st.integers(0, 25))
def test_a_company_answers_the_same_every_time_and_its_pages_are_cut_from_the_whole(world, node, limit, offset):
    same = World(world.seed, world.week, has_history=world.has_history)
    assert describe(world, node) == describe(same, node)
    records, total = list_financials(world, node, 500, 0)
    assert len(records) == total <= 20
    assert list_financials(world, node, limit, offset) == (records[offset : offset + limit], total)


def test_another_seed_is_another_world():
    assert [describe(World(1), node) for node in FEW[:20]] != [describe(World(2), node) for node in FEW[:20]]


def test_the_world_stays_as_it_is_from_version_to_version():
    """Whoever keeps an answer of the sandbox as a golden file relies on it."""
    node = parse_number("BE", "0403227515") or 0
    record = plain(list_financials(World(), node, 1, 0)[0])[0]
    assert identify(World(), node, "EN")["name"] == "Vesdredis Construction CV"
    assert record["dateReceived"] == "2025-09-05"
    assert record["profitability"]["revenue"] == 153683.93


def test_texts_follow_the_language():
    places = {tuple(identify(World(), node, language)["place"] for language in ("NL", "FR", "EN")) for node in FEW}
    assert ("Brussel", "Bruxelles", "Brussels") in places
    names = [tuple(identify(World(), node, language)["name"] for language in ("NL", "FR", "EN")) for node in FEW[:100]]
    assert sum(len(set(name)) > 1 for name in names) > 80


# --- financials ------------------------------------------------------------------------------------------------------


def test_periods_are_one_to_twenty_and_eight_on_average():
    counts = [list_financials(World(), node, 0, 0)[1] for node in SAMPLE]
    assert set(counts) == set(range(1, 21))
    assert 7.7 < sum(counts) / len(counts) < 8.3


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


def test_amounts_have_two_decimals_and_ratios_four():
    for _, record in records():
        amounts = [
            *record["profitability"].values(),
            *record["solvency"].values(),
            *list(record["liquidity"].values())[:4],
        ]
        assert all(amount is None or round(amount, 2) == amount for amount in amounts)
        ratios = [record["liquidity"][name] for name in ("currentRatio", "quickRatio")]
        assert all(round(ratio, 4) == ratio for ratio in ratios)


def is_of_another_length(record):
    days = (date.fromisoformat(record["endDate"]) - date.fromisoformat(record["startDate"])).days
    return not 364 <= days <= 366


def adds_up(record):
    part = record["solvency"]
    sums = (
        part["equity"] + part["debt"] - part["totalAssets"],
        part["longTermDebt"] + part["shortTermDebt"] - part["debt"],
    )
    people = record["people"]["employeeMaleRatio"] + record["people"]["employeeFemaleRatio"] - 1
    return part["totalAssets"] > 1e10 or (max(map(abs, sums)) < 0.02 and abs(people) < 1e-6)


# Which share of all records is so, at least and at most: as varied as real ones.
SHARES = {
    "another length": (is_of_another_length, 0.002, 0.03),
    "adds up": (adds_up, 0.95, 1),
    "no revenue": (lambda record: record["profitability"]["revenue"] is None, 0.1, 0.3),
    "no capital": (lambda record: record["solvency"]["capital"] is None, 0.02, 0.15),
    "a loss": (lambda record: record["profitability"]["netProfit"] < 0, 0.1, 0.6),
    "negative equity": (lambda record: record["solvency"]["equity"] < 0, 0.03, 0.2),
    "large": (lambda record: record["solvency"]["totalAssets"] > 1e9, 0.01, 0.06),
    "negative health": (lambda record: record["healthIndicator"] < 0, 0, 1),
    "committee 200": (lambda record: "200" in record["jointCommitteeCodes"], 0, 1),
    "no committee": (lambda record: not record["jointCommitteeCodes"], 0, 1),
}


def test_accounts_are_as_varied_as_real_ones():
    for name, (is_so, least, most) in SHARES.items():
        found = [is_so(record) for _, record in records()]
        assert least < sum(found) / len(found) < most, name


def test_few_companies_are_unknown_and_few_periods_filed_twice():
    assert 0.016 < 1 - sum(is_found(World(), node) for node in SAMPLE) / len(SAMPLE) < 0.024
    keys = [(node, record["endDate"]) for node, record in records()]
    assert 0.002 < 1 - len(set(keys)) / len(keys) < 0.02


# --- lookalikes ------------------------------------------------------------------------------------------------------


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


def test_lookalikes_are_shared_and_often_mutual():
    likes = {node: {node_of(entry["companyId"]) for entry in plain(list_lookalikes(World(), node))} for node in FEW}
    pairs = [(node, other) for node, others in likes.items() for other in others if other in likes]
    assert sum(node in likes[other] for node, other in pairs) > len(pairs) / 10
    assert len(set().union(*likes.values())) < sum(map(len, likes.values())) / 3


# --- relationships ---------------------------------------------------------------------------------------------------


def edges(world, node, side):
    """The companies that a company names on one side, with stake and function."""
    entries = plain(list_relationships(world, node, "EN"))[side]
    return [(node_of(one["identifier"]), one["percentage"], one["function"]) for one in entries if one["identifier"]]


@given(plain_worlds, nodes)
@examples(200)
def test_parents_and_children_mirror_each_other(world, node):
    if not is_found(world, node):
        return
    for other, stake, function in edges(world, node, "parents"):
        assert (node, stake, function) in edges(world, other, "children")
    for other, stake, function in edges(world, node, "children"):
        assert (node, stake, function) in edges(world, other, "parents")


def test_owners_are_companies_persons_and_anonymous():
    entries = [entry for node in FEW for entry in plain(list_relationships(World(), node, "EN"))["parents"]]
    companies = [entry for entry in entries if entry["identifier"]]
    persons = [entry for entry in entries if not entry["identifier"] and "name" in entry]
    anonymous = [entry for entry in entries if entry == {"identifier": None}]
    assert len(companies) + len(persons) + len(anonymous) == len(entries)
    assert min(len(companies), len(persons), len(anonymous)) > 100
    for entry in companies:
        assert entry["name"] == entry["identifier"]["name"]
        assert entry["identifier"]["place"]
    functions = [entry["function"] for entry in companies]
    assert 0.85 < functions.count("SHAREHOLDER") / len(functions) < 1


def test_there_are_chains_cycles_and_companies_with_nobody():
    owners = {
        node: [other for other, _, _ in edges(World(), node, "parents")]
        for node in SAMPLE[:6000]
        if is_found(World(), node)
    }
    assert any(node in owners[other] for node, others in owners.items() for other in others if other in owners)
    assert any(node in others for node, others in owners.items())
    assert max(climb(owners, node) for node in owners) > 15
    alone = [node for node in FEW if not any(plain(list_relationships(World(), node, "EN")).values())]
    assert 0.05 < len(alone) / len(FEW) < 0.4
    assert any(other >> BASE_BITS != node >> BASE_BITS for node, others in owners.items() for other in others)


def climb(owners, node):
    """How many different companies there are on the way up by first parents."""
    seen = set()
    while node in owners and node not in seen and owners[node]:
        seen.add(node)
        node = owners[node][0]
    return len(seen)


# --- from week to week -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_kind_of_change_happens():
    kinds = set()
    later = World(week=25)
    for node in SAMPLE[:2500]:
        before, after = describe(World(), node), describe(later, node)
        if before is None or after is None:
            kinds |= {"appeared"} if after else {"vanished"} if before else set()
            continue
        if before[1] != after[1]:
            kinds |= set(name_changes(plain(before[1][0]), plain(after[1][0])))
        if before[2] != after[2]:
            kinds.add("lookalike in or out")
        old, new = dict(stakes(before[3])), dict(stakes(after[3]))
        kinds |= {"parent gone"} if old.keys() - new.keys() else set()
        kinds |= {"parent new"} if new.keys() - old.keys() else set()
        kinds |= {"stake changed"} if any(old[key] != new[key] for key in old.keys() & new.keys()) else set()
    assert kinds == {
        "appeared", "vanished", "new period", "restated", "health changed", "lookalike in or out",
        "parent gone", "parent new", "stake changed",
    }  # fmt: skip


def stakes(relationships):
    for entry in plain(relationships)["parents"]:
        if entry["identifier"]:
            yield entry["identifier"]["companyNumber"], entry["percentage"]


def name_changes(before, after):
    """What happened to a company's accounts."""
    if after[0]["endDate"] != before[0]["endDate"]:
        yield "new period"
    old = {record["dateReceived"]: record for record in before}
    for record in after:
        known = old.get(record["dateReceived"], record)
        assert (known["startDate"], known["endDate"]) == (record["startDate"], record["endDate"])
        if known["healthIndicator"] != record["healthIndicator"]:
            yield "health changed"
        if known["profitability"] != record["profitability"]:
            yield "restated"


def test_some_that_vanish_come_back():
    history = [[is_found(World(week=week), node) for week in range(0, 45, 2)] for node in SAMPLE[:4000]]
    assert any(weeks[0] and not all(weeks) and weeks[-1] for weeks in history)


def test_a_number_is_spelled_as_the_world_spells():
    node = parse_number("BE", "0403227515") or 0
    assert identify(World(), node, "EN")["companyNumber"] == "403227515"
    assert identify(World(is_zero_dropped=False), node, "EN")["companyNumber"] == spell_number(node) == "0403227515"


# --- a world with a history differs in what happens later, and in nothing else ----------------------------------------

SOME = SAMPLE[:1500]
WITHOUT, LATER = World(week=30), World(week=30, has_history=True)


def test_in_week_0_nothing_has_happened():
    before, world = World(), World(has_history=True)
    for node in SOME[:300]:
        assert is_found(before, node) == is_found(world, node)
        assert identify(before, node, "EN") == identify(world, node, "EN")
        assert list_financials(before, node, 500, 0) == list_financials(world, node, 500, 0)
        assert list_relationships(before, node, "EN") == list_relationships(world, node, "EN")


EVENTS = ("renamed", "moved", "function", "end corrected", "refiled", "in thousands", "committees", "emptied")
_CHANGED = {
    "end corrected": {"endDate"},
    "refiled": {"dateReceived", "solvency"},
    "in thousands": {"profitability", "liquidity", "solvency"},
    "committees": {"jointCommitteeCodes"},
}


@pytest.mark.parametrize("event", _CHANGED)
def test_each_event_changes_one_period_in_its_own_way(event):
    seen = 0
    for node in SOME:
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


def test_names_and_places_change_in_every_language():
    for event, part in (("renamed", "name"), ("moved", "place")):
        moved = [node for node in SOME if list_events(LATER, node, event) and is_found(LATER, node)]
        assert len(moved) > 100
        for node in moved:
            for language in ("NL", "FR", "EN"):
                before, after = (identify(world, node, language) for world in (WITHOUT, LATER))
                assert before[part] != after[part]


def test_some_are_away_while_they_file_and_return_with_new_accounts():
    returned = 0
    for node in SOME:
        found = [is_found(World(week=week, has_history=True), node) for week in range(20)]
        if found[0] and found[-1] and not all(found) and all(is_found(World(week=week), node) for week in range(20)):
            first, last = (plain(list_financials(World(week=week), node, 1, 0)[0])[0]["endDate"] for week in (0, 19))
            assert date.fromisoformat(last) > date.fromisoformat(first)
            returned += 1
    assert returned > 5


def test_an_empty_answer_comes_back():
    emptied = [
        (node, week)
        for week in range(1, 12)
        for node in SOME[:400]
        if is_found(World(week=week), node) and not list_financials(World(week=week, has_history=True), node, 0, 0)[1]
    ]
    assert len(emptied) > 10
    assert all(list_financials(World(week=week + 2, has_history=True), node, 0, 0)[1] for node, week in emptied)
