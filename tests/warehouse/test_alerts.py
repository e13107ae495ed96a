"""A run opens an alert for a company that begins to meet a rule, and closes it when the company no longer does."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from firmlake.core.company import Company
from firmlake.landing.run import AlertRule
from firmlake.warehouse.alerts import raise_alerts
from firmlake.warehouse.loads import Load, add_load
from support import ACME, BOLT, CIRC, DAY, NOON

from .figures import Figures

WEEK = timedelta(days=7)
DELT = Company("NL", "33011433")
RUNS = [f"2026010{day}T120000Z-000{day}" for day in range(1, 8)]


def rule(name="poor", when=None, **values):
    values = {"says": name, "severity": "high", "view": "watched_figures", **values}
    return AlertRule(name=name, when=when or {"equity": "< 0"}, **values)


POOR = (rule(),)


class Weeks:
    """A warehouse whose rows are those of one week after another."""

    def __init__(self):
        self.figures, self.count = Figures(), 0
        self.connection = self.figures.connection

    def run(self, *periods, rules=POOR, at=None, events=(), listed=()):
        """Replace the rows of companies, and raise the alerts of a run.

        Args:
            periods: Company, year and equity of periods, and other columns by name.
            events: Company, kind, old and new stake and functions of owners, as the run found them.
            listed: The companies on the list `customers`.
        """
        name, at = RUNS[self.count], at or NOON + self.count * WEEK
        self.count += 1
        for table in ("companies", "financials", "list_members"):
            self.connection.execute(f"DELETE FROM {table}_versions")
        for company in dict.fromkeys(each[0] for each in (*periods, *events)):
            self.figures.add("companies", 0, **company._asdict(), name="A")
        for company, year, equity, *others in periods:
            given = {"start_date": date(year, 1, 1), "end_date": date(year, 12, 31), "dup_no": 0, "position": 0}
            given |= {"date_received": date(year + 1, 6, 30), "equity": equity, **dict(*others)}
            self.figures.add("financials", 0, **company._asdict(), **given)
            self.connection.execute("UPDATE financials_versions SET fetched_at = ?", [at.replace(tzinfo=None)])
        for place, (company, kind, old, new, function) in enumerate(events):
            row = {"position": place, "kind": kind, "direction": "parent", "old_value": old, "new_value": new}
            self.figures.add("company_changes", 0, **company._asdict(), **row, function=function, run_id=name)
        for line, company in enumerate(listed):
            row = {"list_name": "Customers", "line": line, "status": "accepted", "columns": "{}"}
            self.figures.fill("list_members", **company._asdict(), **row)
        ended = {"started_at": at.replace(tzinfo=None), "finished_at": at.replace(tzinfo=None), "outcome": "done"}
        self.figures.fill("runs", run_id=name, **ended)
        if rules is not None:
            raise_alerts(self.connection, rules, name)
        add_load(self.connection, Load(self.count, name, at, at), {})

    def alerts(self, columns="rule, country, state, opened_run, seen_run, closed_run, closed_because"):
        return self.figures.ask(f"SELECT {columns} FROM alerts ORDER BY opened_at, rule, country")


@pytest.fixture
def weeks():
    return Weeks()


def test_an_alert_opens_stays_open_closes_and_opens_again_and_a_run_that_is_loaded_twice_does_so_once(weeks):
    first, second, third, fourth = RUNS[:4]
    weeks.run((ACME, 2024, -1), (BOLT, 2024, 1))
    assert weeks.alerts() == [("poor", "BE", "opened", first, first, None, None)]
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1))
    assert weeks.alerts() == [
        ("poor", "BE", "still open", first, second, None, None),
        ("poor", "NL", "opened", second, second, None, None),
    ]
    weeks.run((ACME, 2024, 1), (BOLT, 2024, -1), (CIRC, 2024, -1))
    for _ in range(2):
        assert weeks.alerts() == [
            ("poor", "BE", "closed", first, second, third, "no longer true"),
            ("poor", "NL", "still open", second, third, None, None),
            ("poor", "FR", "opened", third, third, None, None),
        ]
        raise_alerts(weeks.connection, POOR, third)
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1), (CIRC, 2024, -1))
    assert weeks.alerts() == [
        ("poor", "BE", "closed", first, second, third, "no longer true"),
        ("poor", "NL", "still open", second, fourth, None, None),
        ("poor", "FR", "still open", third, fourth, None, None),
        ("poor", "BE", "opened", fourth, fourth, None, None),
    ]


def test_the_evidence_has_the_figures_and_their_periods_and_figures_in_doubt_are_told(weeks):
    """Of Delt, whose figures are in thousands, no alert is raised about a change. A rule may read another view."""
    whole = dict.fromkeys(("total_assets", "debt", "retained_earnings"), 7000000)
    rules = (
        rule("turned", {"equity": "< 0", "equity_before": ">= 0"}), rule("shrunk", {"total_assets_growth": "< -0.2"}),
        rule("small", {"total_assets": "< 100000"}), rule("losses", {"loss_period_count": ">= 2"}, view="loss_streaks"),
    )  # fmt: skip
    weeks.run(
        (ACME, 2024, "-1.01"), (ACME, 2023, "12.5"), (BOLT, 2024, -1), (CIRC, 2024, -1, {"net_profit": -1}),
        (CIRC, 2023, -1, {"net_profit": -1}), (DELT, 2024, 7_000, dict.fromkeys(whole, 7000)),
        *((DELT, year, 7_000_000, whole) for year in range(2018, 2024)), rules=rules,
    )  # fmt: skip
    losses, small, turned = weeks.alerts("rule, country, doubt, evidence, says, severity, condition")
    assert losses[:4] == ("losses", "FR", None, '{"loss_period_count":"2"}')
    assert small[:3] == ("small", "NL", "presumably in thousands, see unit_errors")
    assert (turned[:3], turned[4:6]) == (("turned", "BE", None), ("turned", "high"))
    assert json.loads(turned[3]) == {
        "equity": "-1.01", "equity_before": "12.50",
        "accounts_from": "2024-01-01", "accounts_to": "2024-12-31", "accounts_to_before": "2023-12-31",
    }  # fmt: skip
    assert turned[6] == "watched_figures: equity < 0 and equity_before >= 0"


@pytest.mark.slow
def test_a_rule_that_is_removed_or_changed_closes_its_alerts_and_says_so(weeks):
    """A rule whose columns an earlier version had counts as removed; without rules the alerts stay as they are."""
    periods = (ACME, 2024, -1), (BOLT, 2024, 500)
    weeks.run(*periods, rules=(rule("low", {"equity": "< 1000"}), rule("gone"), rule("old"), rule("older")))
    left = (rule("low", {"equity": "< 100"}), rule("old", {"no_such_column": "< 0"}), rule("older", view="no_view"))
    weeks.run(*periods, rules=left)
    assert weeks.alerts("rule, country, state, closed_because") == [
        ("gone", "BE", "closed", "rule removed"),
        ("low", "BE", "still open", None),
        ("low", "NL", "closed", "rule changed"),
        ("old", "BE", "closed", "rule removed"),
        ("older", "BE", "closed", "rule removed"),
    ]
    rules = weeks.connection.execute("SELECT rule, condition FROM alert_rules").fetchall()
    assert rules == [("low", "watched_figures: equity < 100")]
    before = weeks.alerts()
    weeks.run((ACME, 2024, 1), (BOLT, 2024, 500), rules=None)
    assert weeks.alerts() == before
    weeks.run(*periods, rules=())  # an empty file
    assert {state for (state,) in weeks.alerts("state")} == {"closed"}


@pytest.mark.slow
def test_a_rule_for_a_list_watches_its_companies_alone(weeks):
    of_customers = (rule(list_name="customers"),)
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1), rules=of_customers, listed=[ACME])
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1), rules=of_customers, listed=[BOLT])
    assert weeks.alerts("country, list_name, closed_because") == [
        ("BE", "customers", "left the list"),
        ("NL", "customers", None),
    ]


@pytest.mark.slow
def test_what_depends_on_the_day_is_judged_by_the_last_answer(weeks):
    """Accounts of 2024 came 181 days after their end, so those of 2025 are expected on 2026-06-30."""
    late = (rule("late", {"overdue_days": "> 90"}),)
    for day, expected in ((NOON, []), (NOON + 266 * DAY, []), (NOON + 267 * DAY, ["opened"])):
        weeks.run((ACME, 2024, 1), rules=late, at=day)
        assert [state for (state,) in weeks.alerts("state")] == expected
    weeks.run((ACME, 2025, 1), (ACME, 2024, 1), rules=late, at=NOON + 270 * DAY)
    assert weeks.alerts("state") == [("closed",)]


@pytest.mark.slow
def test_an_alert_opened_today_stays_opened_when_a_second_list_runs(weeks):
    weeks.run((ACME, 2024, -1))
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1), at=NOON + timedelta(hours=1))
    assert weeks.alerts("country, state") == [("BE", "opened"), ("NL", "opened")]
    weeks.run((ACME, 2024, -1), (BOLT, 2024, -1), at=NOON + DAY)
    assert weeks.alerts("country, state") == [("BE", "still open"), ("NL", "still open")]


@pytest.mark.slow
def test_an_owner_who_comes_goes_or_changes_raises_an_alert_for_thirty_days(weeks):
    """A parent that is no shareholder is no owner, whatever its stake means."""
    owner = (rule("owner", {"owner_change_stake": ">= 0.25"}),)
    for day, events, expected in (
        (0, [("parent_in", None, "0.1", "SHAREHOLDER"), ("parent_in", None, "0.9", "DIRECTOR")], []),
        (2, [("parent_out", "0.6", None, "DIRECTOR, SHAREHOLDER")], ["opened"]),
        (31, [("stake_changed", "0.1", "0.15", "SHAREHOLDER")], ["still open"]),
        (33, [("parent_in", None, None, "SHAREHOLDER")], ["closed"]),
        (34, [("stake_changed", "0.3", None, "SHAREHOLDER")], ["closed", "opened"]),  # and stays as director
    ):
        weeks.run(events=[(ACME, *event) for event in events], rules=owner, at=NOON + day * DAY)
        assert [state for (state,) in weeks.alerts("state")] == expected
    assert json.loads(weeks.alerts("evidence")[0][0])["owner_change_stake"] == "0.600000"
