"""What changed, for people and programs: alerts and events of companies and lists, read from a generation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from itertools import starmap
from typing import Any

import duckdb
import msgspec

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.guard import guard
from firmlake.core.parts import csv_parts, fetch_dicts, json_parts, read_rows
from firmlake.core.sql import read_queries
from firmlake.warehouse.alerts import PERIODS

_SQL = read_queries(__file__)


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


class Event(msgspec.Struct, frozen=True):
    """One event: a row of the table `company_changes` or `list_changes`.

    Attributes:
        found_at: When the run ended or the overview began, UTC.
        country: Country of the company; None for an event of a list.
        company_number: Number of the company; None for an event of a list.
        list_id: Id of the service list; None for an event of a company.
        name: Current name of the company or the list; the last name of a list that is gone.
        related_name: Name of the related party at the service; for a lookalike, its name if the warehouse has it.
        fields: The restated figures, each with field, old and new; empty for other events.
    """

    run_id: str
    found_at: datetime
    country: str | None
    company_number: str | None
    list_id: int | None
    name: str | None
    kind: str
    start_date: date | None
    end_date: date | None
    dup_no: int | None
    direction: str | None
    related_country: str | None
    related_company_number: str | None
    related_name: str | None
    function: str | None
    old_value: str | None
    new_value: str | None
    fields: list[dict[str, str | None]]

    @property
    def subject(self) -> str:
        """The company or the list, for people to read."""
        return f"list {self.list_id}" if self.company_number is None else f"{self.country} {self.company_number}"


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
    cursor = connection.execute(_SQL["alerts"], {**wanted, "country": country, "number": number})
    return [_alert(row) for row in fetch_dicts(cursor)]


def count_alerts(connection: duckdb.DuckDBPyConnection, run_id: str, *, whole_day: bool = False) -> AlertCounts | None:
    """Count what a run did to the alerts; None if there are neither rules nor alerts.

    With `whole_day`, count what all runs of its day (UTC) did: several lists may run one after the other.
    """
    *counts, rule_count = connection.execute(_SQL["counts"], {"run": run_id, "whole_day": whole_day}).fetchall()[0]
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


def read_changes(
    connection: duckdb.DuckDBPyConnection,
    since: str | None = None,
    kinds: Sequence[str] = (),
    company: Company | None = None,
    *,
    has_lists: bool = True,
) -> Iterator[Event]:
    """Read events one by one, those of the newest run or overview first. There may be millions.

    Args:
        connection: A generation; the last event must be read before it is used again or closed.
        since: A run or overview, or a time in UTC: only events found after it. None reads those of the last run and of
            the last overview.
        kinds: Only events of these kinds; empty reads all.
        company: Only events of this company. None reads all.
        has_lists: Whether to read events of service lists as well, unless they are of one company.

    Raises:
        UsageError: `since` is neither a known run nor a time.
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
    values = {"since": since, "kinds": list(kinds), "country": country, "number": number, "has_lists": has_lists}
    cursor = connection.execute(_SQL["events"], values)
    return starmap(_event, read_rows(cursor))


def describe(event: Event) -> tuple[str, str]:
    """Describe what an event is about, and what changed, for people to read."""
    period = f"{event.start_date} to {event.end_date}" if event.start_date else ""
    filing = f"filing {event.dup_no + 1}" if event.dup_no else ""
    number = f"{event.related_country} {event.related_company_number}" if event.related_company_number else ""
    about = " ".join(part for part in (period, filing, event.direction, event.related_name, number) if part)
    pairs = [f"{str(f['field']).replace('_', ' ')} {_pair(f['old'], f['new'])}" for f in event.fields]
    return about, "; ".join(pairs) or _pair(event.old_value, event.new_value)


def as_csv(kind: type[Alert] | type[Event], rows: Iterable[Alert] | Iterable[Event]) -> Iterator[str]:
    """Write alerts or events as CSV. Text that a spreadsheet would run is guarded (`firmlake.core.guard`)."""
    return csv_parts(kind.__struct_fields__, (map(_csv_cell, msgspec.structs.astuple(row)) for row in rows))


ALERT_WRITERS: dict[str, Callable[[Iterable[Alert]], Iterator[str]]] = {
    "csv": partial(as_csv, Alert),
    "json": json_parts,
}
"""The writer for each format, which yields the text in parts; the format is also the ending of the file name."""
EVENT_WRITERS: dict[str, Callable[[Iterable[Event]], Iterator[str]]] = {
    "csv": partial(as_csv, Event),
    "json": json_parts,
}


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_RULES = "SELECT rule FROM alert_rules UNION SELECT rule FROM alerts ORDER BY rule"


def _alert(row: dict[str, object]) -> Alert:
    return Alert(**{**row, "evidence": json.loads(str(row["evidence"]))})


def _text(value: str | None) -> str:
    if value is None:
        return "-"
    return f"{Decimal(value):,}" if _NUMBER.fullmatch(value) else value


def _event(*row: Any) -> Event:
    return Event(*(*row[:-1], json.loads(row[-1]) if row[-1] else []))


def _pair(old: str | None, new: str | None) -> str:
    return "" if old is None and new is None else f"{'-' if old is None else old} → {'-' if new is None else new}"


def _csv_cell(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False) if value != [] else None
    return guard(value) if isinstance(value, str) else value
