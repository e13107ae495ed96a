"""Alerts for people and programs: select them from a generation, count them, and write them as CSV or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import duckdb
import msgspec

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.guard import guard
from firmlake.core.parts import csv_parts, fetch_dicts, json_parts
from firmlake.report.section import Section
from firmlake.warehouse.alerts import PERIODS


class Alert(msgspec.Struct, frozen=True):
    """One row of the table `alerts`, with the name of its company.

    Attributes:
        evidence: The figures compared and the days of their periods, as text by column.
    """

    rule: str
    says: str
    severity: str
    list_name: str | None
    country: str
    company_number: str
    name: str | None
    state: str
    evidence: dict[str, str | None]
    doubt: str | None
    opened_run: str
    opened_at: datetime
    seen_run: str
    seen_at: datetime
    closed_run: str | None
    closed_at: datetime | None
    closed_because: str | None
    condition: str


class AlertCounts(msgspec.Struct, frozen=True):
    """What a run did to the alerts: opened and closed by it, and open after it; `opened_high` are the grave ones."""

    opened: int
    opened_high: int
    open: int
    closed: int


def read_alerts(
    connection: duckdb.DuckDBPyConnection,
    company: Company | None = None,
    *,
    rules: Sequence[str] = (),
    with_closed: bool = False,
    since: date | None = None,
    limit: int | None = None,
) -> list[Alert]:
    """Read alerts: open ones before closed ones, the most severe first, and of these the newest.

    Args:
        connection: A generation; if it is restricted to a company list, alerts of its companies.
        company: Only alerts of this company; None reads those of all.
        rules: Only alerts of these rules; empty reads all.
        with_closed: Whether to read closed alerts too.
        since: Only alerts that were opened or closed on this day (UTC) or later; None reads all.
        limit: The number of alerts to read; None reads all.

    Raises:
        UsageError: There is no such rule. The message suggests a similar name.
    """
    known = [rule for (rule,) in connection.execute(_RULES).fetchall()]
    for rule in rules:
        if rule not in known:
            near = get_close_matches(rule, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The rules are: {', '.join(known) or 'none'}"
            raise UsageError(f"No rule {rule} has raised an alert or was in the last run", hint)
    country, number = company or (None, None)
    wanted = {"rules": list(rules), "closed": with_closed, "since": since, "limit": limit}
    cursor = connection.execute(_ALERTS, {**wanted, "country": country, "number": number})
    return [_alert(row) for row in fetch_dicts(cursor)]


def count_alerts(connection: duckdb.DuckDBPyConnection, run_id: str, *, whole_day: bool = False) -> AlertCounts | None:
    """Count what a run did to the alerts; None if there are neither rules nor alerts.

    With `whole_day`, count what all runs of its day (UTC) did: several lists may run one after the other.
    """
    *counts, rule_count = connection.execute(_COUNTS, {"run": run_id, "whole_day": whole_day}).fetchall()[0]
    return AlertCounts(*counts) if rule_count or any(counts) else None


def describe_counts(counts: AlertCounts) -> str:
    """Describe in a phrase what a run did to the alerts."""
    grave = f" ({counts.opened_high:,} of high severity)" if counts.opened_high else ""
    return f"{counts.opened:,} opened{grave}, {counts.closed:,} closed, {counts.open:,} open"


def describe_evidence(alert: Alert) -> str:
    """Describe the evidence of an alert, and its doubt, for people to read."""
    figures = {name: value for name, value in alert.evidence.items() if name not in PERIODS}
    parts = []
    for name, value in figures.items():
        base, before = name.removesuffix("_before"), f"{name}_before"
        if base == name or base not in figures:
            parts.append(
                f"{name.replace('_', ' ')} {_text(figures[before]) + ' → ' if before in figures else ''}{_text(value)}"
            )
    period = alert.evidence.get("accounts_to") or alert.evidence.get("end_date")
    parts += [f"accounts to {period}"] if period else []
    return "; ".join(parts) + (f" (in doubt: {alert.doubt})" if alert.doubt else "")


def as_csv(alerts: Iterable[Alert]) -> Iterator[str]:
    """Write alerts as CSV. Text that a spreadsheet would run as a formula is guarded (`firmlake.core.guard`)."""
    return csv_parts(Alert.__struct_fields__, (map(_cell, msgspec.structs.astuple(alert)) for alert in alerts))


WRITERS: dict[str, Callable[[Iterable[Alert]], Iterator[str]]] = {"csv": as_csv, "json": json_parts}
"""The writer for each format, which yields the text in parts; the format is also the ending of the file name."""

ALERT_RULES = Section(
    "",
    "Alerts by rule",
    "Alerts that are open, and alerts that were opened or closed on the day of the last run, by runs of any list.",
    """
    SELECT r.says AS alert, r.severity, coalesce(r.list_name, 'all') AS list,
        count(a.rule) FILTER (a.closed_run IS NULL) AS open,
        count(a.rule) FILTER (a.opened_at::DATE = last_day) AS opened_on_last_day,
        count(a.rule) FILTER (a.closed_at::DATE = last_day) AS closed_on_last_day
    FROM alert_rules r CROSS JOIN (SELECT last_answer_day() AS last_day) LEFT JOIN alerts a USING (rule)
    GROUP BY r.position, r.says, r.severity, r.list_name ORDER BY r.position
    """,
)
"""A section of the report."""


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_RULES = "SELECT rule FROM alert_rules UNION SELECT rule FROM alerts ORDER BY rule"
_ALERTS = """
    SELECT rule, says, severity, list_name, country, company_number, name, state, evidence, doubt, opened_run,
           opened_at, seen_run, seen_at, closed_run, closed_at, closed_because, condition
    FROM alerts LEFT JOIN (SELECT country, company_number, name FROM companies) USING (country, company_number)
    WHERE ($closed OR closed_run IS NULL) AND ($since IS NULL OR greatest(opened_at, closed_at) >= $since)
      AND (len($rules) = 0 OR rule IN $rules)
      AND ($country IS NULL OR (country = $country AND company_number = $number))
    ORDER BY closed_run IS NOT NULL, closed_at DESC, list_position(['high', 'medium', 'low'], severity), opened_at DESC,
             rule, country, company_number
    LIMIT $limit
