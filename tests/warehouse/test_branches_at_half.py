"""Groups and owners that are read from the table `branches_at_half` are those of a search in plain Python."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmlake.core.settings import RunSettings
from firmlake.rebuild.replay import replay
from firmlake.report.sections import SectionTables
from firmlake.warehouse.views import create_view, definitions
from support import ACME, BOLT, CIRC, DAY, NOON, party, query, run_of, with_views

from .test_groups import Owners, key, number

COMPANIES = range(1, 15)
NAMES = {company: f"Company {company % 4}" for company in COMPANIES if company % 3}
"""Some have no name, and some share one."""
PERSONS = ("Ann", "Els", "")
MADE = [each for each in definitions() if each.name in ("ownership", "parties", "shareholdings", "branches_at_half")]

OWNERS = st.one_of(st.sampled_from(COMPANIES), st.sampled_from(PERSONS))
WITHHELD = None
STAKES = st.sampled_from([WITHHELD, 0, 0.3, 0.499999, 0.5, 0.500001, 1, 1.5])
GRAPHS = st.dictionaries(st.tuples(OWNERS, st.sampled_from(COMPANIES)), st.tuples(STAKES, st.booleans()), max_size=40)
"""Owner and company owned, with the stake and whether the owner tells of it. A person has no number, and "" no name."""


@pytest.fixture(scope="module")
def world():
    owners = Owners().made()
    for company in COMPANIES:
        owners.connection.execute(
            "INSERT INTO companies_versions BY NAME "
            "SELECT 'NL' AS country, ? AS company_number, ? AS name, 'r' AS run_id, 1 AS valid_from",
            [number(company), NAMES.get(company)],
        )
    return owners


def load(owners, graph):
    """Let the warehouse hold a graph instead of the one before; only tables are made again, as by a second load."""
    owners.connection.execute("DELETE FROM relationships_versions")
    owners.rows = []
    for (owner, company), (stake, is_told_by_owner) in graph.items():
        if isinstance(owner, str):
            owners.names_parent(company, None, stake, name=owner or None)
        elif is_told_by_owner:
            owners.names_child(owner, company, stake)
        else:
            owners.names_parent(company, owner, stake)
    owners.insert()
    for definition in MADE:
        create_view(owners.connection, definition)


def party_key(owner, company):
    return f"{key(company)}/p/{owner}" if isinstance(owner, str) else key(owner)


def followed(graph, threshold):
    """The stakes that groups follow, by id."""
    return {
        (party_key(owner, company), key(company))
        for (owner, company), (stake, _) in graph.items()
        if owner != company and stake and min(stake, 1) >= threshold
    }


def search_groups(edges):
    """Pairs of top and member: a top has nobody above but those that it is above of; a ring's is its first company."""
    above = {one: _climb(edges, one) for edge in edges for one in edge}
    return {
        (min({top, *above[top]}), one)
        for one in above
        for top in above[one] | {one}
        if all(top in above[other] for other in above[top])
    }


def _climb(edges, company):
    """All owners of a company, by search."""
    found, open_ends = set(), [company]
    while open_ends:
        child = open_ends.pop()
        for parent in (parent for parent, other in edges if other == child and parent not in found):
            found.add(parent)
            open_ends.append(parent)
    return found


def named(one):
    _, is_person, name = one.partition("/p/")
    return (name if is_person else NAMES.get(int(one[2:]))) or "(unidentified)"


def joined(texts):
    return "; ".join(sorted(set(texts))) or None


RING_BELOW_A_PERSON = {("Ann", 1): (0.5, False), (1, 2): (1, True), (2, 3): (0.5, True), (3, 1): (0.5, True)}
TWO_RINGS_AND_A_HEAD = {
    (2, 1): (0.5, True), (1, 2): (0.5, True), (4, 5): (1, True), (5, 4): (1, True), (5, 6): (0.5, True),
    (1, 6): (0.5, True), (7, 6): (0.5, False), (6, 8): (0.9, True), (8, 8): (1, True), (9, 8): (WITHHELD, True),
}  # fmt: skip


@given(GRAPHS)
@example(RING_BELOW_A_PERSON)
@example(TWO_RINGS_AND_A_HEAD)
def test_groups_and_owners_are_those_of_a_search_in_any_graph(world, graph):
    """Rings, self-holdings, persons, several owners, withheld stakes, and stakes exactly at the threshold."""
    load(world, graph)
    for threshold in (0.5, 0.500001, 0.3):
        expected = search_groups(followed(graph, threshold))
        told = world.ask(f"SELECT head_id, id FROM groups({threshold})")
        assert len(told) == len(set(told))
        assert set(told) == expected
    heads = {}
    for top, one in search_groups(followed(graph, 0.5)):
        heads.setdefault(one, set()).add(top)
    assert set(world.ask("FROM ultimate_owners")) == {
        (one, joined(map(named, tops)), joined(f"NL {top[2:]}" for top in tops if "/" not in top))
        for one, tops in heads.items()
        if one not in tops
    }


@given(GRAPHS)
def test_the_table_is_the_macro_at_half_and_each_member_is_in_one_branch(world, graph):
    load(world, graph)
    both = "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0}))"
    assert world.ask(both.format("FROM branches_at_half", "FROM group_branches(0.5)")) == [(0,)]
    assert world.ask("SELECT id FROM branches_at_half WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1") == []


@given(GRAPHS)
def test_the_report_counts_the_members_of_each_group(world, graph):
    load(world, graph)
    SectionTables(world.connection, "report").prepare("FROM group_sizes")
    counted = world.ask("SELECT head_id, is_ring, count(*) FROM groups(0.5) GROUP BY ALL")
    assert sorted(world.ask("FROM group_sizes")) == sorted(counted)


def test_a_load_of_a_few_companies_makes_the_owners_that_a_replay_makes(folders):
    def publish_owner(day, companies, owner):
        owned = {"relationships": [party(owner, percentage=0.5)]}
        run_of(folders, day, dict.fromkeys(companies, owned))
        with_views(folders)

    owners = "SELECT id, ultimate_parent_company FROM ultimate_owners ORDER BY id"
    acme, bolt, circ = ("".join(company) for company in (ACME, BOLT, CIRC))
    publish_owner(0, [ACME, BOLT], CIRC)
    assert query(folders, owners) == sorted((one, " ".join(CIRC)) for one in (acme, bolt))
    publish_owner(1, [BOLT], ACME)
    publish_owner(2, [CIRC], None)
    held = query(folders, owners)
    assert held == sorted((one, None) for one in (acme, bolt, circ))
    branches = query(folders, "FROM branches_at_half ORDER BY ALL")
    replay(folders, lambda: NOON + 9 * DAY, settings=RunSettings(keep_generations=2, storage_version="latest"))
    assert query(folders, "FROM branches_at_half ORDER BY ALL") == branches
    assert query(folders, owners) == held


def test_more_pairs_of_head_and_member_than_fit_into_memory_take_a_row_for_each_of_them():
    graph = Owners()
    for head in range(400):
        graph.names_parent(1000, head, 0.9)
    for member in range(2000, 3000):
        graph.names_parent(member, 1000, 0.9)
    graph.made()
    assert graph.ask("SELECT count(*) FROM groups(0.5)") == [(400 * 1002,)]
    # 400 heads of their own branch and of the other, and 1,401 members.
    assert graph.ask("SELECT count(*) FROM branches_at_half") == [(800 + 1401,)]
