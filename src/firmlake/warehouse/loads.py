"""The table `loads`: one row for each run, overview or plan in a generation, in the order they were loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb

from firmlake.core.folders import Folders
from firmlake.tables.stage import SCHEMA_VERSION

__all__ = ["Load", "add_load", "has_loaded", "loaded_runs", "read_loads"]


class Load(NamedTuple):
    """The row of a run, an overview or a plan.

    Attributes:
        generation: Number of the generation.
        name: The run, overview or plan.
        published_at: When the generation was published, UTC.
        loaded_at: When this was first loaded, UTC. A replay repeats the decisions of that time.
    """

    generation: int
    name: str
    published_at: datetime
    loaded_at: datetime


def read_loads(connection: duckdb.DuckDBPyConnection) -> list[Load]:
    """Read the loads of a generation, in their order. Earlier versions of firmlake left out `loaded_at`."""
    rows = connection.execute(_LOADS).fetchall()
    return [
        Load(number, name, published_at.replace(tzinfo=UTC), loaded_at.replace(tzinfo=UTC))
        for number, name, published_at, loaded_at in rows
    ]


def loaded_runs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the runs in a generation, in the order they were loaded."""
    query = "SELECT run_id FROM loads SEMI JOIN runs USING (run_id) ORDER BY generation"
    return [run_id for (run_id,) in connection.execute(query).fetchall()]


def has_loaded(connection: duckdb.DuckDBPyConnection, folders: Folders, name: str) -> bool:
    """Return whether a data folder ever loaded a run, overview or plan. If so, a copy elsewhere came from this folder.

    A replay, a prune and a restored archive keep these names, so the folder needs no other mark.
    """
    is_plan = (folders.additions / f"plan={name}").exists()  # a replay loads only the newest plan
    return is_plan or name in {load.name for load in read_loads(connection)}


def add_load(
    connection: duckdb.DuckDBPyConnection, load: Load, counts: Mapping[str, int], changed_company_count: int = 0
) -> None:
    """Add the row that marks a run, an overview or a plan as loaded.

    Args:
        connection: An unpublished generation, in a transaction.
        load: The row.
        counts: Rows written, by table.
        changed_company_count: Companies whose rows were written.
    """
    times = load.published_at.replace(tzinfo=None), load.loaded_at.replace(tzinfo=None)
    connection.execute(
        "INSERT INTO loads BY NAME SELECT ? AS generation, ? AS run_id, ?::TIMESTAMP AS published_at, "
        "?::TIMESTAMP AS loaded_at, ? AS changed_company_count, ? AS row_counts, ? AS schema_version",
        [load.generation, load.name, *times, changed_company_count, json.dumps(counts), SCHEMA_VERSION],
    )


# ---------------------------------------------------------------------------------------------------------------------

_LOADS = """
    SELECT generation, run_id, published_at, coalesce(loaded_at, published_at)
    FROM (FROM loads UNION ALL BY NAME SELECT NULL::TIMESTAMP AS loaded_at WHERE false) ORDER BY generation
"""
