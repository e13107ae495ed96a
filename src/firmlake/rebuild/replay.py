"""Replay and verification: rebuild tables and warehouse from the landed answers, without a request."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.run import OUTCOME_LOST, Outcome, Run, plan_lost
from firmlake.core.runs import read_runs, restore_outcome
from firmlake.core.settings import ContractSettings
from firmlake.lists.load import lists_loaded_at, load_additions, load_overview, newest_applied
from firmlake.lists.overview import Overview, list_overviews
from firmlake.rebuild.restage import all_there_is, complete, restage, stage_whole
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.tables.stage import Manifest, check_landed, check_staged, read_manifest
from firmlake.warehouse.generations import open_warehouse, publish
from firmlake.warehouse.load import create_tables, load_run, loaded_runs
from firmlake.warehouse.macros import as_of_columns
from firmlake.warehouse.views import create_views

__all__ = ["TableCheck", "content_hashes", "finished_runs", "load_staged", "read_finished", "replay", "verify"]

_NEVER = datetime.min.replace(tzinfo=UTC)
_DIFFERS_BY_NATURE = ("loads",)
"""Tables that a replay changes: landed answers do not tell when and as which generation a run was published."""


class TableCheck(NamedTuple):
    """The rows and the content hash of one table, in the warehouse and in a replay of the landed answers."""

    table: str
    rows: int
    content_hash: str
    replayed_rows: int
    replayed_hash: str

    @property
    def agrees(self) -> bool:
        """Whether both are the same."""
        return (self.rows, self.content_hash) == (self.replayed_rows, self.replayed_hash)


def finished_runs(folders: Folders, loaded: Sequence[str] = ()) -> list[tuple[Run, Outcome]]:
    """List the runs that have ended: first the loaded runs in the order of loading, then the others by their end.

    Raises:
        DamagedError: A run that was loaded or has landed answers has lost its plan or its outcome. Without this check
            its answers would be left out unnoticed. The message says how to restore it.
    """
    runs, damaged = read_finished(folders, loaded)
    for error in damaged.values():
        raise error
    return runs


def read_finished(
    folders: Folders, loaded: Sequence[str] = ()
) -> tuple[list[tuple[Run, Outcome]], dict[str, DamagedError]]:
    """List the runs as `finished_runs` does, and return damaged runs by name instead of raising an error."""
    runs, unreadable = read_runs(folders)
    landed = {path.name.removeprefix("run=") for path in (folders.data / "landing").glob("run=*")}
    damaged: dict[str, DamagedError] = {}
    for run_id in sorted(landed | set(loaded)):
        needed = {"plan.json": plan_lost(folders, run_id)}
        if run_id in loaded:
            needed["outcome.json"] = OUTCOME_LOST
        for name, next_step in needed.items():
            if not (path := folders.run(run_id) / name).exists():
                damaged.setdefault(run_id, DamagedError(f"{path} is missing", next_step))
    ended = [
        (run, outcome)
        for run in runs
        if run.run_id not in damaged and (outcome := run.outcome()) and not outcome.is_refused
    ]
    order = {run_id: position for position, run_id in enumerate(loaded)}
    ended.sort(key=lambda pair: (order.get(pair[0].run_id, len(order)), pair[1].finished_at, pair[0].run_id))
    return ended, damaged | unreadable


def replay(
    folders: Folders,
    now: Callable[[], datetime],
    *,
    memory_limit: str,
    keep: int,
    on_run: Callable[[Run], object] = lambda run: None,
    processes: int = 1,
    storage_version: str = "latest",
    contract: ContractSettings | None = None,
) -> Path:
    """Rebuild the staged tables and the warehouse from the landed answers, as a new generation.

    Args:
        folders: The data folder.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one.
        on_run: Called with each run before it is staged.
        processes: The number of processes that stage shards in parallel.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one.
        contract: Read all answers by these settings; None reads each run by the settings it was frozen with.

    Returns:
        The new generation. Apart from `loads` it equals the generation before, unless `contract` changes the result.

    Raises:
        FirmlakeError: There is nothing to replay yet; run a company list first.
        DamagedError: A landed answer is not what was written; nothing was published. Restore the file that is named.
    """
    _restore_outcomes(folders)
    loaded, names = _loaded(folders)
    runs = [
        (run if contract is None or run.is_pruned else run.read_by(contract), outcome)
        for run, outcome in finished_runs(folders, loaded)
    ]
    staged = [(run, outcome, restage(run, on_run, processes)) for run, outcome in runs]
    overviews = _overviews(folders, names, only_loaded=False)
    if not (staged or overviews or newest_applied(folders)):
        raise FirmlakeError(f"{folders.data} holds nothing to replay", "`firmlake run LIST` fetches something")
    whole = partial(stage_whole, processes=processes)
    return _publish_all(
        folders, staged, overviews, names, now, memory_limit, keep, whole, storage_version=storage_version
    )


def load_staged(
    folders: Folders,
    now: Callable[[], datetime],
    *,
    memory_limit: str,
    keep: int,
    stage_whole: Callable[[Run], Manifest],
    without: Collection[str] = (),
    storage_version: str = "latest",
) -> Path:
    """Build a warehouse from runs that are already staged, in the order in which they ended.

    Args:
        folders: The data folder.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one.
        stage_whole: Stages a run again with all its records, if the warehouse lacks a record that staging left out.
        without: The names of runs to leave out.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one.

    Returns:
        The new generation.

    Raises:
        DamagedError: A staged file is missing or not what was written; nothing was published. Restore the file.
    """
    runs = [(run, outcome) for run, outcome in finished_runs(folders) if run.run_id not in without]
    staged = [(run, outcome, all_there_is(run)) for run, outcome in runs]
    overviews = _overviews(folders, (), only_loaded=False)
    return _publish_all(
        folders, staged, overviews, (), now, memory_limit, keep, stage_whole, storage_version=storage_version
    )


def verify(folders: Folders, now: Callable[[], datetime], *, memory_limit: str) -> list[TableCheck]:
    """Prove that landed answers, staged tables and warehouse agree: replay into a temporary folder and compare.

    Returns:
        One check per table of the newest generation, and one per `_as_of` macro, which as of the last run must return
        the rows of its table.

    Raises:
        DamagedError: A landed or staged file is not what was written, or staged rows differ from the landed answers.
            The message names the file and says how to restore it.
    """
    room = folders.data if is_writable(folders.data) else None  # None: the temporary folder of the system
    with tempfile.TemporaryDirectory(dir=room, prefix=".verify-") as name:
        aside = Folders(folders.data, made=Path(name))
        with open_warehouse(folders) as held:
            loaded = loaded_runs(held)
            expected, pasts = (
                content_hashes(held),
                _check_as_of(held),
            )  # first, so that a damaged generation is named as such
            finished = finished_runs(aside, loaded)
            staged = []
            for run, outcome in finished:
                if run.run_id in loaded:
                    ours = Run(folders, run.plan)
                    source = ours if run.is_pruned else run
                    recorded = read_manifest(ours)
                    if recorded and not run.is_pruned:
                        source = source.read_by(recorded.contract)
                    again = restage(source, is_whole=recorded is not None and recorded.is_whole)
                    staged.append((source, outcome, again))
                    if not run.is_pruned and folders.staged(run.run_id).exists():  # a pruned run has nothing to compare
                        _compare_staged(ours, again, aside)
            names, until = _names(held), lists_loaded_at(held)
            overviews = _overviews(folders, names, only_loaded=True)
            _publish_all(aside, staged, overviews, names, now, memory_limit, 1, stage_whole, until or _NEVER)
            with open_warehouse(aside) as replayed:
                found = content_hashes(replayed)
    tables = (table for table in expected if table not in _DIFFERS_BY_NATURE)
    return [*(TableCheck(table, *expected[table], *found[table]) for table in tables), *pasts]


def content_hashes(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, str]]:
    """Return the row count and a content hash of each table. The order of rows does not change the hash."""
    return {
        name: _content_hash(connection, name, (column.name for column in table.columns))
        for name, table in WAREHOUSE_TABLES.items()
    }


# ---------------------------------------------------------------------------------------------------------------------


def _loaded(folders: Folders) -> tuple[list[str], list[str]]:
    """List the runs, and all names, loaded into the newest generation.

    Both lists are empty if the generation cannot be read, since replay is the remedy for that.
    """
    try:
        with open_warehouse(folders, of_any_version=True) as connection:
            return loaded_runs(connection), _names(connection)
    except (FirmlakeError, duckdb.Error):
        return [], []


def _restore_outcomes(folders: Folders) -> None:
    """Restore lost outcomes of published runs from the warehouse."""
    with suppress(FirmlakeError, duckdb.Error), open_warehouse(folders, of_any_version=True) as connection:
        rows = connection.execute("FROM runs").fetchall()
        names = [column[0] for column in connection.description or ()]
        for row in (dict(zip(names, values, strict=True)) for values in rows):
            known = Outcome(
                run_id=row["run_id"],
                outcome=row["outcome"],
                reason=row.get("reason") or "",  # a warehouse of schema version 2 does not tell
                next_step=row.get("next_step") or "",
                finished_at=row["finished_at"].replace(tzinfo=UTC),
            )
            restore_outcome(folders, known)


def _names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the runs, overviews and plans in a generation, in the order they were loaded."""
    return [name for (name,) in connection.execute("SELECT run_id FROM loads ORDER BY generation").fetchall()]


