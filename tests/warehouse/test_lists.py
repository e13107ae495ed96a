"""Company lists in the warehouse: a run brings the next version of its list; its past can be asked for."""

from __future__ import annotations

import pytest

from firmlake.core.settings import RunSettings
from firmlake.rebuild.replay import replay
from firmlake.rebuild.verify import content_hashes
from firmlake.warehouse.generations import newest, open_warehouse, publish
from firmlake.warehouse.list_names import NameChange, record_name_change
from firmlake.warehouse.lists import drop_list, rename_list
from support import ACME, BOLT, CIRC, DAY, NOON, publish_list, query, slow, with_views


def lines(folders, table="list_members"):
    return query(folders, f"SELECT list_name, line, company_number, status FROM {table} ORDER BY ALL")


def test_every_line_is_there_once_and_a_second_one_of_a_company_is_repeated(folders):
    publish_list(folders, [ACME, None, ACME, BOLT], day=0)
    assert [(line, status) for _, line, _, status in lines(folders)] == [
        (2, "accepted"), (3, "refused"), (4, "repeated"), (5, "accepted"),
    ]  # fmt: skip
    assert query(folders, "SELECT line_count, company_count FROM company_lists") == [(4, 2)]


def test_the_same_list_again_writes_no_line(folders):
    for day in (0, 1):
        publish_list(folders, [ACME, BOLT], day=day)
    assert query(folders, "SELECT count(*) FROM list_members_history") == [(0,)]
    assert query(folders, "SELECT DISTINCT valid_from_run FROM list_members") == [("2026-0",)]
    assert query(folders, "SELECT run_id FROM company_lists") == [("2026-1",)]


def test_a_line_that_only_moved_is_no_new_line(folders):
    publish_list(folders, [ACME, BOLT], day=0)
    publish_list(folders, [CIRC, ACME, BOLT], day=1)
    rows = query(folders, "SELECT line, company_number, valid_from_run FROM list_members ORDER BY line")
    assert rows == [(2, CIRC[1], "2026-1"), (3, ACME[1], "2026-0"), (4, BOLT[1], "2026-0")]
    assert lines(folders, "list_members_history") == []


@pytest.mark.slow
def test_the_view_of_moves_tells_who_joined_and_who_left(folders):
    publish_list(folders, [ACME, BOLT], day=0)
    publish_list(folders, [ACME, CIRC], day=1)
    publish_list(folders, [ACME, CIRC, BOLT], day=2)
    publish_list(folders, [ACME], day=3, cells=[{"owner": "An"}])
    with_views(folders)
    moves = query(folders, "SELECT run_id, move, company_number FROM list_moves ORDER BY ALL")
    assert moves == [
        ("2026-1", "joined", CIRC[1]),
        ("2026-1", "left", BOLT[1]),
        ("2026-2", "joined", BOLT[1]),
        ("2026-3", "left", BOLT[1]),
        ("2026-3", "left", CIRC[1]),
    ]


def test_a_run_that_was_planned_earlier_brings_no_older_version_back(folders):
    publish_list(folders, [ACME], day=3)
    publish_list(folders, [BOLT], day=1)
    assert [row[2] for row in lines(folders)] == [ACME[1]]


@pytest.mark.slow
def test_names_that_differ_in_case_alone_are_one_list(folders):
    publish_list(folders, [ACME], day=0)
    publish_list(folders, [BOLT], day=1, name="Customers")
    assert lines(folders) == [("customers", 2, BOLT[1], "accepted")]


@pytest.mark.parametrize(
    "name", ['the "best"', "companies", *slow("customers", "key accounts", "o'hara", "2026.01", "é")]
)
def test_each_list_is_a_view_and_a_set_of_seeds(folders, name):
    publish_list(folders, [ACME, None, BOLT], day=0, name=name)
    with_views(folders)
    quoted = name.replace('"', '""')
    assert query(folders, f'SELECT line, company FROM lists."{quoted}"') == [
        (2, f"BE {ACME[1]}"), (3, None), (4, f"NL {BOLT[1]}"),
    ]  # fmt: skip
    text = name.replace("'", "''")
    assert query(folders, f"SELECT count(*) FROM prospects('{text}', 5)") == [(0,)]


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
