"""Company lists in the warehouse: a run brings the next version of its list; its past can be asked for."""

from __future__ import annotations

import pytest

from firmlake.core.settings import RunSettings
from firmlake.rebuild.rename_list import change_name
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import newest, open_warehouse, publish
from firmlake.warehouse.list_names import NameChange, record_name_change
from firmlake.warehouse.lists import drop_list, rename_list
from support import ACME, BOLT, CIRC, DAY, NOON, publish_list, publish_two_lists, query, slow, with_views


def lines(folders, table="list_members"):
    return query(folders, f"SELECT list_name, line, company_number, status FROM {table} ORDER BY ALL")


def test_a_list_has_a_version_for_each_run_that_changed_it(folders):
    """And the view of moves tells who joined and who left; names that differ in case alone are one list."""
    first = [ACME, None, ACME, BOLT]
    publish_list(folders, first, day=0)
    assert [(line, status) for _, line, _, status in lines(folders)] == [
        (2, "accepted"), (3, "refused"), (4, "repeated"), (5, "accepted"),
    ]  # fmt: skip
    assert query(folders, "SELECT line_count, company_count FROM company_lists") == [(4, 2)]
    publish_list(folders, first, day=2)
    assert query(folders, "SELECT DISTINCT valid_from_run FROM list_members") == [("2026-0",)]
    assert query(folders, "SELECT run_id FROM company_lists") == [("2026-2",)]
    assert lines(folders, "list_members_history") == []
    publish_list(folders, [CIRC, *first[:3]], day=4)
    rows = query(folders, "SELECT line, company_number, valid_from_run FROM list_members ORDER BY line")
    assert rows == [
        (2, CIRC[1], "2026-4"),
        *((line, one and one[1], "2026-0") for line, one in enumerate(first[:3], 3)),
    ]
    assert lines(folders, "list_members_history") == [("customers", 5, BOLT[1], "accepted")]
    publish_list(folders, [BOLT], day=3)
    assert lines(folders)[0] == ("customers", 2, CIRC[1], "accepted"), "a run that was planned earlier changes nothing"
    publish_list(folders, [CIRC, *first], day=5)
    publish_list(folders, [ACME], day=6, name="Customers", cells=[{"owner": "An"}])
    assert lines(folders) == [("customers", 2, ACME[1], "accepted")]
    with_views(folders)
    assert query(folders, "SELECT run_id, move, company_number FROM list_moves ORDER BY ALL") == [
        ("2026-4", "joined", CIRC[1]), ("2026-4", "left", BOLT[1]), ("2026-5", "joined", BOLT[1]),
        ("2026-6", "left", BOLT[1]), ("2026-6", "left", CIRC[1]),
    ]  # fmt: skip


@pytest.mark.parametrize("names", [['the "best"', "companies"], *slow(["key accounts", "o'hara", "2026.01", "é"])])
@pytest.mark.slow
def test_each_list_is_a_view_and_a_set_of_seeds(folders, names):
    for day, name in enumerate(names):
        publish_list(folders, [ACME, None, BOLT], day=day, name=name)
    with_views(folders)
    for name in names:
        assert_is_view(folders, name)


def assert_is_view(folders, name):
    quoted = name.replace('"', '""')
    assert query(folders, f'SELECT line, company FROM lists."{quoted}"') == [
        (2, f"BE {ACME[1]}"), (3, None), (4, f"NL {BOLT[1]}"),
    ]  # fmt: skip
    text = name.replace("'", "''")
    assert query(folders, f"SELECT count(*) FROM prospects('{text}', 5)") == [(0,)]


def test_the_view_of_a_list_goes_with_its_name(folders):
    publish_two_lists(folders)
    for name, new_name in (("customers", "Customers"), ("Customers", "clients"), ("others", "")):
        change_name(folders, RunSettings(), name, new_name, lambda: NOON + 5 * DAY)
    publish_list(folders, [CIRC], day=6, name="customers")
    with_views(folders)
    views = "SELECT view_name FROM duckdb_views() WHERE schema_name = 'lists' ORDER BY ALL"
    assert query(folders, views) == [("clients",), ("customers",)]
    assert query(folders, "SELECT company_number FROM lists.clients ORDER BY ALL") == [(ACME[1],), (BOLT[1],)]
    assert query(folders, "SELECT company_number FROM query_table(list_or_table('Customers'))") == [(CIRC[1],)]


@pytest.mark.slow
def test_a_renamed_list_keeps_its_past_and_a_replay_gives_it_the_new_name(folders):
    publish_list(folders, [ACME], day=0)
    publish_list(folders, [BOLT], day=1)
    publish_list(folders, [CIRC], day=2, name="other")
    record_name_change(folders, NameChange(at=NOON + 5 * DAY, name="customers", new_name="clients"))
    record_name_change(folders, NameChange(at=NOON + 5 * DAY, name="other"))

    def change(connection, _):
        rename_list(connection, "customers", "clients")
        drop_list(connection, "other")

    publish(folders, change, memory_limit="256MB", keep=9, start=newest(folders))
    publish_list(folders, [ACME, CIRC], day=6, name="customers")
    expected = [
        ("clients", 2, BOLT[1], "accepted"),
        ("customers", 2, ACME[1], "accepted"),
        ("customers", 3, CIRC[1], "accepted"),
    ]
    assert lines(folders) == expected
    assert lines(folders, "list_members_history") == [("clients", 2, ACME[1], "accepted")]
    before = hashes(folders)
    replay(folders, lambda: NOON, settings=RunSettings(keep_generations=9))
    assert hashes(folders) == before


def hashes(folders):
    with open_warehouse(folders) as connection:
        found = content_hashes(connection)
    return {
        table: found[table]
        for table in ("company_lists", "company_lists_history", "list_members", "list_members_history")
    }
