"""Turn overviews and additions into rows of their tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import polars as pl

from firmlake.api.contract import KNOWN_VALUES
from firmlake.service_lists.additions import Applied, merge_standings
from firmlake.service_lists.overview import Overview, Seen
from firmlake.tables.schemas import TABLES, polars_schema

__all__ = ["addition_tables", "overview_tables"]

Row = tuple[object, ...]


def overview_tables(overview: Overview) -> dict[str, pl.DataFrame]:
    """Make the rows of `service_lists`, `service_list_columns` and `drift` from an overview."""
    name, seen = overview.plan.overview_id, [overview.lists[number] for number in sorted(overview.lists)]
    return {
        "service_lists": _frame("service_lists", (_list_row(one, name) for one in seen)),
        "service_list_columns": _frame(
            "service_list_columns",
            (
                (one.listed.entry.id, position, column, one.fetched_at, name)
                for one in seen
                for position, column in enumerate(one.listed.entry.columns)
            ),
        ),
        "drift": _frame("drift", _list_drift(seen, name)),
    }


def addition_tables(applied: Iterable[Applied]) -> dict[str, pl.DataFrame]:
    """Make the rows of `contact_additions` and `drift` from all applied plans."""
    applied = list(applied)
    standings = merge_standings(applied)
    rows = (
        (list_id, *contact, one.status, one.message, one.sent_count, one.lost_count, one.changed_at, one.request_id,
         one.plan_id)
        for (list_id, contact), one in sorted(standings.items())
    )  # fmt: skip
    drift = (row for progress in applied for row in _addition_drift(progress))
    return {"contact_additions": _frame("contact_additions", rows), "drift": _frame("drift", drift)}


# ---------------------------------------------------------------------------------------------------------------------


def _list_row(seen: Seen, overview: str) -> Row:
    entry = seen.listed.entry
    return (
        entry.id, entry.name, entry.type, entry.shared, entry.notifications and entry.notifications.enabled,
        entry.company_count, entry.new_result_count, entry.updated_at, entry.created_at, entry.created_by,
        seen.listed.unknown, seen.fetched_at, overview,
    )  # fmt: skip


def _list_drift(seen: list[Seen], overview: str) -> Iterator[Row]:
    first = min((one.fetched_at for one in seen), default=None)
    entries = [one.listed.entry for one in seen]
    values = Counter(("type", entry.type) for entry in entries)
    values += Counter(("columns", column) for entry in entries for column in entry.columns)
    for (name, value), count in sorted(values.items()):
        if value not in KNOWN_VALUES["service_lists", name]:
            place = f"{name}[]" if name == "columns" else name
            yield "service_lists", "new_value", f"{place}={value}", value, count, first, overview
    found: defaultdict[tuple[str, str], list[str | None]] = defaultdict(list)
    for one in seen:
        for kind, path, example in one.listed.differences:
            found[kind, path].append(example)
    for (kind, path), examples in sorted(found.items()):
        if kind != "vanished_field" or len(examples) == len(seen):  # a field counts as vanished if every list lacks it
            yield "service_lists", kind, path, examples[0], len(examples), first, overview


def _addition_drift(progress: Applied) -> Iterator[Row]:
    for kind, path in sorted({(remark.kind, remark.path) for remark in progress.remarks}):
        alike = [remark for remark in progress.remarks if (remark.kind, remark.path) == (kind, path)]
        yield (
            "contacts", kind, path, alike[0].example, sum(remark.record_count for remark in alike), alike[0].fetched_at,
            progress.plan.plan_id,
        )  # fmt: skip


def _frame(table: str, rows: Iterable[Row]) -> pl.DataFrame:
    return pl.DataFrame([tuple(map(_plain, row)) for row in rows], schema=polars_schema(TABLES[table]), orient="row")


def _plain(value: object) -> object:
    """Convert a time to UTC and drop its zone; the service may name any zone or none."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
