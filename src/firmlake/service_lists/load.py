"""Load landed answers about service lists: an overview with its history and events, and the additions.

The table of additions is small, so each load replaces it. The row in `loads` has the time up to which answers are
included.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from firmlake.core.folders import Folders
from firmlake.core.parts import fetch_dicts
from firmlake.core.settings import RunSettings
from firmlake.service_lists.additions import list_applied
from firmlake.service_lists.overview import Overview
from firmlake.service_lists.rows import addition_tables, overview_tables
from firmlake.warehouse.generations import newest, publish
from firmlake.warehouse.history import supersede
from firmlake.warehouse.loads import Load, add_load
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views

__all__ = [
    "LIST_KINDS",
    "lists_loaded_at",
    "load_additions",
    "load_overview",
    "newest_applied",
    "publish_lists",
    "read_list_changes",
]


def publish_lists(
    folders: Folders,
    settings: RunSettings,
    name: str,
    now: Callable[[], datetime],
    overview: Overview | None = None,
    change: Callable[[duckdb.DuckDBPyConnection], object] = lambda connection: None,
) -> Path:
    """Load an overview and the additions into the next generation.

    Args:
        folders: The data folder.
        settings: Memory limit, and how many generations are kept.
        name: The overview or plan that is loaded.
        now: The clock, UTC.
        overview: None leaves the lists as they are.
        change: A further change of the generation.

    Returns:
        The newest generation.
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
        start=newest(folders),
        storage_version=settings.storage_version,
    )


def lists_loaded_at(connection: duckdb.DuckDBPyConnection) -> datetime | None:
    """Return the time (UTC) up to which a generation includes answers about lists; None if it includes none."""
    query = "SELECT max(published_at) FROM loads ANTI JOIN runs USING (run_id)"
    moment: datetime | None = connection.execute(query).fetchall()[0][0]
    return moment and moment.replace(tzinfo=UTC)


def read_list_changes(connection: duckdb.DuckDBPyConnection, overview_id: str) -> list[dict[str, Any]]:
    """Read the events that an overview found: list_id, kind, old_value, new_value."""
    return fetch_dicts(connection.execute(_CHANGES, [overview_id]))


def newest_applied(folders: Folders) -> str | None:
    """Return the name of the newest plan that was applied; None if there is none."""
    return max((path.name.partition("=")[2] for path in folders.additions.glob("plan=*")), default=None)


def load_overview(connection: duckdb.DuckDBPyConnection, overview: Overview, load: Load) -> None:
    """Replace the lists of the warehouse by an overview; an overview of static lists leaves the smart ones alone.

    Args:
        connection: A generation in the making, in a transaction.
        overview: A complete overview; a list that it lacks no longer exists.
        load: The row that marks it as loaded.
    """
    tables, name, counts = overview_tables(overview), overview.plan.overview_id, {}
    covered = "true" if overview.plan.kind == "OVERVIEW" else f"type = '{overview.plan.kind}'"
    connection.register("shown", tables["service_lists"].to_arrow())
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE answered_lists AS "
        f"SELECT list_id FROM service_lists WHERE {covered} UNION SELECT list_id FROM shown"
    )
    connection.unregister("shown")
    for table in ("service_lists", "service_list_columns"):
        connection.register("shown", tables[table].to_arrow())
        counts[table] = supersede(connection, table, ("list_id",), "answered_lists", "shown", name)
        connection.unregister("shown")
    connection.execute(_PAIRS, [name])
    counts["list_changes"] = connection.execute(_RECORD, [name]).fetchall()[0][0]
    counts["drift"] = _insert(connection, "drift", tables["drift"])
    add_load(connection, load, counts)


def load_additions(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    load: Load | None,
    until: datetime | None = None,
) -> None:
    """Replace the table of additions by what has landed.

    Args:
        connection: A generation in the making, in a transaction.
        folders: The data folder.
        load: The row that marks them as loaded; None if another row does.
        until: Take only answers that had landed by then; None takes all.
    """
    connection.execute("DELETE FROM contact_additions")
    connection.execute("DELETE FROM drift WHERE dataset = 'contacts'")
    tables = addition_tables(list_applied(folders, until))
    counts = {table: _insert(connection, table, frame) for table, frame in tables.items()}
    if load:
        add_load(connection, load, counts)


# ---------------------------------------------------------------------------------------------------------------------

# Each list that changed, before and after. A list seen for the first time raises an event only for new results.
# A value that an overview leaves out raises no event, and none when it comes back.
_PAIRS = """
    CREATE OR REPLACE TEMP TABLE list_pairs AS
    SELECT list_id, b.list_id IS NOT NULL AS was, a.list_id IS NOT NULL AS is_there, a.type,
           b.name AS old_name, a.name AS new_name, b.is_shared AS old_shared, a.is_shared AS new_shared,
           b.company_count AS old_count, a.company_count AS new_count,
           b.new_result_count AS old_results, a.new_result_count AS new_results
    FROM closed_service_lists b
    FULL JOIN (FROM service_lists WHERE valid_from_run = ?) a USING (list_id)
"""

# For each kind of event: the value before, the value after, and the condition.
_KINDS: Final = {
    "list_gone": ("old_name", "NULL", "NOT is_there"),
    "list_renamed": ("old_name", "new_name", "was AND is_there AND old_name <> new_name"),
    "list_shared": ("NULL", "NULL", "was AND is_there AND new_shared AND NOT old_shared"),
    "list_unshared": ("NULL", "NULL", "was AND is_there AND NOT new_shared AND old_shared"),
    "list_grew": ("old_count", "new_count", "was AND is_there AND type = 'STATIC' AND new_count > old_count"),
    "list_shrank": ("old_count", "new_count", "was AND is_there AND type = 'STATIC' AND new_count < old_count"),
    "list_new_results": (
        "old_results",
        "new_results",
        "is_there AND type = 'SMART' AND new_results > 0 AND (NOT was OR new_results <> old_results)",
    ),
}
_FOUND = " UNION ALL ".join(
    f"SELECT list_id, '{kind}' AS kind, {old}::VARCHAR AS old_value, {new}::VARCHAR AS new_value "
    f"FROM list_pairs WHERE {condition}"
    for kind, (old, new, condition) in _KINDS.items()
)
_RECORD = f"""
    INSERT INTO list_changes BY NAME
    SELECT *, row_number() OVER (PARTITION BY list_id ORDER BY kind) - 1 AS position, ? AS run_id FROM ({_FOUND})
"""
LIST_KINDS: Final = tuple(_KINDS)
"""The kinds of events about lists."""

_CHANGES = "SELECT list_id, kind, old_value, new_value FROM list_changes WHERE run_id = ? ORDER BY kind, list_id"


def _insert(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> int:
    connection.register("shown", frame.to_arrow())
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM shown")
    connection.unregister("shown")
    return frame.height
