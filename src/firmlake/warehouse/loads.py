"""What was loaded and until when it is paid: the table `loads`, and the end of a company's paid window.

`loads` has one row for each run, overview or plan in a generation, in the order they were loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import duckdb

from firmlake.core.errors import FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.sql import read_queries
from firmlake.landing.run import Run
from firmlake.tables.stage import SCHEMA_VERSION

_SQL = read_queries(__file__)

MARGIN = timedelta(hours=12)
"""Count a paid window as over this long before its end, because the last answers of a run that outlasts the window
would be charged for."""

UNSURE = """
    SELECT paid_at FROM (SELECT paid_at, count(*) AS paid_count FROM companies GROUP BY ALL)
    JOIN requests q ON q.fetched_at = paid_at
    WHERE credits_charged < paid_count
          AND q.run_id IN (SELECT run_id FROM runs WHERE credit_count < expected_credit_count)
"""
"""The times of payments for which the service charged too little, so that the windows of some companies began earlier.

Somebody else paid for them, such as a run of another data folder, or this data folder did and a kill lost the answer.
The end of their windows is unknown, so none of these companies is refreshed for free.
"""


class Load(NamedTuple):
    """The row of a run, an overview or a plan.

    A replay repeats the decisions of the time when this was first loaded, and keeps what was measured.
    """

    generation: int
    name: str  # of the run, overview or plan
    published_at: datetime  # when the generation was published, UTC
    loaded_at: datetime  # when this was first loaded, UTC
    measurements: str | None = None  # of its generation, as JSON, see `firmlake.warehouse.gates`


def read_loads(connection: duckdb.DuckDBPyConnection) -> list[Load]:
    """Read the loads of a generation, in their order. One that `firmlake replay` rebuilds may lack columns."""
    rows = connection.execute(_SQL["loads"]).fetchall()
    return [
        Load(number, name, published_at.replace(tzinfo=UTC), loaded_at.replace(tzinfo=UTC), measurements)
        for number, name, published_at, loaded_at, measurements in rows
    ]


def loaded_runs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the runs in a generation, in the order they were loaded."""
    query = "SELECT run_id FROM loads SEMI JOIN runs USING (run_id) ORDER BY generation"
    return [run_id for (run_id,) in connection.execute(query).fetchall()]


def run_loads(connection: duckdb.DuckDBPyConnection) -> list[Load]:
    """Read the loads of runs in a generation, in their order."""
    runs = set(loaded_runs(connection))
    return [load for load in read_loads(connection) if load.name in runs]


def all_loads(loads: Sequence[Load], runs: Iterable[Run]) -> list[tuple[str, datetime]]:
    """List the runs whose answers count, and when each was loaded, as `run_loads` says.

    Runs of the data folder that ended and are not loaded yet follow, in the order of their ends.
    """
    loaded = {load.name for load in loads}
    ends = ((run.run_id, run.outcome()) for run in runs if run.run_id not in loaded)
    ended = sorted((end.finished_at, name) for name, end in ends if end and not end.is_refused)
    return [*((load.name, load.loaded_at) for load in loads), *((name, at) for at, name in ended)]


def has_loaded(connection: duckdb.DuckDBPyConnection, folders: Folders, name: str) -> bool:
    """Return whether a data folder ever loaded a run, overview or plan. If so, a copy elsewhere came from this folder.

    A replay, a prune and a restored archive keep these names, so the folder needs no other mark.
    """
    is_plan = (folders.additions / f"plan={name}").exists()  # a replay loads only the newest plan
    return is_plan or name in {load.name for load in read_loads(connection)}


def check_version(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the last commit has tables; without a row in `loads`, they have the expected shape.

    If another version of firmlake made the generation, the FirmlakeError says what to do.
    """
    with connection.cursor() as apart:  # an unknown table aborts the transaction that reads it
        try:
            versions = apart.execute("SELECT DISTINCT schema_version FROM loads").fetchall()
        except duckdb.CatalogException:
            return False
    others = [version for (version,) in versions if version != SCHEMA_VERSION]
    if not others:
        return True
    when, next_step = (
        ("a later", "Install that version again, or rebuild the warehouse for this version with `firmlake replay`")
        if max(others) > SCHEMA_VERSION
        else ("an earlier", "Rebuild it with `firmlake replay`, which sends no request")
    )
    raise FirmlakeError(
        f"The warehouse was made by {when} version of firmlake, whose tables have another shape "
        f"(version {max(others)}; this version expects {SCHEMA_VERSION})",
        next_step,
    )


def add_load(
    connection: duckdb.DuckDBPyConnection, load: Load, counts: Mapping[str, int], changed_company_count: int = 0
) -> None:
    """Add the row that marks a run, an overview or a plan as loaded, with the number of rows written by table."""
    times = load.published_at.replace(tzinfo=None), load.loaded_at.replace(tzinfo=None)
    values = [load.generation, load.name, *times, changed_company_count, json.dumps(counts), load.measurements]
    connection.execute(
        "INSERT INTO loads BY NAME SELECT ? AS generation, ? AS run_id, ?::TIMESTAMP AS published_at, "
        "?::TIMESTAMP AS loaded_at, ? AS changed_company_count, ? AS row_counts, ? AS measurements, "
        "? AS schema_version",
        [*values, SCHEMA_VERSION],
    )


def closing_lead(free_refresh_days: int) -> timedelta:
    """Return how long before the end of its paid window a company is refreshed for free; zero for never.

    The days exclude the margin at the end, when a refresh would come too late. They also exclude a second margin, for
    runs that start later than usual, for example because of daylight saving time or a busy worker.
    """
    return timedelta(days=free_refresh_days) + 2 * MARGIN if free_refresh_days else timedelta()
