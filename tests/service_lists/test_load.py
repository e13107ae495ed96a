"""What has landed about lists is in the warehouse once published, and verify and replay agree on it."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from firmlake.core.files import write_json
from firmlake.core.settings import RunSettings
from firmlake.landing.segments import Header, SegmentWriter
from firmlake.rebuild.replay import replay as _replay
from firmlake.rebuild.verify import verify
from firmlake.report.feed import query_changes
from firmlake.service_lists.contacts import Contact, ContactPlan, as_entries
from firmlake.service_lists.load import publish_lists
from firmlake.service_lists.overview import OverviewPlan, list_overviews
from firmlake.warehouse.generations import open_warehouse
from support import ACME, BOLT, DAY, NOON, edit_warehouse, land_run, publish_landed, query

SETTINGS = RunSettings(duckdb_memory="100MB")
SECOND = timedelta(seconds=1)
replay = partial(_replay, now=lambda: NOON + 9 * DAY)
verified = partial(verify, now=lambda: NOON + 9 * DAY)


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"List {number}",
        "type": "STATIC",
        "columns": ["country", "unheardOf"],
        "shared": False,
        "notifications": {"enabled": True},
        "amountOfCompanies": 5,
        "newResults": None,
        "updatedAt": "2026-01-01T10:00:00.123Z",
        "createdAt": "2025-01-01T10:00:00.000Z",
        "createdBy": "c0ffee",
        **changes,
    }


def land_overview(folders, at: datetime, *entries: dict[str, Any], kind: Any = "OVERVIEW", **more: Any) -> str:
    """Land an overview of one page."""
    name = f"{at:%Y%m%dT%H%M%SZ}-0001"
    folder = folders.overviews / f"overview={name}"
    plan = OverviewPlan(overview_id=name, kind=kind, service="x", started_at=at, firmlake_version="0", **more)
    write_json(folder / "plan.json", plan)
    page = {"data": entries, "pagination": {"limit": 500, "offset": 0, "total": len(entries)}}
    with SegmentWriter(folder) as writer:
        header = Header(
            run_id=name, shard=1, dataset="service_lists", companies=(), offset=0, status=200, fetched_at=at
        )
        writer.append(header, msgspec.json.encode(page))
    return name


def land_additions(folders, at: datetime, answer: dict[str, Any], *contacts: Contact, list_id: int = 1) -> str:
    """Land a plan of one request and its answer."""
    name = f"{at:%Y%m%dT%H%M%SZ}-0002"
    folder, entries = folders.additions / f"plan={name}", as_entries(contacts)
    plan = ContactPlan(
        plan_id=name, made_at=at, service="x", source="contacts.csv", list_id=list_id, list_name="List",
        list_type="STATIC", list_company_count=1, list_updated_at=None, requests=(entries,), already_added=(),
        refused=(), repaired_count=0, repeated_count=0, firmlake_version="0",
    )  # fmt: skip
    write_json(folder / "plan.json", plan)
    header = Header(request_id="r", run_id=name, shard=0, dataset="contacts", companies=(), fetched_at=at)
    with SegmentWriter(folder) as writer:
        writer.append(msgspec.structs.replace(header, kind="sending"), msgspec.json.encode(entries))
        writer.append(msgspec.structs.replace(header, status=200), msgspec.json.encode(answer))
    return name


def publish(folders, name: str, at: datetime) -> None:
    overview = next((one for one in list_overviews(folders) if one.plan.overview_id == name), None)
    publish_lists(folders, SETTINGS, name, lambda: at, overview)


def ids(folders) -> list[int]:
    return [number for (number,) in query(folders, "SELECT list_id FROM service_lists ORDER BY 1")]


TABLES_COMPARED = (
    "service_lists", "service_lists_history", "service_list_columns", "list_changes", "contact_additions", "drift",
    "companies", "runs",
)  # fmt: skip
ADDED = {"success": True, "message": "1 contact added", "failed": []}


def publish_lists_and_plans(folders):
    """A run, two overviews and two plans, published as they came."""
    publish_landed(land_run(folders, 0, {ACME: {"lookalikes": []}}), at=NOON)
    publish(folders, land_overview(folders, NOON + SECOND, entry(1), entry(2, extra=[1])), NOON + DAY)
    publish(folders, land_additions(folders, NOON + 2 * DAY, ADDED, Contact(*ACME, "7")), NOON + 3 * DAY)
    late = {"success": False, "message": "x", "failed": []}
    land_additions(folders, NOON + 4 * DAY, late, Contact(*ACME, "7"), Contact(*BOLT, "8"))
    publish(folders, land_overview(folders, NOON + 5 * DAY, entry(2, name="new"), entry(3)), NOON + 6 * DAY)


@pytest.fixture
def filled(copy_of):
    return copy_of(publish_lists_and_plans)


def test_lists_and_their_columns_are_those_of_the_newest_overview(filled):
    assert query(filled, "SELECT list_id, name, extra_json FROM service_lists ORDER BY 1") == [
        (2, "new", None),
        (3, "List 3", None),
    ]
    assert query(filled, "SELECT list_id, position, column_name FROM service_list_columns ORDER BY ALL") == [
        (number, position, name) for number in (2, 3) for position, name in enumerate(["country", "unheardOf"])
    ]
    times = query(filled, "SELECT DISTINCT updated_at, created_at FROM service_lists")
    assert times == [(datetime(2026, 1, 1, 10, 0, 0, 123_000), datetime(2025, 1, 1, 10))]
    drift = query(filled, "SELECT kind, path, record_count FROM drift WHERE run_id LIKE '20260105T12%' ORDER BY ALL")
    assert drift == [("new_field", "extra", 1), ("new_value", "columns[]=unheardOf", 2)]


@pytest.mark.slow
def test_once_added_stays_added_whatever_a_later_plan_came_to(filled):
    rows = query(filled, "SELECT contact_id, status, sent_count, run_id FROM contact_additions ORDER BY 1")
    assert [(contact, status, sent) for contact, status, sent, _ in rows] == [("7", "added", 2), ("8", "failed", 1)]
    assert rows[0][3] < rows[1][3]


@pytest.mark.slow
def test_what_is_made_of_companies_is_left_alone(filled):
    """Making it again takes a minute for a million companies."""
    edit_warehouse(filled, "ALTER TABLE portfolio ADD COLUMN mark INTEGER")
    publish(filled, land_overview(filled, NOON + 7 * DAY, entry(3)), NOON + 8 * DAY)
    assert query(filled, "SELECT count(mark) FROM portfolio") == [(0,)]


@pytest.mark.slow
def test_replay_makes_the_same(filled):
    before = {table: sorted(query(filled, f"FROM {table}"), key=str) for table in TABLES_COMPARED}
    replay(filled)
    assert {table: sorted(query(filled, f"FROM {table}"), key=str) for table in TABLES_COMPARED} == before
    assert query(filled, "SELECT count(*), count(DISTINCT generation) FROM loads") == [(4, 4)]


@pytest.mark.slow
def test_verify_leaves_out_what_landed_after_the_last_publish_and_replay_takes_in_all_but_looks(filled):
    land_overview(filled, NOON + 7 * DAY, entry(9))
    land_overview(filled, NOON + 8 * DAY, entry(10), is_look=True)
    land_additions(filled, NOON + 7 * DAY, ADDED, Contact(*BOLT, "9"))
    assert all(check.agrees for check in verified(filled))
    replay(filled)
    assert ids(filled) == [9]
    assert query(filled, "SELECT count(*) FROM contact_additions WHERE status = 'added'") == [(2,)]


@pytest.mark.slow
def test_what_an_overview_finds_changed_is_an_event_and_what_it_replaces_is_kept(folders):
    smart = entry(6, type="SMART", newResults=0)
    smart_later = {**smart, "newResults": 4}
    weeks = [
        [*(entry(number) for number in range(1, 6)), smart],
        [
            entry(1, name="other", shared=True), entry(2, amountOfCompanies=7), entry(3, amountOfCompanies=1), entry(5),
            smart_later,
        ],
        [entry(1, name="other"), entry(4), {**smart_later, "amountOfCompanies": 9}],
    ]  # fmt: skip
    names = [land_overview(folders, NOON + n * DAY, *lists) for n, lists in enumerate(weeks)]
    for n, name in enumerate(names):
        publish(folders, name, NOON + n * DAY)
    events = (
        "SELECT list_id, kind, old_value, new_value FROM list_changes WHERE run_id = '{}' ORDER BY list_id, position"
    )
    assert query(folders, events.format(names[0])) == []
    assert query(folders, events.format(names[1])) == [
        (1, "list_renamed", "List 1", "other"),
        (1, "list_shared", None, None),
        (2, "list_grew", "5", "7"),
        (3, "list_shrank", "5", "1"),
        (4, "list_gone", "List 4", None),
        (6, "list_new_results", "0", "4"),
    ]
    assert query(folders, events.format(names[2])) == [
        (1, "list_unshared", None, None),
        (2, "list_gone", "List 2", None),
        (3, "list_gone", "List 3", None),
        (5, "list_gone", "List 5", None),
    ]
    spans = "SELECT valid_from_run, valid_to_run FROM service_lists_history WHERE list_id = 4"
    assert query(folders, spans) == [(names[0], names[1])]
    assert query(folders, "SELECT valid_from_run FROM service_lists WHERE list_id = 4") == [(names[2],)]
    past = f"SELECT list_id FROM service_lists_as_of('{names[1]}') ORDER BY 1"
    assert [number for (number,) in query(folders, past)] == [1, 2, 3, 5, 6]


def test_odd_values_cost_no_list_and_are_drift_and_so_is_what_answers_about_contacts_have_beyond(folders):
    odd = entry(
        1, columns=None, updatedAt="12/03/2025", newResults="5", type="DYNAMIC", createdAt="2026-01-01T10:00:00+02:00"
    )
    lists = [{key: value for key, value in one.items() if key != "shared"} for one in (odd, entry(2))]
    publish(folders, land_overview(folders, NOON, *lists), NOON)
    columns = "is_shared, updated_at, new_result_count, created_at, extra_json"
    rows = query(folders, f"SELECT {columns} FROM service_lists WHERE list_id = 1")
    assert rows == [(None, None, 5, datetime(2026, 1, 1, 8), '{"updatedAt":"12/03/2025"}')]
    failure = {"companyIdentifier": {"country": "NL", "companyNumber": "1"}, "contacts": None, "message": "x", "x": 1}
    more = {"success": True, "failed": [failure], "warnings": ["w"]}
    publish(folders, land_additions(folders, NOON + DAY, more, Contact(*ACME, "7")), NOON + DAY)
    assert query(folders, "SELECT dataset, kind, path, example, record_count FROM drift ORDER BY ALL") == [
        ("contacts", "new_field", "$", '{"warnings":["w"]}', 1),
        ("contacts", "new_field", "failed[]", '{"x":1}', 1),
        ("contacts", "vanished_field", "message", None, 1),
        ("service_lists", "discarded_value", "updatedAt", '"12/03/2025"', 1),
        ("service_lists", "new_value", "columns[]=unheardOf", "unheardOf", 1),
        ("service_lists", "new_value", "type=DYNAMIC", "DYNAMIC", 1),
        ("service_lists", "text_for_number", "newResults", '"5"', 1),
        ("service_lists", "vanished_field", "shared", None, 2),
    ]


def told(folders, **choice) -> list[tuple[str, str | None, str]]:
    with open_warehouse(folders) as connection:
        rows = query_changes(connection, **choice, in_words=True).fetchall()
        return [(subject, name, event.replace(" ", "_")) for _, name, subject, event, *_ in rows]


@pytest.mark.slow
def test_the_feed_tells_of_lists_beside_companies(filled):
    lists = [("list 1", "List 1", "list_gone"), ("list 2", "new", "list_renamed")]
    company = ("BE 0403227515", "BE name", "company_appeared")
    assert told(filled) == [*lists, company]
    assert told(filled, since="2026-01-06") == lists
    assert told(filled, since=f"{NOON + SECOND:%Y%m%dT%H%M%SZ}-0001") == lists
    assert told(filled, since="2026-01-01", kinds=["list_gone", "company_appeared"]) == [lists[0], company]
    assert told(filled, since="2026-01-01", company=ACME) == [company]
    assert told(filled, has_lists=False) == [company]


CHANGES = {
    "list_changes": "UPDATE list_changes SET kind = 'list_grew'",
    "service_lists": "UPDATE service_lists_versions SET company_count = 6 WHERE valid_to IS NULL",
    "service_list_columns": "DELETE FROM service_list_columns_versions WHERE position = 1 AND valid_to IS NULL",
    "contact_additions": "UPDATE contact_additions SET status = 'added'",
}


@pytest.mark.slow
def test_verify_finds_changed_rows(filled):
    for change in CHANGES.values():
        edit_warehouse(filled, change)
    assert {check.table for check in verified(filled) if not check.agrees} == CHANGES.keys()
