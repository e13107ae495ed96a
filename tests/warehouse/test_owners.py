"""Groups, effective stakes and beneficial owners are those of a search in plain Python, in any graph."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmlake.report.sections import SectionTables
from firmlake.warehouse.list_names import restrict
from firmlake.warehouse.views import create_view, definitions
from support import examples, slow

from .figures import Figures, key, number

# --- groups -----------------------------------------------------------------------------------------------------------

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
RING_BELOW_A_PERSON = {("Ann", 1): (0.5, False), (1, 2): (1, True), (2, 3): (0.5, True), (3, 1): (0.5, True)}
TWO_RINGS_AND_A_HEAD = {
    (2, 1): (0.5, True), (1, 2): (0.5, True), (4, 5): (1, True), (5, 4): (1, True), (5, 6): (0.5, True),
    (1, 6): (0.5, True), (7, 6): (0.5, False), (6, 8): (0.9, True), (8, 8): (1, True), (9, 8): (WITHHELD, True),
}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    made = Figures().made()
    for company in COMPANIES:
        made.add("companies", company, name=NAMES.get(company))
    return made


def load(made, graph):
    """Let the warehouse hold a graph instead of the one before; only tables are made again, as by a second load."""
    made.connection.execute("DELETE FROM relationships_versions")
    for (owner, company), (stake, is_told_by_owner) in graph.items():
        if is_told_by_owner and not isinstance(owner, str):
            made.owned(company, owner, stake)
        else:
            made.owner(company, owner or None, stake)
    for definition in MADE:
        create_view(made.connection, definition)


def followed(graph, threshold):
    """The stakes that groups follow, by id."""
    return {
        (f"{key(company)}/p/{owner}" if isinstance(owner, str) else key(owner), key(company))
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


@examples(40)
@given(GRAPHS)
@example(RING_BELOW_A_PERSON)
@example(TWO_RINGS_AND_A_HEAD)
@pytest.mark.slow
def test_groups_and_owners_are_those_of_a_search_in_any_graph(world, graph):
    """Rings, self-holdings, persons, several owners, withheld stakes, and stakes exactly at the threshold."""
    load(world, graph)
    for threshold in (0.5, 0.500001, 0.3):
        rows = world.ask(f"SELECT head_id, id FROM groups({threshold})")
        assert Counter(rows) == Counter(search_groups(followed(graph, threshold)))
    heads = {}
    for top, one in search_groups(followed(graph, 0.5)):
        heads.setdefault(one, set()).add(top)
    assert set(world.ask("FROM ultimate_owners")) == {
        (one, joined(map(named, tops)), joined(f"NL {top[2:]}" for top in tops if "/" not in top))
        for one, tops in heads.items()
        if one not in tops
    }
    # The table is the macro at a half, each member is in one branch, and the report counts the members.
    both = "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0}))"
    assert world.ask(both.format("FROM branches_at_half", "FROM group_branches(0.5)")) == [(0,)]
    assert world.ask("SELECT id FROM branches_at_half WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1") == []
    SectionTables(world.connection, "report").prepare("FROM group_sizes")
    counted = "SELECT head_id, is_ring, count(*) FROM groups(0.5) GROUP BY ALL"
    assert world.ask(both.format("FROM group_sizes", counted)) == [(0,)]


def test_more_pairs_of_head_and_member_than_fit_into_memory_take_a_row_for_each_of_them():
    made = Figures()
    members = "SELECT i AS company, 1000 AS owner FROM range(2000, 3000) t(i)"
    made.connection.execute(
        "INSERT INTO relationships_versions BY NAME SELECT 'NL' AS country, printf('%08d', company) AS company_number, "
        "'parent' AS direction, owner AS position, 'company' AS related_kind, 'NL' AS related_country, "
        "printf('%08d', owner) AS related_company_number, 'SHAREHOLDER' AS \"function\", 0.9 AS stake_fraction, "
        "TIMESTAMP '2026-01-05' AS fetched_at, 'r' AS run_id, 1 AS valid_from "
        f"FROM ({members} UNION ALL SELECT 1000, i FROM range(400) t(i))"
    )
    made.made()
    assert made.ask("SELECT count(*) FROM groups(0.5)") == [(400 * 1002,)]
    # 400 heads of their own branch and of the other, and 1,401 members.
    assert made.ask("SELECT count(*) FROM branches_at_half") == [(800 + 1401,)]


@pytest.mark.slow
def test_contradictory_stakes_in_one_large_ring_come_to_an_end():
    """All owners of all: stakes add up to far more than the whole, and ways multiply at each step."""
    steps, companies = (1, 7, 31, 61), range(100)
    made = Figures().owners(*((one, (one + step) % 100, 0.6) for one in companies for step in steps)).made()
    assert made.ask(f"SELECT id FROM ultimate_parents('NL', '{number(5)}', 0.5)") == [(key(0),)]
    assert {one for (one,) in made.ask(f"SELECT id FROM group_of('NL', '{number(5)}')")} == set(map(key, companies))
    for relation in ("owners_of", "holdings_of"):
        rows = made.ask(f"SELECT id, effective_fraction, is_in_ring FROM {relation}('NL', '{number(5)}')")
        assert len(rows) == 99
        assert all(stake <= 1 and is_in_ring for _, stake, is_in_ring in rows)


@pytest.mark.slow
def test_a_list_hides_no_owner_and_no_group_of_its_companies():
    """Owners are often on no list, and persons never are. The figures are those of listed companies only."""
    made = Figures().owners((2, 1, 0.9), (3, 2, 0.9), (13, "Ann", 0.9), (32, 31, 0.9))
    made.owners((22, 21, 0.6), (23, 22, 0.6), (21, 23, 0.6), (41, 42, 0.6), (42, 41, 0.6))
    for company in (1, 2, 3, 13, 21, 31, 32):
        made.files(company, employee_count=company)
    made.list_of("customers", *((company, "") for company in (2, 3, 13, 21)))
    made.made()
    restrict(made.connection, "customers")
    assert set(made.ask(f"SELECT id FROM group_of('NL', '{number(3)}')")) == {(key(1),), (key(2),), (key(3),)}
    assert made.ask(f"SELECT head_id, employee_count FROM group_rollup('NL', '{number(3)}')") == [(key(1), 2 + 3)]
    for company, top in ((3, key(1)), (13, key(13) + "/p/Ann")):
        assert made.ask(f"SELECT id FROM ultimate_parents('NL', '{number(company)}', 0.5)") == [(top,)]
    assert set(made.ask(f"SELECT id FROM owners_of('NL', '{number(3)}')")) == {(key(1),), (key(2),)}
    assert made.ask("SELECT ring FROM ownership_rings ORDER BY ring LIMIT 1") == [([key(21), key(22), key(23)],)]
    SectionTables(made.connection, "report").prepare("FROM group_sizes")
    groups = made.ask("SELECT head_id, member_count FROM group_sizes ORDER BY ALL")
    assert groups == [(key(1), 3), (key(13) + "/p/Ann", 2), (key(21), 3)]
    assert {row[3] for row in made.ask("FROM findings")} <= {number(2), number(3), number(13), number(21)}
    for definition in definitions():
        if definition.kind in ("view", "macro"):
            made.ask(f"FROM {definition.example} LIMIT 1")


# --- effective stakes -------------------------------------------------------------------------------------------------


def add_up(edges, start):
    """Effective stakes of a company in all others, step by step until nothing is left."""
    total, current = Counter(), {start: 1.0}
    while current:
        following = Counter()
        for (parent, child), stake in edges.items():
            if parent in current and child != start:
                following[child] += current[parent] * stake
        current = {company: stake for company, stake in following.items() if stake > 1e-12}
        total.update(current)
    return total


@pytest.mark.parametrize("seed", [0, *slow(1)])
@pytest.mark.slow
def test_effective_stakes_are_the_sum_over_all_paths_in_any_graph(seed):
    chance, edges = random.Random(seed), {}
    for child in range(20):
        for parent in chance.sample(range(20), chance.randrange(4)):
            edges[parent, child] = chance.choice((0.05, 0.1, 0.25, 0.3))
    made = Figures().owners(*((child, parent, stake) for (parent, child), stake in edges.items())).made()
    for start in range(0, 20, 4):
        rows = made.ask(f"SELECT id, effective_fraction FROM holdings_of('NL', '{number(start)}')")
        expected = add_up(edges, start)
        assert {one for one, _ in rows} == {key(company) for company in expected}
        for one, stake in rows:
            assert float(stake) == pytest.approx(expected[int(one[2:])], abs=2e-6)
            above = f"SELECT effective_fraction FROM owners_of('NL', '{one[2:]}') WHERE id = '{key(start)}'"
            assert made.ask(above) == [(stake,)]


# --- beneficial owners by Regulation (EU) 2024/1624 -------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
@pytest.mark.slow
def test_owners_in_a_drawn_world_with_rings_are_those_that_plain_python_finds(seed):
    chance = random.Random(seed)
    companies = range(1, 41)
    stakes = {}
    for company in companies:
        left = 1.0
        for owner in [chance.choice(companies) for _ in range(chance.randint(0, 2))] + [
            f"{chance.choice('ABCDE')} {chance.randint(1, 3)}" for _ in range(chance.randint(0, 3))
        ]:
            stake = round(chance.uniform(0, left), 2)
            if stake and owner != company and (company, owner) not in stakes:
                stakes[company, owner] = stake
                left -= stake
    made = Figures().owners(*((*pair, stake) for pair, stake in stakes.items()))
    for company in companies:
        made.knows(company)
    made.list_of("customers", *((company, "1") for company in companies))
    above = defaultdict(dict)
    for (child, owner), stake in stakes.items():
        above[child][owner if isinstance(owner, int) else (child, owner)] = stake
    expected = defaultdict(list)
    for company in companies:
        for owner, (stake, basis) in _owners(above, company).items():
            expected[number(company), owner[1]].append((stake, basis))
    found = {}
    for company, name, stake, basis in made.made().ask(
        "SELECT company_number, owner_name, effective_fraction::DOUBLE, basis FROM beneficial_owners('customers') "
        "WHERE owner_kind <> 'company' AND basis NOT LIKE '%equal names%'"
    ):
        found.setdefault((company, name), []).append((stake, basis))
    assert len(expected) > 20
    assert {pair: sorted(rows) for pair, rows in found.items()} == {
        pair: [(pytest.approx(stake, abs=2e-6), basis) for stake, basis in sorted(rows)]
        for pair, rows in expected.items()
    }


def _owners(above, company):
    """Persons with a basis, by walks of at most 200 steps; a person is (company, name)."""
    controllers = _controllers(above, company)
    interests = _interests(above, company)
    directly = {}
    for owner, stake in above[company].items():
        for person in {owner} | _controllers(above, owner) - {company}:
            directly[person] = directly.get(person, 0) + stake
    found = {}
    for person, stake in interests.items():
        through = [_interests(above, each).get(person, 0) for each in controllers if isinstance(each, int)]
        grounds = [
            (stake >= 0.25 - 1e-9, "ownership"),
            (person in controllers, "control"),
            (directly.get(person, 0) >= 0.25 - 1e-9, "control of owners"),
            (max(through, default=0) >= 0.25 - 1e-9, "ownership of a controller"),
        ]
        basis = next((basis for holds, basis in grounds if holds), None)
        if basis and not isinstance(person, int):
            found[person] = stake, basis
    return found


def _interests(above, company):
    level, total = {company: 1.0}, defaultdict(float)
    for _ in range(200):
        higher = defaultdict(float)
        for owned, share in level.items():
            for owner, stake in above[owned].items() if isinstance(owned, int) else ():
                if owner != company:
                    higher[owner] += share * stake
        level = {owner: share for owner, share in higher.items() if share > 1e-9}
        for owner, share in level.items():
            total[owner] += share
    return total


def _controllers(above, company):
    found, waiting = set(), [company]
    while waiting:
        owned = waiting.pop()
        for owner, stake in above[owned].items() if isinstance(owned, int) else ():
            if stake > 0.5 and owner not in found and owner != company:
                found.add(owner)
                waiting.append(owner)
    return found
