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
from firmlake.warehouse.loads import Load
from firmlake.warehouse.publish import publish
from firmlake.warehouse.views import create_views

__all__ = ["NEVER", "Content", "find_overviews", "load_staged", "publish_content"]

NEVER = datetime.min.replace(tzinfo=UTC)


class Content(NamedTuple):
    """The content of a new generation.

    Attributes:
        staged: The staged runs.
        overviews: Overviews of the service lists.
        loads: Earlier loads, whose order is kept. Other runs and overviews follow, ordered by their end.
    """

    staged: list[tuple[Run, Outcome, Manifest]]
    overviews: list[Overview]
    loads: Sequence[Load]


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
        DamagedError: A staged file is missing or was changed. Nothing was published. Restore the file.
    """
    runs = [(run, outcome) for run, outcome in finished_runs(folders) if run.run_id not in without]
    staged = [(run, outcome, read_pruned(run)) for run, outcome in runs]
    content = Content(staged, find_overviews(folders, (), only_loaded=False), ())
    return publish_content(folders, content, now, memory_limit, keep, storage_version=storage_version)


def find_overviews(folders: Folders, loads: Sequence[Load], *, only_loaded: bool) -> list[Overview]:
    """List the overviews to load: those loaded before, and later ones. Older ones would overwrite newer state."""
    landed, names = list_overviews(folders), {load.name for load in loads}
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
    order = {load.name: position for position, load in enumerate(content.loads)}
    loaded_at = {load.name: load.loaded_at for load in content.loads}
    steps: list[tuple[datetime, str, Callable[..., None]]] = [
        *(
            (outcome.finished_at, run.run_id, partial(load_run, run=run, manifest=manifest, outcome=outcome))
            for run, outcome, manifest in content.staged
        ),
        *((one.finished_at, one.plan.overview_id, partial(load_overview, overview=one)) for one in content.overviews),
    ]
    steps.sort(key=lambda step: (order.get(step[1], len(order)), *step[:2]))
    applied = newest_applied(folders)

    def load(connection: duckdb.DuckDBPyConnection, number: int) -> None:
        create_tables(connection)
        last = number - (applied is not None)
        for position, (_, name, step) in enumerate(steps, 1 - len(steps)):
            moment = now()
            step(connection, load=Load(last + position, name, moment, loaded_at.get(name, moment)))
        if applied is not None:
            moment = now()
            load_additions(connection, folders, Load(number, applied, moment, moment), until)
        if until is None:  # a verification compares only tables, so it needs no views
            create_views(connection)

    return publish(folders, load, memory_limit=memory_limit, keep=keep, storage_version=storage_version)