def _overviews(folders: Folders, names: Sequence[str], *, only_loaded: bool) -> list[Overview]:
    """List the overviews to load: those loaded before, and later ones. An older one would overwrite newer state."""
    landed = list_overviews(folders)
    last = max((one.finished_at for one in landed if one.plan.overview_id in names), default=_NEVER)
    return [
        one
        for one in landed
        if one.plan.overview_id in names or not (only_loaded or one.plan.is_look or one.finished_at < last)
    ]


def _publish_all(
    folders: Folders,
    staged: list[tuple[Run, Outcome, Manifest]],
    overviews: list[Overview],
    names: Sequence[str],
    now: Callable[[], datetime],
    memory_limit: str,
    keep: int,
    stage_whole: Callable[[Run], Manifest],
    until: datetime | None = None,
    storage_version: str = "latest",
) -> Path:
    """Load runs and overviews into an empty generation in their original order, then the additions.

    Args:
        folders: The data folder.
        staged: The staged runs.
        overviews: Overviews of the service lists.
        names: Runs and overviews in the order they were loaded. Those not in it follow, by the time they ended.
        now: The clock, UTC.
        memory_limit: Memory limit of DuckDB.
        keep: The number of generations to keep.
        stage_whole: Stages a run again with all its records, if the generation lacks one that staging left out.
        until: Load only additions that had landed by this time; None loads all.
        storage_version: The oldest DuckDB that can read the file.
    """
    order = {name: position for position, name in enumerate(names)}
    load_one = partial(_load_run, now, stage_whole)
    steps: list[tuple[int, datetime, str, Callable[[duckdb.DuckDBPyConnection, int], None]]] = [
        *(
            (order.get(run.run_id, len(order)), outcome.finished_at, run.run_id, partial(load_one, *one))
            for one in staged
            for run, outcome, _ in (one,)
        ),
        *(
            (order.get(name, len(order)), one.finished_at, name, partial(_load_overview, now, one))
            for one in overviews
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
    stage_whole: Callable[[Run], Manifest],
    run: Run,
    outcome: Outcome,
    manifest: Manifest,
    connection: duckdb.DuckDBPyConnection,
    generation: int,
) -> None:
    load_run(connection, run, complete(connection, run, manifest, stage_whole), outcome, generation, now())


def _load_overview(
    now: Callable[[], datetime], overview: Overview, connection: duckdb.DuckDBPyConnection, generation: int
) -> None:
    load_overview(connection, overview, generation, now())


def _check_as_of(connection: duckdb.DuckDBPyConnection) -> list[TableCheck]:
    last = "(SELECT arg_max(run_id, generation) FROM loads)"
    return [
        TableCheck(
            f"{name}_as_of",
            *_content_hash(connection, name, columns),
            *_content_hash(connection, f"{name}_as_of({last})", columns),
        )
        for name, table in TABLES.items()
        if table.volatile is not None and (columns := as_of_columns(table))
    ]


def _content_hash(connection: duckdb.DuckDBPyConnection, relation: str, columns: Iterable[str]) -> tuple[int, str]:
    row_hash = f"hash({', '.join(columns)})"
    query = f"SELECT count(*), bit_xor({row_hash}), sum({row_hash}::HUGEINT) FROM {relation}"  # noqa: S608 - our own names
    count, mixed, total = connection.execute(query).fetchall()[0]
    return count, f"{mixed or 0:016x}{(total or 0) % 2**64:016x}"


def _compare_staged(run: Run, again: Manifest, aside: Folders) -> None:
    staged = read_manifest(run)
    if staged is None:
        folder = run.folders.staged(run.run_id)
        raise DamagedError(f"{folder} has no manifest, or a damaged one", "`firmlake replay` makes it again")
    check_landed(run, staged)
    check_staged(run, staged)
    made = {file.path: file for file in again.files}
    for file in staged.files:
        old = run.folders.staged(run.run_id) / file.path
        new = aside.staged(run.run_id) / file.path
        if file.path not in made or (
            file.sha256 != made[file.path].sha256
            and not pl.read_parquet(old, glob=False).equals(pl.read_parquet(new, glob=False))
        ):
            raise DamagedError(f"{old} differs from the landed answers", "`firmlake replay` makes it again")
