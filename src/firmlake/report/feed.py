"""What changed, for people and programs: alerts and events of companies and lists, read from a generation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import duckdb
import msgspec

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.sql import fetch_dicts, read_queries
from firmlake.report.sections import SectionTables
from firmlake.warehouse.alerts import PERIODS

_SQL = read_queries(__file__)
_RULES = "SELECT rule FROM alert_rules UNION SELECT rule FROM alerts ORDER BY rule"
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

Alert = dict[str, Any]
"""A row of the table `alerts`, with the name of its company; `evidence` has the figures compared and the days of their
periods, as text by column."""


class AlertCounts(msgspec.Struct, frozen=True):
    """What a run did to the alerts: opened and closed by it, and open after it; `opened_high` are the grave ones.

    A run without a file of rules (`has_rules`) leaves all alerts as they are.
    """

    opened: int
    opened_high: int
    open: int
    closed: int
    has_rules: bool = True


def query_alerts(
    connection: duckdb.DuckDBPyConnection,
    company: Company | None = None,
    *,
    rules: Sequence[str] = (),
    with_closed: bool = False,
    since: date | None = None,
    limit: int | None = None,
) -> duckdb.DuckDBPyConnection:
    """Query alerts, as rows of `Alert`: open ones before closed ones, the most severe first, and of these the newest.

    Alerts are those of the companies to which the generation is restricted, of one company, and of some rules; None and
    empty read all. `since` is the day (UTC) on which they were opened or closed, or a later one.
    """
    known = [rule for (rule,) in connection.execute(_RULES).fetchall()]
    for rule in rules:
        if rule not in known:
            near = get_close_matches(rule, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The rules are: {', '.join(known) or 'none'}"
            raise UsageError(f"No rule {rule} has raised an alert or was in the last run", hint)
    country, number = company or (None, None)
    wanted = {"rules": list(rules), "closed": with_closed, "since": since, "limit": limit}
    return connection.execute(_SQL["alerts"], {**wanted, "country": country, "number": number})


def read_alerts(connection: duckdb.DuckDBPyConnection, company: Company | None = None, **choice: Any) -> list[Alert]:
    """Read the alerts that `query_alerts` queries with these arguments."""
    return fetch_dicts(query_alerts(connection, company, **choice))


def count_alerts(
    connection: duckdb.DuckDBPyConnection, run_id: str, *, whole_day: bool = False, has_rules: bool = True
) -> AlertCounts | None:
    """Count what a run did to the alerts; None if there are neither rules nor alerts.

    With `whole_day`, count what all runs of its day (UTC) did: several lists may run one after the other. `has_rules`
    says whether the plan of the run has rules: the warehouse keeps those of earlier runs.
    """
    opened, opened_high, open_, closed, rule_count = connection.execute(
        _SQL["counts"], {"run": run_id, "whole_day": whole_day}
    ).fetchall()[0]
    is_empty = not any((opened, opened_high, open_, closed, rule_count))
    return None if is_empty else AlertCounts(opened, opened_high, open_, closed, has_rules)


def describe_counts(counts: AlertCounts) -> str:
    """Describe in a phrase what a run did to the alerts."""
    if not counts.has_rules:
        return f"no alert rules are set (paths.alert_rules); {counts.open:,} stay open"
    grave = f" ({counts.opened_high:,} of high severity)" if counts.opened_high else ""
    return f"{counts.opened:,} opened{grave}, {counts.closed:,} closed, {counts.open:,} open"


def describe_evidence(alert: Alert) -> str:
    """Describe the evidence of an alert, and its doubt, for people to read."""
    evidence = alert["evidence"]
    figures = {name: value for name, value in evidence.items() if name not in PERIODS}
    parts = []
    for name, value in figures.items():
        base, before = name.removesuffix("_before"), f"{name}_before"
        if base == name or base not in figures:
            parts.append(
                f"{name.replace('_', ' ')} {_text(figures[before]) + ' → ' if before in figures else ''}{_text(value)}"
            )
    period = evidence.get("accounts_to") or evidence.get("end_date")
    parts += [f"accounts to {period}"] if period else []
    return "; ".join(parts) + (f" (in doubt: {alert['doubt']})" if alert["doubt"] else "")


def alert_row(alert: Alert, *, with_company: bool = False) -> dict[str, Any]:
    """Return the cells of an alert by column; `with_company` begins with the company's name and number."""
    number = f"{alert['country']} {alert['company_number']}"
    return ({"company": alert["name"], "number": number} if with_company else {}) | {
        "alert": alert["says"],
        "severity": alert["severity"],
        "state": alert["state"],
        "evidence": describe_evidence(alert),
        "since": alert["opened_at"].date(),
        "closed": alert["closed_at"] and alert["closed_at"].date(),
    }


def query_changes(
    connection: duckdb.DuckDBPyConnection,
    since: str | None = None,
    kinds: Sequence[str] = (),
    company: Company | None = None,
    *,
    has_lists: bool = True,
    in_words: bool = False,
) -> duckdb.DuckDBPyConnection:
    """Query events, those of the newest run or overview first. There may be millions.

    Args:
        connection: A generation; the last event must be read before it is used again or closed.
        since: A run or overview, or a time in UTC: only events found after it. None reads those of the last run and of
            the last overview.
        kinds: Only events of these kinds; empty reads all.
        company: Only events of this company. None reads all.
        has_lists: Whether to read events of service lists as well, unless they are of one company.
        in_words: Whether to describe them for people, instead of giving their columns as they are stored.

    Returns:
        A cursor over rows of `company_changes` and `list_changes` with when they were found and the names of their
        companies or lists; or, in words, over found, name, number, event, about and change.
    """
    try:
        if since:
            connection.execute("SELECT generation_at(?)", [since]).fetchall()
    except duckdb.InvalidInputException:
        raise UsageError(
            f"--since {since} is neither a run of this warehouse nor a time",
            "Use a date such as 2026-01-31, or a run_id of the table runs",
        ) from None
    country, number = company or (None, None)
    query = _SQL["changes"].format(columns=_SQL["in_words" if in_words else "stored"])
    SectionTables(connection, "report").prepare(query)
    values = {"since": since, "kinds": list(kinds), "country": country, "number": number, "has_lists": has_lists}
    return connection.execute(query, values)


def _text(value: str | None) -> str:
    if value is None:
        return "-"
    return f"{Decimal(value):,}" if _NUMBER.fullmatch(value) else value
