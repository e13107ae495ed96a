"""Alerts are listed for people and programs: whose they are, and what was found."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.landing.run import AlertRule
from firmlake.report.feed import AlertCounts, alert_row, count_alerts, describe_counts, describe_evidence, read_alerts
from firmlake.report.sections import find_section
from firmlake.report.summary import summarise
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.schema import create_tables
from support import ACME, BOLT, period, run_name, run_of

RULES = (
    AlertRule(
        name="turned", says="Equity turned negative", severity="high", view="watched_figures",
        when={"equity": "< 0", "equity_before": ">= 0"},
    ),
    AlertRule(name="losses", says="Losses", severity="low", view="portfolio", when={"loss_period_count": ">= 1"}),
)  # fmt: skip
RUNS = [run_name(0), run_name(7)]
WEEKS = (
    {ACME: (-1.5, 1.5), BOLT: (1, 2)},
    {ACME: (1, 2), BOLT: (-1234567.5, 2)},
)
"""Equity of 2024 and 2023: one alert is closed in the second week, one is still open, one is opened."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folders = Folders(tmp_path_factory.mktemp("alerts") / "data")
    for week, equities in enumerate(WEEKS):
        filed = {
            company: {"financials": [period(2024 - back, solvency__equity=one) for back, one in enumerate(equity)]}
            for company, equity in equities.items()
        }
        run_of(folders, 7 * week, filed, alert_rules=RULES)
    return folders


@pytest.fixture
def connection(folders):
    with open_warehouse(folders) as connection:
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
