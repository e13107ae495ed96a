"""Replay and verification: tables and warehouse made again from the landed answers, without a request."""

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
from firmlake.core.run import OUTCOME_LOST, Folders, Outcome, Run, plan_lost, read_runs, restore_outcome
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
"""When and as which generation a run was published is not in the landed answers."""


class TableCheck(NamedTuple):
    """One table, as the warehouse has it and as the landed answers give it: rows and content hash."""

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
    """List the runs whose fetching ended, in the order they were loaded; those that were not, by when they ended.

    Raises:
        DamagedError: A run that was loaded, or of which something has landed, has lost its plan or its outcome:
            without it, its answers would be left out unseen.
    """
    runs, damaged = read_finished(folders, loaded)
    for error in damaged.values():
        raise error
    return runs


def read_finished(
    folders: Folders, loaded: Sequence[str] = ()
) -> tuple[list[tuple[Run, Outcome]], dict[str, DamagedError]]:
    """List what `finished_runs` does; and by name the runs because of which that raises."""
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
    """Make staged tables and warehouse again from what has landed, as a new generation.

    Args:
        folders: Where.
        now: The clock, UTC.
        memory_limit: For DuckDB, such as "512MB".
        keep: Generations kept, the new one included.
        on_run: Called with each run before it is staged.
        processes: Shards staged at once, as for `stage_shards`.
        storage_version: As for `publish`.
        contract: Settings by which all answers are read; None reads each run's by its own.

    Returns:
        The new generation; `loads` apart, its content is that of the one before, unless `contract` changes it.

    Raises:
        FirmlakeError: Nothing has been fetched to its end yet.
        DamagedError: A landed answer is not what was written; nothing is published.
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
    """Make a warehouse of runs that are staged already, in the order in which they ended; else as `replay`.

    Args:
        folders: Where.
        now: The clock, UTC.
        memory_limit: For DuckDB, such as "512MB".
        keep: Generations kept, the new one included.
        stage_whole: As `stage` for `complete`.
        without: Names of runs that are left out.
        storage_version: As for `publish`.

    Raises:
        DamagedError: A staged file is missing or not what was written; nothing is published.
    """
    runs = [(run, outcome) for run, outcome in finished_runs(folders) if run.run_id not in without]
    staged = [(run, outcome, all_there_is(run)) for run, outcome in runs]
    overviews = _overviews(folders, (), only_loaded=False)
    return _publish_all(
        folders, staged, overviews, (), now, memory_limit, keep, stage_whole, storage_version=storage_version
    )


def verify(folders: Folders, now: Callable[[], datetime], *, memory_limit: str) -> list[TableCheck]:
    """Prove that landed = staged = warehouse: replay aside and compare.

    Returns:
        A check for each table of the newest generation, and for each question about the past: asked as of the last run,
        it must give what the table holds.

    Raises:
        DamagedError: A landed or staged file is not what was written, or staged rows are not what the answers give.
    """
    room = folders.data if is_writable(folders.data) else None  # else where the system keeps what is temporary
    with tempfile.TemporaryDirectory(dir=room, prefix=".verify-") as name:
        aside = Folders(folders.data, made=Path(name))
        with open_warehouse(folders) as held:
            loaded = loaded_runs(held)
            expected, pasts = content_hashes(held), _check_as_of(held)  # first: what fails to be read is this one
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
                    if not run.is_pruned and folders.staged(run.run_id).exists():  # else it was pruned
                        _compare_staged(ours, again, aside)
            names, until = _names(held), lists_loaded_at(held)
            overviews = _overviews(folders, names, only_loaded=True)
            _publish_all(aside, staged, overviews, names, now, memory_limit, 1, stage_whole, until or _NEVER)
            with open_warehouse(aside) as replayed:
                found = content_hashes(replayed)
    tables = (table for table in expected if table not in _DIFFERS_BY_NATURE)
    return [*(TableCheck(table, *expected[table], *found[table]) for table in tables), *pasts]


def content_hashes(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, str]]:
    """Give rows and a hash of the content of each table, whatever the order of its rows."""
    return {
        name: _content_hash(connection, name, (column.name for column in table.columns))
        for name, table in WAREHOUSE_TABLES.items()
    }


# ---------------------------------------------------------------------------------------------------------------------


def _loaded(folders: Folders) -> tuple[list[str], list[str]]:
    """List the runs, and everything, loaded into the newest generation, as far as it can be read.

    Replay is what one does when it cannot.
    """
    try:
        with open_warehouse(folders, of_any_version=True) as connection:
            return loaded_runs(connection), _names(connection)
    except (FirmlakeError, duckdb.Error):
        return [], []


def _restore_outcomes(folders: Folders) -> None:
    """Write again how published runs ended, where that is lost; the warehouse tells all but why."""
    with suppress(FirmlakeError, duckdb.Error), open_warehouse(folders, of_any_version=True) as connection:
        for run_id, outcome, at in connection.execute("SELECT run_id, outcome, finished_at FROM runs").fetchall():
            known = Outcome(run_id=run_id, outcome=outcome, finished_at=at.replace(tzinfo=UTC))
            restore_outcome(folders, known)


def _names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """List the runs, overviews and plans in a generation, in the order they were loaded."""
    return [name for (name,) in connection.execute("SELECT run_id FROM loads ORDER BY generation").fetchall()]


def _overviews(folders: Folders, names: Sequence[str], *, only_loaded: bool) -> list[Overview]:
    """List the overviews to load: those that were, and the later ones, for an earlier one would bring back the past."""
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
    """Load runs and overviews as they were loaded first into a generation that starts empty, then the additions.

    Args:
        folders: Where.
        staged: Runs.
        overviews: Of the lists.
        names: What was loaded, in that order; what was not comes after it, by when it ended.
        now: The clock, UTC.
        memory_limit: For DuckDB.
        keep: Generations kept.
        stage_whole: As `stage` for `complete`.
        until: Additions that had landed by then; None takes all.
        storage_version: As for `publish`.
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
        if until is None:  # else it is only compared, and nobody asks it anything
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
            raise DamagedError(f"{old} does not hold what the landed answers give", "`firmlake replay` makes it again")
