"""Groups followed portion by portion are those of the views, and need less memory."""

from __future__ import annotations

import random

from firmlake.warehouse import group_portions
from firmlake.warehouse.group_portions import gather_owners, measure_groups, number_groups

from .test_groups import Owners, key

COMPANIES = "SELECT country, company_number FROM companies"


def test_portions_have_the_groups_and_owners_of_the_views_in_any_graph(monkeypatch):
    monkeypatch.setattr(group_portions, "_START", 3)
    chance = random.Random(5)
    graph = Owners()
    for company in range(40):
        graph.answered(company)
    for _ in range(70):
        graph.names_parent(chance.randrange(50), chance.randrange(50), chance.choice((0.3, 0.5, 0.9)))
    graph.names_parent(1, None, 0.8, name="A person")
    graph.made()
    sizes = graph.ask("SELECT head_id, is_ring, count(*) FROM groups(0.5) GROUP BY ALL ORDER BY 3 DESC, 1")
    members = graph.ask("FROM groups(0.5) ORDER BY ALL")
    owners = graph.ask("FROM ultimate_owners WHERE id IN (SELECT country || company_number FROM companies) ORDER BY id")
    measure_groups(graph.connection, 2)
    assert graph.ask("FROM group_sizes ORDER BY member_count DESC, head_id") == sizes
    largest = {head for head, *_ in sizes[:2]}
    assert graph.ask("FROM members ORDER BY ALL") == [row for row in members if row[0] in largest]
    gather_owners(graph.connection, COMPANIES)
    assert len(owners) > 10
    assert graph.ask("FROM temp.ultimate_owners ORDER BY id") == owners


def test_more_pairs_of_head_and_member_than_fit_into_memory_are_divided():
    graph = Owners()
    for head in range(400):
        graph.names_parent(1000, head, 0.9)
    for member in range(2000, 3000):
        graph.names_parent(member, 1000, 0.9)
    graph.made()
    graph.connection.execute(
        "INSERT INTO companies BY NAME SELECT DISTINCT country, company_number, 'r' AS run_id, 'r' AS valid_from_run "
        "FROM relationships"
    )
    assert graph.ask("SELECT count(*) FROM groups(0.5)") == [(400 * 1002,)]
    graph.connection.execute("SET temp_directory = ''; SET memory_limit = '40MB'")
    measure_groups(graph.connection, 1)
    assert graph.ask("SELECT count(*), min(member_count), max(member_count) FROM group_sizes") == [(400, 1002, 1002)]
    assert graph.ask("SELECT DISTINCT head_id FROM members") == [(key(0),)]
    number_groups(graph.connection)
    gather_owners(graph.connection, f"{COMPANIES} WHERE company_number < '00002100'")
    assert graph.ask("SELECT count(*) FROM temp.ultimate_owners") == [(101,)]
