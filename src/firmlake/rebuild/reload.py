"""Load staged runs, overviews of service lists and additions into an empty generation, in their original order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb

from firmlake.core.folders import Folders
from firmlake.core.run import Outcome, Run
from firmlake.rebuild.finished import finished_runs
from firmlake.rebuild.restage import read_pruned
from firmlake.service_lists.load import load_additions, load_overview, newest_applied
from firmlake.service_lists.overview import Overview, list_overviews
from firmlake.tables.stage import Manifest
from firmlake.warehouse.create import create_tables
from firmlake.warehouse.load import load_run
from firmlake.warehouse.publish import publish
from firmlake.warehouse.views import create_views

__all__ = ["NEVER", "Content", "find_overviews", "load_staged", "loaded_names", "publish_content"]

NEVER = datetime.min.replace(tzinfo=UTC)


class Content(NamedTuple):
    """What a generation is made from.

    Attributes:
        staged: The staged runs.
        overviews: Overviews of the service lists.
        names: Runs and overviews in the order they were loaded. Those not in it follow, by the time they ended.
    """

    staged: list[tuple[Run, Outcome, Manifest]]
    overviews: list[Overview]
    names: Sequence[str]


def load_staged(
    folders: Folders,
    now: Callable[[], datetime],
    *,
    memory_limit: str,
    keep: int,
    without: Collection[str] = (),
    storage_version: str = "latest",
) -> Path:
    """Build a warehouse from runs that are already staged, in the order in which they ended.

    Args:
        folders: The data folder.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one.
        without: The names of runs to leave out.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one.

    Returns:
        The new generation.

    Raises:
        DamagedError: A staged file is missing or was changed; nothing was published. Restore the file.
    """
    runs = [(run, outcome) for run, outcome in finished_runs(folders) if run.run_id not in without]
    staged = [(run, outcome, read_pruned(run)) for run, outcome in runs]
    content = Content(staged, find_overviews(folders, (), only_loaded=False), ())
    return publish_content(folders, content, now, memory_limit, keep, storage_version=storage_version)


def loaded_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the runs, overviews and plans in a generation, in the order they were loaded."""
    return [name for (name,) in connection.execute("SELECT run_id FROM loads ORDER BY generation").fetchall()]


def find_overviews(folders: Folders, names: Sequence[str], *, only_loaded: bool) -> list[Overview]:
    """List the overviews to load: those loaded before, and later ones. An older one would overwrite newer state."""
    landed = list_overviews(folders)
    last = max((one.finished_at for one in landed if one.plan.overview_id in names), default=NEVER)
    return [
        one
        for one in landed
        if one.plan.overview_id in names or not (only_loaded or one.plan.is_look or one.finished_at < last)
    ]


def publish_content(
    folders: Folders,
    content: Content,
    now: Callable[[], datetime],
    memory_limit: str,
    keep: int,
    until: datetime | None = None,
    storage_version: str = "latest",
) -> Path:
    """Load runs and overviews into an empty generation in their original order, then the additions.

    Args:
        folders: The data folder.
        content: The runs and overviews.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB.
        keep: The number of generations to keep.
        until: Load only additions that had landed by this time; None loads all.
        storage_version: The oldest DuckDB that can read the file.
    """
    order = {name: position for position, name in enumerate(content.names)}
    load_one = partial(_load_run, now)
    steps: list[tuple[int, datetime, str, Callable[[duckdb.DuckDBPyConnection, int], None]]] = [
        *(
            (order.get(run.run_id, len(order)), outcome.finished_at, run.run_id, partial(load_one, *one))
            for one in content.staged
            for run, outcome, _ in (one,)
        ),
        *(
            (order.get(name, len(order)), one.finished_at, name, partial(_load_overview, now, one))
            for one in content.overviews
            for name in (one.plan.overview_id,)
        ),
    ]
    applied = newest_applied(folders)

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        create_tables(connection)
        last = number - (applied is not None)
        for position, (*_, step) in enumerate(sorted(steps, key=lambda step: step[:3]), 1 - len(steps)):
            step(connection, last + position)
        if applied is not None:
            load_additions(connection, folders, (number, applied, now()), until)
        if until is None:  # a verification compares tables only and needs no views
            create_views(connection)

    return publish(folders, load, memory_limit=memory_limit, keep=keep, storage_version=storage_version)


def _load_run(
    now: Callable[[], datetime],
    run: Run,
    outcome: Outcome,
    manifest: Manifest,
    connection: duckdb.DuckDBPyConnection,
    generation: int,
) -> None:
    load_run(connection, run, manifest, outcome, generation, now())


def _load_overview(
    now: Callable[[], datetime], overview: Overview, connection: duckdb.DuckDBPyConnection, generation: int
) -> None:
    load_overview(connection, overview, generation, now())
