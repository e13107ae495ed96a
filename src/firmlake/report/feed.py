"""The change feed: select events of companies and lists, and write them as CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import starmap
from typing import Any, NamedTuple

import duckdb
import msgspec

from firmlake.core.company import Company
from firmlake.core.errors import UsageError
from firmlake.core.guard import guard
from firmlake.core.parts import csv_parts, json_parts, read_rows

__all__ = ["WRITERS", "Event", "Restated", "describe", "read_changes"]


class Restated(NamedTuple):
    """A figure that was restated."""

    field: str
    old: str | None
    new: str | None


class Event(msgspec.Struct, frozen=True):
    """One event: a row of the table `company_changes` or `list_changes`.

    Attributes:
        found_at: When the run ended or the overview began, UTC.
        country: Country of the company; None for an event of a list.
        company_number: Number of the company; None for an event of a list.
        list_id: Id of the service list; None for an event of a company.
        name: Current name of the company or the list; the last name of a list that is gone.
        related_name: Name of the related party at the service; for a lookalike, its name if the warehouse has it.
        fields: The restated figures; empty for other events.
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
    fields: list[Restated]

    @property
    def subject(self) -> str:
        """The company or the list, for people to read."""
        return f"list {self.list_id}" if self.company_number is None else f"{self.country} {self.company_number}"


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
    cursor = connection.execute(_EVENTS, values)
    return starmap(_event, read_rows(cursor))


def describe(event: Event) -> tuple[str, str]:
    """Describe what an event is about, and what changed, for people to read."""
    period = f"{event.start_date} to {event.end_date}" if event.start_date else ""
    filing = f"filing {event.dup_no + 1}" if event.dup_no else ""
    number = f"{event.related_country} {event.related_company_number}" if event.related_company_number else ""
    about = " ".join(part for part in (period, filing, event.direction, event.related_name, number) if part)
    pairs = [f"{name.replace('_', ' ')} {_pair(old, new)}" for name, old, new in event.fields]
    return about, "; ".join(pairs) or _pair(event.old_value, event.new_value)


def as_csv(events: Iterable[Event]) -> Iterator[str]:
    """Write events as CSV. Text that a spreadsheet would run as a formula is guarded (`firmlake.core.guard`)."""
    return csv_parts(Event.__struct_fields__, (map(_cell, _values(event)) for event in events))


def as_json(events: Iterable[Event]) -> Iterator[str]:
    """Write events as a JSON array of objects."""
    return json_parts(map(_plain, events))


WRITERS: dict[str, Callable[[Iterable[Event]], Iterator[str]]] = {"csv": as_csv, "json": as_json}
"""The writer for each format, which yields the text in parts; the format is also the ending of the file name."""

# ---------------------------------------------------------------------------------------------------------------------

# The columns are the fields of `Event`, in their order.
# A load is a run, an overview (its row_counts has list_changes) or an applied plan, which finds no events.
_EVENTS = """
    WITH known AS (
        SELECT run_id, generation,
               coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS found_at,
               generation = max(generation) OVER (PARTITION BY r.run_id IS NULL) AS is_last
        FROM (SELECT run_id, min(generation) AS generation,
                     bool_or(json_exists(row_counts, '$.list_changes')) AS is_overview
              FROM loads GROUP BY run_id)
        LEFT JOIN runs r USING (run_id)
        WHERE r.run_id IS NOT NULL OR is_overview
    ), list_names AS (
        SELECT list_id, arg_max(name, valid_from_run) AS name
        FROM (SELECT list_id, name, valid_from_run FROM service_lists
              UNION ALL SELECT list_id, name, valid_from_run FROM service_lists_history)
        GROUP BY list_id
    ), events AS (
        SELECT c.* EXCLUDE (related_name), NULL::BIGINT AS list_id, m.name,
               coalesce(related_name, o.name) AS related_name
        FROM company_changes c
        LEFT JOIN companies m ON m.country = c.country AND m.company_number = c.company_number
        LEFT JOIN companies o ON o.country = related_country AND o.company_number = related_company_number
        UNION ALL BY NAME
        SELECT * FROM list_changes LEFT JOIN list_names USING (list_id) WHERE $has_lists
    )
    SELECT run_id, found_at, country, company_number, list_id, name, kind, start_date, end_date, dup_no, direction,
           related_country, related_company_number, related_name, "function", old_value, new_value, fields
    FROM events JOIN known USING (run_id)
    WHERE if($since IS NULL, is_last, generation > generation_at($since))
      AND (len($kinds) = 0 OR kind IN $kinds)
      AND ($country IS NULL OR (country = $country AND company_number = $number))
    ORDER BY generation DESC, country, company_number, list_id, position
"""


def _event(*row: Any) -> Event:
    restated = [Restated(**field) for field in json.loads(row[-1])] if row[-1] else []
    return Event(*(*row[:-1], restated))


def _values(event: Event) -> Iterator[object]:
    return (getattr(event, name) for name in event.__struct_fields__)


def _plain(event: Event) -> dict[str, object]:
    return {**msgspec.structs.asdict(event), "fields": [field._asdict() for field in event.fields]}


def _pair(old: str | None, new: str | None) -> str:
    return "" if old is None and new is None else f"{'-' if old is None else old} → {'-' if new is None else new}"


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json.dumps([field._asdict() for field in value], ensure_ascii=False) if value else None
    return guard(value) if isinstance(value, str) else value
