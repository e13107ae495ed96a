"""Prove, without sending requests, that answers, staged tables and warehouse agree, or that no file has changed."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec
import polars as pl

from firmlake.core.errors import DamagedError
from firmlake.core.files import is_writable, read_json
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.core.work import Clock
from firmlake.landing.run import Run
from firmlake.landing.segments import read_segment
from firmlake.rebuild.replay import NEVER, Content, find_overviews, finished_runs, publish_content, read_pruned, restage
from firmlake.service_lists.load import lists_loaded_at
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES
from firmlake.tables.stage import Manifest, check_landed, check_staged, required_manifest
from firmlake.warehouse.generations import newest_of_all, open_warehouse
from firmlake.warehouse.loads import loaded_runs, read_loads
from firmlake.warehouse.versions import as_of_columns

_DEFAULTS = RunSettings()
_DIFFERS_BY_NATURE = ("loads",)
"""Tables that a replay changes, because landed answers do not say when and in which generation a run was published."""


class TableCheck(NamedTuple):
    """The rows and the content hash of one table, in the warehouse and in a replay."""

    table: str
    rows: int
    content_hash: str
    replayed_rows: int
    replayed_hash: str

    @property
    def agrees(self) -> bool:
        """Whether both are the same."""
        return (self.rows, self.content_hash) == (self.replayed_rows, self.replayed_hash)


def verify(
    folders: Folders,
    now: Clock,
    settings: RunSettings = _DEFAULTS,
    *,
    processes: int = 1,
    on_run: Callable[[Run], object] = lambda run: None,
) -> list[TableCheck]:
    """Prove that landed answers, staged tables and warehouse agree: replay into a temporary folder and compare.

    A run whose landed answers were pruned is replayed from its staged tables. `on_run` is called with each run before.

    Returns:
        One check per table of the newest generation, and one per `_as_of` macro, which must return the rows of its
        table as of the last run.

    Raises:
        DamagedError: A landed or staged file was changed, or staged rows differ from the landed answers.
            The message names the file and says how to restore it.
    """
    room = folders.data if is_writable(folders.data) else None  # None: the temporary folder of the system
    with tempfile.TemporaryDirectory(dir=room, prefix=".verify-") as name:
        aside = Folders(folders.data, made=Path(name))
        with open_warehouse(folders, with_held=True, memory_limit=settings.duckdb_memory) as warehouse:
            loaded, loads, until = loaded_runs(warehouse), read_loads(warehouse), lists_loaded_at(warehouse)
            # Read first, so that a damaged generation is reported as such.
            expected, pasts = content_hashes(warehouse), _check_as_of(warehouse)
        staged = []
        for run, outcome in finished_runs(folders, loaded):
            if run.run_id in loaded:
                proven, manifest = _stage_again(run, aside, on_run, processes)
                staged.append((proven, outcome, manifest))
        content = Content(staged, find_overviews(folders, loads, only_loaded=True), loads)
        publish_content(aside, content, now, settings, until or NEVER)
        with open_warehouse(aside, memory_limit=settings.duckdb_memory) as replayed:
            found = content_hashes(replayed)
    tables = (table for table in expected if table not in _DIFFERS_BY_NATURE)
    return [*(TableCheck(table, *expected[table], *found[table]) for table in tables), *pasts]


def content_hashes(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[int, str]]:
    """Return the row count and a content hash of each table. The order of rows does not change the hash."""
    return {
        name: _content_hash(connection, name, (column.name for column in table.columns))
        for name, table in WAREHOUSE_TABLES.items()
    }


def _stage_again(run: Run, aside: Folders, on_run: Callable[[Run], object], processes: int) -> tuple[Run, Manifest]:
    """Stage a run aside and compare the tables with its staged ones; return the run with the tables to load."""
    if run.is_pruned:
        return run, restage(run, on_run)
    staged = required_manifest(run) if run.folders.staged(run.run_id).exists() else None
    run = run.read_by(staged.contract) if staged else run
    again = Run(aside, run.plan)
    made = restage(again, on_run, processes)
    if staged is None:
        return again, made
    _compare_staged(run, staged, again, made)
    shutil.rmtree(aside.staged(run.run_id))  # the tables of all runs would need as much disk space again
    return run, staged


def _compare_staged(run: Run, staged: Manifest, again: Run, made: Manifest) -> None:
    check_landed(run, staged)
    check_staged(run, staged)
    ours, theirs = ({file.path: file.sha256 for file in manifest.files} for manifest in (staged, made))
    for path in sorted(ours.keys() | theirs.keys()):
        old, new = (each.folders.staged(run.run_id) / path for each in (run, again))
        if not (path in ours and path in theirs) or (
            ours[path] != theirs[path] and not pl.read_parquet(old, glob=False).equals(pl.read_parquet(new, glob=False))
        ):
            raise DamagedError(f"{old} differs from the landed answers", "Rebuild it with `firmlake replay`")


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


class Unchanged(NamedTuple):
    """The unchanged files that were read: number of runs, files and bytes."""

    runs: int
    files: int
    bytes: int


def check_unchanged(folders: Folders, *, memory_limit: str) -> Unchanged:
    """Compare every landed and staged file, and the newest generation, with their checksums.

    The DamagedError names the file that is missing or was changed, and says how to restore it.
    """
    with open_warehouse(folders, with_held=True, memory_limit=memory_limit) as warehouse:
        loaded = loaded_runs(warehouse)
        content_hashes(warehouse)  # DuckDB compares the checksum of each block that it reads
    generation = newest_of_all(folders)
    files = {generation} if generation else set()
    runs = [run for run, _ in finished_runs(folders, loaded)]
    for run in runs:
        files.update(run.check())
        if manifest := _manifest(run):
            check_staged(run, manifest)
            files.update(folders.staged(run.run_id) / file.path for file in manifest.files)
            if not run.is_pruned:
                check_landed(run, manifest)
                files.update(folders.data / name for name in manifest.segments)
    for path in set(folders.landed.rglob("*.zst")) - files:  # of other runs, service lists and contacts
        deque(read_segment(path), maxlen=0)
        files.add(path)
    for path in folders.landed.rglob("*.json"):
        read_json(path, msgspec.Raw)
        files.add(path)
    return Unchanged(len(runs), len(files), sum(path.stat().st_size for path in files))


def _manifest(run: Run) -> Manifest | None:
    """Return the manifest of a run's files; None if it has only landed answers."""
    if run.is_pruned:
        return read_pruned(run)
    return required_manifest(run) if run.folders.staged(run.run_id).exists() else None
