"""The feeds of changes and alerts: the right ones, told in words."""

from __future__ import annotations

import json
import re
from datetime import date

import duckdb
import pytest

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.core.sql import fetch_dicts
from firmlake.landing.run import AlertRule
from firmlake.report.feed import (
    AlertCounts,
    alert_row,
    count_alerts,
    describe_counts,
    describe_evidence,
    query_changes,
    read_alerts,
)
from firmlake.report.sections import find_section
from firmlake.report.summary import summarise
from firmlake.service_lists.load import LIST_KINDS
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.schema import create_tables
from lake import Lake
from support import ACME, BOLT, period, run_name, run_of
from warehouse.figures import Figures

RUNS = [run_name(7 * week) for week in range(3)]


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


def feed(*events):
    """A feed of these events of one company, in words."""
    made = Figures()
    made.add("companies", 1, name="Acme")
    made.loads(1, RUNS[0])
    made.fill("runs", run_id=RUNS[0])
    for number, values in enumerate(events):
        made.add("company_changes", 1, **event(number, **values))
    return query_changes(made.made().connection, in_words=True).fetchall()


def test_an_event_is_described_by_what_it_is_about_and_what_changed():
    fields = [{"field": "employee_count", "old": "12", "new": None}, {"field": "revenue", "old": "1.00", "new": "2.00"}]
    restated = {
        "kind": "period_restated", "start_date": "2024-01-01", "end_date": "2024-12-31", "dup_no": 1,
        "fields": json.dumps(fields),
    }  # fmt: skip
    parent = {"kind": "parent_in", "direction": "parent", "related_name": "Ann", "new_value": "0.25"}
    of_acme = ("2026-01-05", "Acme", "NL 00000001")
    assert feed(restated, parent) == [
        (
            *of_acme,
            "period restated",
            "2024-01-01 to 2024-12-31 filing 2",
            "employee count 12 → -; revenue 1.00 → 2.00",
        ),
        (*of_acme, "parent in", "parent Ann", "- → 0.25"),
    ]


RULES = (
    AlertRule(
        name="turned", says="Equity turned negative", severity="high", view="watched_figures",
        when={"equity": "< 0", "equity_before": ">= 0"},
    ),
    AlertRule(name="losses", says="Losses", severity="low", view="portfolio", when={"loss_period_count": ">= 1"}),
)  # fmt: skip
WEEKS = (
    {ACME: (-1.5, 1.5), BOLT: (1, 2)},
    {ACME: (1, 2), BOLT: (-1234567.5, 2)},
)
"""Equity of 2024 and 2023: one alert is closed in the second week, one is still open, one is opened."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("alerts") / "data")
    for week, equities in enumerate(WEEKS):
        filed = {
            company: {"financials": [period(2024 - back, solvency__equity=one) for back, one in enumerate(equity)]}
            for company, equity in equities.items()
        }
        run_of(folders, 7 * week, filed, alert_rules=RULES)
    return folders


@pytest.fixture
def connection(world):
    with open_warehouse(world) as connection:
        yield connection


def test_open_alerts_come_before_closed_ones_and_the_gravest_first(connection):
    found = read_alerts(connection, with_closed=True)
    assert [(one["rule"], one["country"], one["state"]) for one in found] == [
        ("turned", "NL", "opened"),
        ("losses", "BE", "still open"),
        ("losses", "NL", "still open"),
        ("turned", "BE", "closed"),
    ]
    assert [one["closed_because"] for one in found] == [None, None, None, "no longer true"]
    assert [one["country"] for one in read_alerts(connection, limit=1)] == ["NL"]
    assert {one["rule"] for one in read_alerts(connection, ACME)} == {"losses"}
    assert [one["name"] for one in read_alerts(connection, rules=["turned"])] == ["NL name"]


def test_the_command_counts_closed_alerts_if_it_shows_any(world):
    lake = Lake(world.data.parent)
    assert "\n3 open alerts\n" in lake.call("alerts").out
    assert "\n3 open alerts, 1 closed\n" in lake.call("alerts", "--all").out


def test_alerts_of_a_day_are_those_opened_or_closed_since_then(connection):
    """The runs ended on 5 and 12 January."""
    opened = [(one["rule"], one["country"]) for one in read_alerts(connection, since=date(2026, 1, 6))]
    assert opened == [("turned", "NL")]
    assert len(read_alerts(connection, with_closed=True, since=date(2026, 1, 6))) == 2
    assert len(read_alerts(connection, with_closed=True, since=date(2026, 1, 5))) == 4
    assert read_alerts(connection, with_closed=True, since=date(2026, 1, 13)) == []


def test_the_evidence_reads_as_a_sentence_with_the_figure_before(connection):
    [first] = read_alerts(connection, rules=["turned"])
    assert describe_evidence(first) == "equity 2.00 → -1,234,567.50; accounts to 2024-12-31"


def test_a_rule_that_never_was_is_an_error_that_names_a_similar_one(connection):
    with pytest.raises(UsageError, match="Did you mean turned"):
        read_alerts(connection, rules=["turnd"])


def test_a_run_counts_what_it_opened_and_closed(connection):
    assert count_alerts(connection, RUNS[1]) == AlertCounts(opened=1, opened_high=1, open=3, closed=1)
    summary = summarise(connection, RUNS[1], "warehouse")
    assert describe_counts(summary.alerts) == "1 opened (1 of high severity), 1 closed, 3 open"


def test_a_warehouse_without_rules_has_no_alerts():
    with duckdb.connect() as without_rules:
        create_tables(without_rules)
        assert read_alerts(without_rules) == []
        assert count_alerts(without_rules, "run") is None


def test_the_sections_of_the_report_count_and_list_the_open_alerts(connection):
    rules = connection.execute(find_section("report/alerts_by_rule").sql).fetchall()
    assert rules == [
        ("Equity turned negative", "high", "all", 1, 1, 1),
        ("Losses", "low", "all", 2, 0, 0),
    ]
    first = alert_row(read_alerts(connection, limit=1)[0], with_company=True)
    assert (first["number"], first["state"]) == ("NL 24202194", "opened")
    assert first["evidence"].startswith("equity 2.00 → -1,234,567.50; ")
