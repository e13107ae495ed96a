"""The change feed: the right events, and texts from outside that do no harm."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re

import pytest

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.rows import unguard
from firmlake.core.sql import fetch_dicts
from firmlake.report.feed import query_changes
from firmlake.service_lists.load import LIST_KINDS
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.terminal.results import FORMATS, as_csv, as_json
from firmlake.warehouse.generations import open_warehouse
from support import ACME, BOLT, period, run_name, run_of
from warehouse.figures import Figures

RUNS = [run_name(7 * week) for week in range(3)]
HOSTILE = ["<script>alert(1)</script>", "\u202eevil", "=cmd|' /C calc'!A0", "a" * 5000, '"; DROP', "&amp;", "\r\n,x"]


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("three_runs"))
    for week in range(3):
        periods = {"financials": [period(2023 + year) for year in range(week + 1)]}
        run_of(folders, 7 * week, {ACME: periods, BOLT: periods})
    return folders


def chosen(folders, **choice):
    with open_warehouse(folders) as connection:
        events = fetch_dicts(query_changes(connection, **choice))
        return [(event["run_id"], event["country"], event["kind"]) for event in events]


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


def event(number, **values):
    """An event of the run that `feed` loads."""
    return {"run_id": RUNS[0], "position": number, "kind": "company_renamed", **values}


def feed(*events, in_words=False):
    """The columns and rows of a feed of these events of one company."""
    made = Figures()
    made.add("companies", 1, name="Acme")
    made.loads(1, RUNS[0])
    made.fill("runs", run_id=RUNS[0])
    for number, values in enumerate(events):
        made.add("company_changes", 1, **event(number, **values))
    cursor = query_changes(made.made().connection, in_words=in_words)
    columns = [column[0] for column in cursor.description]
    return columns, cursor.fetchall()


def test_an_event_is_described_by_what_it_is_about_and_what_changed():
    fields = [{"field": "employee_count", "old": "12", "new": None}, {"field": "revenue", "old": "1.00", "new": "2.00"}]
    restated = {
        "kind": "period_restated", "start_date": "2024-01-01", "end_date": "2024-12-31", "dup_no": 1,
        "fields": json.dumps(fields),
    }  # fmt: skip
    parent = {"kind": "parent_in", "direction": "parent", "related_name": "Ann", "new_value": "0.25"}
    of_acme = ("2026-01-05", "Acme", "NL 00000001")
    assert feed(restated, parent, in_words=True)[1] == [
        (
            *of_acme,
            "period restated",
            "2024-01-01 to 2024-12-31 filing 2",
            "employee count 12 → -; revenue 1.00 → 2.00",
        ),
        (*of_acme, "parent in", "parent Ann", "- → 0.25"),
    ]


def test_csv_and_json_give_back_every_text_and_csv_starts_none_like_a_formula():
    fields = [[{"field": "revenue", "old": text, "new": None}] for text in HOSTILE]
    events = [
        {"related_name": text, "new_value": "0.25", "fields": json.dumps(field)}
        for text, field in zip(HOSTILE, fields, strict=True)
    ]
    columns, rows = feed(*events)
    table = list(csv.DictReader(io.StringIO("".join(as_csv(columns, rows)), newline="")))
    assert [unguard(row["related_name"]) for row in table] == HOSTILE
    assert not [row for row in table if row["related_name"][0] in "=+-@\t\r\n"]
    assert [(row["new_value"], json.loads(row["fields"])) for row in table] == [("0.25", field) for field in fields]
    document = json.loads("".join(as_json(columns, rows)))
    assert [(row["related_name"], row["fields"]) for row in document] == list(zip(HOSTILE, fields, strict=True))


@pytest.mark.parametrize("count", [0, 1, 1000, 1001])
def test_any_number_of_rows_is_one_document(count):
    rows = [(str(number), None) for number in range(count)]
    table = "".join(as_csv(["name", "fields"], rows))
    assert [row["name"] for row in csv.DictReader(io.StringIO(table, newline=""))] == [name for name, _ in rows]
    document = "".join(as_json(["name", "fields"], rows))
    assert [row["name"] for row in json.loads(document)] == [name for name, _ in rows]
    assert document == json.dumps(json.loads(document), indent=2) + "\n"


def test_rows_are_written_as_they_are_read():
    """Millions of events pass through: none is read before it is asked for, and none is kept."""
    endless = itertools.repeat(("x",))
    for write in FORMATS.values():
        assert len(list(itertools.islice(write(["name"], endless), 3))) == 3
