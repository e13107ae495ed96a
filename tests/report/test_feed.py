"""The change feed: the right events, and texts from outside that do no harm."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from datetime import date, datetime

import pytest

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.guard import unguard
from firmlake.report.feed import EVENT_WRITERS, Event, describe, read_changes
from firmlake.service_lists.load import LIST_KINDS
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from support import ACME, BOLT, DAY, MINUTE, NOON, answer, found, land, make_run, period, publish_landed

RUNS = ("20260105T120000Z-0001", "20260112T120000Z-0002", "20260119T120000Z-0003")
HOSTILE = ["<script>alert(1)</script>", "\u202eevil", "=cmd|' /C calc'!A0", "a" * 5000, '"; DROP', "&amp;", "\r\n,x"]


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("three_runs"))
    for week, run_id in enumerate(RUNS):
        at = NOON + 7 * week * DAY
        run = make_run(folders, [ACME, BOLT], ["financials"], run_id=run_id, at=at)
        periods = [period(2023 + year) for year in range(week + 1)]
        elements = [found(ACME, "financials", *periods), found(BOLT, "financials", *periods)]
        land(run, answer("financials", *elements, at=at, offset=0))
        publish_landed(run, at=at + MINUTE)
    return folders


def chosen(folders, **choice):
    with open_warehouse(folders) as connection:
        return [(event.run_id, event.country, event.kind) for event in read_changes(connection, **choice)]


LAST = [(RUNS[2], "BE", "new_accounts"), (RUNS[2], "NL", "new_accounts")]
SECOND = [(RUNS[1], "BE", "new_accounts"), (RUNS[1], "NL", "new_accounts")]
FIRST = [(RUNS[0], "BE", "company_appeared"), (RUNS[0], "NL", "company_appeared")]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, LAST),
        ({"since": RUNS[0]}, LAST + SECOND),
        ({"since": RUNS[2]}, []),
        ({"since": "2026-01-06"}, LAST + SECOND),
        ({"since": "2026-01-01"}, LAST + SECOND + FIRST),
        ({"since": "2026-01-01", "kinds": ["company_appeared"]}, FIRST),
        ({"since": "2026-01-01", "company": BOLT}, [LAST[1], SECOND[1], FIRST[1]]),
    ],
)
def test_events_are_chosen_by_time_kind_and_company(three_runs, choice, expected):
    assert chosen(three_runs, **choice) == expected


def test_since_what_is_neither_a_run_nor_a_time_is_refused(three_runs):
    with pytest.raises(UsageError, match="yesterday"):
        chosen(three_runs, since="yesterday")


def test_the_kinds_of_list_events_are_those_of_the_data_dictionary():
    comment = next(c.meaning for c in WAREHOUSE_TABLES["list_changes"].columns if c.name == "kind")
    assert re.findall(r"list_\w+", comment) == list(LIST_KINDS)


def restated(field, old, new):
    return {"field": field, "old": old, "new": new}


def event(text="x", **changes):
    values = {
        "run_id": RUNS[0], "found_at": datetime(2026, 1, 5), "country": "BE", "company_number": "0403227515",
        "kind": "parent_in", "direction": "parent", "name": text, "related_name": text, "new_value": "0.25",
        "fields": [],
    }  # fmt: skip
    values = dict.fromkeys(Event.__struct_fields__) | values
    return Event(**values | changes)


def test_an_event_is_described_by_what_it_is_about_and_what_changed():
    of_accounts = event(
        kind="period_restated", start_date=date(2024, 1, 1), end_date=date(2024, 12, 31), dup_no=1, direction=None,
        related_name=None, fields=[restated("employee_count", "12", None), restated("revenue", "1.00", "2.00")],
    )  # fmt: skip
    assert describe(of_accounts) == ("2024-01-01 to 2024-12-31 filing 2", "employee count 12 → -; revenue 1.00 → 2.00")
    assert describe(event("Ann")) == ("parent Ann", "- → 0.25")


@pytest.mark.parametrize("text", HOSTILE)
def test_csv_gives_back_every_text_and_starts_none_like_a_formula(text):
    (row,) = csv.DictReader(io.StringIO("".join(EVENT_WRITERS["csv"]([event(text)])), newline=""))
    assert unguard(row["name"]) == text
    assert row["name"][0] not in "=+-@\t\r\n"
    assert row["new_value"] == "0.25"


@pytest.mark.parametrize("text", HOSTILE)
def test_json_gives_back_every_text(text):
    (row,) = json.loads("".join(EVENT_WRITERS["json"]([event(text, fields=[restated("revenue", text, None)])])))
    assert (row["name"], row["related_name"]) == (text, text)
    assert row["fields"] == [{"field": "revenue", "old": text, "new": None}]


@pytest.mark.parametrize("count", [0, 1, 1000, 1001])
def test_any_number_of_events_is_one_document(count):
    written = {
        kind: "".join(write(event(str(number)) for number in range(count))) for kind, write in EVENT_WRITERS.items()
    }
    names = [str(number) for number in range(count)]
    assert [row["name"] for row in csv.DictReader(io.StringIO(written["csv"], newline=""))] == names
    rows = json.loads(written["json"])
    assert [row["name"] for row in rows] == names
    assert written["json"] == json.dumps(rows, indent=2) + "\n"


def test_events_are_read_as_they_are_written(three_runs):
    """Millions of events pass through: none is read before it is asked for, and none is kept."""
    with open_warehouse(three_runs) as connection:
        events = read_changes(connection, "2026-01-01")
        assert iter(events) is events
    endless = itertools.repeat(event())
    for write in EVENT_WRITERS.values():
        assert len(list(itertools.islice(write(endless), 3))) == 3
