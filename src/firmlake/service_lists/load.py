"""Load landed answers about service lists: an overview with its history and events, and the additions.

The table of additions is small, so each load replaces it. The row in `loads` has the time up to which answers are
included.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.sql import fetch_dicts
from firmlake.service_lists.additions import Additions, read_additions
from firmlake.service_lists.overview import Overview
from firmlake.tables.flatten import merge_drift, shape_table
from firmlake.tables.schemas import TABLES, polars_schema
from firmlake.warehouse.generations import newest_of_all, publish
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import next_number, supersede
from firmlake.warehouse.views import create_views

# ruff: noqa: S608 - statements are put together from our own table names, never from data

LIST_KINDS: Final = (
    "list_gone", "list_renamed", "list_shared", "list_unshared", "list_grew", "list_shrank", "list_new_results",
)  # fmt: skip
"""The kinds of events about lists, as in `events.sql`."""
_UTC = pl.Datetime("us", "UTC")


def publish_lists(
    folders: Folders,
    settings: RunSettings,
    name: str,
    now: Callable[[], datetime],
    overview: Overview | None = None,
    change: Callable[[duckdb.DuckDBPyConnection], object] = lambda connection: None,
) -> Path:
    """Load an overview and the additions into the next generation; return it, held back if that before was.

    `name` is that of the overview or plan. Without an overview, the lists stay as they are. `change` is a further
    change.
    """

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        create_tables(connection)
        change(connection)
        moment = now()
        mark = Load(number, name, moment, moment)
        if overview:
            load_overview(connection, overview, mark)
        load_additions(connection, folders, None if overview else mark)
        create_views(connection, only_lists=True)

    return publish(
        folders,
        load,
        memory_limit=settings.duckdb_memory,
        keep=settings.keep_generations,
        start=newest_of_all(folders),
        storage_version=settings.storage_version,
    )


def lists_loaded_at(connection: duckdb.DuckDBPyConnection) -> datetime | None:
    """Return the time (UTC) up to which a generation includes answers about lists; None if it includes none."""
    query = "SELECT max(published_at) FROM loads ANTI JOIN runs USING (run_id)"
    moment: datetime | None = connection.execute(query).fetchall()[0][0]
    return moment and moment.replace(tzinfo=UTC)


def read_list_changes(connection: duckdb.DuckDBPyConnection, overview_id: str) -> list[dict[str, Any]]:
    """Read the events that an overview found: list_id, kind, old_value, new_value."""
    query = "SELECT list_id, kind, old_value, new_value FROM list_changes WHERE run_id = ? ORDER BY kind, list_id"
    return fetch_dicts(connection.execute(query, [overview_id]))


def newest_applied(folders: Folders) -> str | None:
    """Return the name of the newest plan that was applied; None if there is none."""
    return max((path.name.partition("=")[2] for path in folders.additions.glob("plan=*")), default=None)


def load_overview(connection: duckdb.DuckDBPyConnection, overview: Overview, load: Load) -> None:
    """Replace the lists of the warehouse by an overview; an overview of static lists leaves the smart ones alone.

    The overview is complete: a list that it lacks no longer exists. Call this in the transaction that makes a
    generation.
    """
    tables, name, counts = overview_tables(overview), overview.plan.overview_id, {}
    number = next_number(connection)
    covered = "true" if overview.plan.kind == "OVERVIEW" else f"type = '{overview.plan.kind}'"
    connection.register("shown", tables["service_lists"].to_arrow())
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE answered_lists AS "
        f"SELECT list_id FROM service_lists WHERE {covered} UNION SELECT list_id FROM shown"
    )
    for table in ("service_lists", "service_list_columns"):
        connection.register("shown", tables[table].to_arrow())
        counts[table] = supersede(connection, table, ("list_id",), "answered_lists", "shown", number)
    connection.unregister("shown")
    events = files(__package__).joinpath("events.sql").read_text("utf-8")
    counts["list_changes"] = connection.execute(events, {"number": number, "run": name}).fetchall()[0][0]
    counts["drift"] = _insert(connection, "drift", tables["drift"])
    add_load(connection, load, counts)


def load_additions(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    load: Load | None,
    until: datetime | None = None,
) -> None:
    """Replace the table of additions by what had landed by `until`; None takes all.

    Call this in the transaction that makes a generation. `load` is the row that marks them as loaded; None if another
    row does.
    """
    connection.execute("DELETE FROM contact_additions")
    connection.execute("DELETE FROM drift WHERE dataset = 'contacts'")
    tables = addition_tables(read_additions(folders, until))
    counts = {table: _insert(connection, table, frame) for table, frame in tables.items()}
    if load:
        add_load(connection, load, counts)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> int:
    connection.register("shown", frame.to_arrow())
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM shown")
    connection.unregister("shown")
    return frame.height


def overview_tables(overview: Overview) -> dict[str, pl.DataFrame]:
    """Make the rows of `service_lists`, `service_list_columns` and `drift` from an overview."""
    lists, _, drift, _ = overview.gather()
    columns = lists.select("list_id", "fetched_at", column_name="columns").filter(pl.col("column_name").list.len() > 0)
    positions = pl.int_ranges(0, pl.col("column_name").list.len()).alias("position")
    frames = {
        "service_lists": lists,
        "service_list_columns": columns.with_columns(positions).explode("column_name", "position"),
        "drift": drift,
    }
    return {table: shape_table(table, frame, overview.plan.overview_id) for table, frame in frames.items()}


def addition_tables(additions: Additions) -> dict[str, pl.DataFrame]:
    """Make the rows of `contact_additions` and `drift` from all applied plans."""
    rows = [(list_id, *contact, *known) for (list_id, contact), known in sorted(additions.statuses.items())]
    schema = polars_schema(TABLES["contact_additions"])
    frame = pl.DataFrame(rows, {**schema, "changed_at": _UTC}, orient="row").cast(schema)
    remarks, columns = [("contacts", *remark) for remark in additions.remarks], polars_schema(TABLES["drift"])
    drift = merge_drift(pl.DataFrame(remarks, {**columns, "first_seen_at": _UTC}, orient="row"))
    return {"contact_additions": frame, "drift": drift.select(columns.names()).cast(columns)}
