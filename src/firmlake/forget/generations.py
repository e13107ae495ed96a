"""Rebuild the newest generation, and one held back, from cleaned runs; remove older ones that name a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import polars as pl

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.folders import Folders
from firmlake.core.settings import RunSettings
from firmlake.forget.place import Place, count_changed
from firmlake.landing.run import Outcome, Run, run_ids
from firmlake.privacy.forgotten import Forgotten
from firmlake.privacy.frames import clean_frame
from firmlake.rebuild.replay import finished_runs, read_pruned
from firmlake.service_lists.load import load_additions, load_overview
from firmlake.service_lists.overview import Overview, list_overviews
from firmlake.tables.stage import finish_stage, read_manifest, stage_shards
from firmlake.warehouse.generations import checkpoint, connect_to, find_held, list_generations, newest, remake
from firmlake.warehouse.load import load_run
from firmlake.warehouse.loads import Load, read_loads
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.views import create_views

__all__ = ["check_generations", "clean_generations", "find_in_generation"]

_ROWS = 100_000


Find = Callable[[Path], Iterable[Place]]
Step = Callable[[duckdb.DuckDBPyConnection, Load], None]


def clean_generations(folders: Folders, find: Find, settings: RunSettings, *, write: bool) -> Iterator[Place]:
    """Rebuild the newest generation and the one held back if they hold data to remove; remove older ones that do.

    Their runs were cleaned before. A rebuilt generation has the same loads, numbers and times as before.

    Args:
        folders: The data folder.
        find: Yields a place for each table of a generation that holds data to remove.
        settings: Limits of the warehouse.
        write: False only finds the places.

    Raises:
        DamagedError: A run that a generation was made from is damaged.
    """
    held, published = find_held(folders), newest(folders)
    kept = {path.name for path in (held, published) if path}
    for path in (*list_generations(folders), *filter(None, [held])):
        found = list(find(path))
        yield from found
        if write and found and path.name not in kept:
            path.unlink()
        elif write and found:
            _remake(folders, path, settings)
            if left := next(iter(find(path)), None):
                raise FirmlakeError(
                    f"{path} still holds data that must be removed, in {left.what}",
                    "Run `firmlake replay`, and report this as a bug",
                )


def check_generations(folders: Folders) -> None:
    """Check that each generation can be read.

    Raises:
        DamagedError: A generation cannot be read. The message says how to restore it.
    """
    for path in (*list_generations(folders), *filter(None, [find_held(folders)])):
        with _explained(path):
            _read_loads(path)


def find_in_generation(path: Path, forgotten: Forgotten) -> Iterator[Place]:
    """Yield each table of a generation that names a forgotten subject, with the number of such rows.

    Raises:
        DamagedError: The generation cannot be read.
    """
    with _explained(path), connect_to(path) as connection:
        for (table,) in connection.execute(_TABLES).fetchall():
            if count := _count(connection, table, forgotten):
                yield Place(path, table.removesuffix("_versions"), count)


# ---------------------------------------------------------------------------------------------------------------------

_TABLES = """
    SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal AND NOT temporary ORDER BY ALL
"""
_COLUMNS = """
    SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main'
    AND data_type IN ('VARCHAR', 'JSON')
"""


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise DamagedError(
            f"{path} cannot be read: {error}", "Rebuild the newest generation with `firmlake replay`"
        ) from None


def _count(connection: duckdb.DuckDBPyConnection, table: str, forgotten: Forgotten) -> int:
    columns = connection.execute(_COLUMNS, [table]).fetchall()
    if not columns:
        return 0
    names = ", ".join(f'"{name}"::VARCHAR AS "{name}"' for name, _ in columns)
    reader = connection.sql(f'SELECT {names} FROM "{table}"').to_arrow_reader(_ROWS)  # noqa: S608 - names of tables
    count = 0
    for batch in reader:
        frame = pl.DataFrame(pl.from_arrow(batch))
        count += count_changed(frame, clean_frame(frame, forgotten))
    return count


def _read_loads(path: Path) -> list[Load]:
    with connect_to(path) as connection:
        return read_loads(connection)


def _find_steps(folders: Folders, names: list[str]) -> dict[str, Step]:
    """Return functions that load each of these runs and overviews, after staging runs that are not staged."""
    known = set(run_ids(folders))
    loaded = [name for name in names if name in known]
    steps = {
        run.run_id: _run_step(run, outcome) for run, outcome in finished_runs(folders, loaded) if run.run_id in loaded
    }
    overviews = {one.plan.overview_id: one for one in list_overviews(folders)} if len(loaded) < len(names) else {}
    return steps | {name: _overview_step(folders, one) for name, one in overviews.items() if name in names}


def _run_step(run: Run, outcome: Outcome) -> Step:
    if run.is_pruned:
        manifest = read_pruned(run)
    else:
        recorded = read_manifest(run)
        run = run.read_by(recorded.contract) if recorded else run
        manifest = finish_stage(run, stage_shards(run))

    def step(connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        load_run(connection, run, manifest, outcome, load)

    return step


def _overview_step(folders: Folders, overview: Overview) -> Step:
    def step(connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        load_overview(connection, overview, load)
        load_additions(connection, folders, None, load.published_at)

    return step


def _remake(folders: Folders, path: Path, settings: RunSettings) -> None:
    loads = _read_loads(path)
    steps = _find_steps(folders, [load.name for load in loads])

    def load_all(connection: duckdb.DuckDBPyConnection) -> None:
        create_tables(connection)
        for load in loads:
            if step := steps.get(load.name):
                step(connection, load)
            else:  # a plan of contacts, or a list that was renamed
                load_additions(connection, folders, load, load.published_at)
            checkpoint(connection, may_compact=True)
        create_views(connection)

    remake(folders, path, load_all, memory_limit=settings.duckdb_memory, storage_version=settings.storage_version)
    with suppress(OSError):
        path.chmod(0o400)