"""
_COUNTS = """
    SELECT count(*) FILTER (is_opened), count(*) FILTER (is_opened AND severity = 'high'),
           count(*) FILTER (closed_run IS NULL), count(*) FILTER (closed_run = $run OR closed_at::DATE = day),
           (SELECT count(*) FROM alert_rules)
    FROM (SELECT CASE WHEN $whole_day THEN max(finished_at)::DATE END AS day FROM runs WHERE run_id = $run)
    CROSS JOIN LATERAL (SELECT *, coalesce(opened_run = $run OR opened_at::DATE = day, false) AS is_opened FROM alerts)
"""


def _alert(row: dict[str, object]) -> Alert:
    return Alert(**{**row, "evidence": json.loads(str(row["evidence"]))})


def _text(value: str | None) -> str:
    if value is None:
        return "-"
    return f"{Decimal(value):,}" if _NUMBER.fullmatch(value) else value


def _cell(value: object) -> object:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return guard(value) if isinstance(value, str) else value


def alert_row(alert: Alert, *, with_company: bool = False) -> dict[str, Any]:
    """Return the cells of an alert by column; `with_company` begins with the company's name and number."""
    company = {"company": alert.name, "number": f"{alert.country} {alert.company_number}"} if with_company else {}
    return company | {
        "alert": alert.says,
        "severity": alert.severity,
        "state": alert.state,
        "evidence": describe_evidence(alert),
        "since": alert.opened_at.date(),
        "closed": alert.closed_at and alert.closed_at.date(),
    }
