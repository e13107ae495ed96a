"""Generations of the warehouse: each publish makes a new read-only file, and a link names the newest.

    warehouse/gen_000007.duckdb      never written again
    warehouse/firmlake.duckdb ->     the newest; replaced in one step

A DuckDB file has either one writer or many readers. So a published file is never written. Readers keep the generation
that they opened; whoever opens the link later gets the new generation, complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames
from typing import Any

import duckdb

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError, first_line, from_system
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.run import Run, read_runs
from firmlake.warehouse.named_list import restrict
from firmlake.warehouse.rejected import explain_rejected
from firmlake.warehouse.version import check_version

__all__ = [
    "LINK",
    "LOCKING",
    "PATTERN",
    "ask",
    "asking",
    "connect_to",
    "explain_damage",
    "generation_number",
    "list_generations",
    "lost_warehouse",
    "newest",
    "open_warehouse",
]

LINK = "firmlake.duckdb"
PATTERN = "gen_*.duckdb"
LOCKING = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_DAMAGE = ("Corrupt database file", "not a valid DuckDB database file", "Could not read enough bytes")


def newest(folders: Folders) -> Path | None:
    """Find the newest generation; None before the first publish.

    The link names it. If the folder was copied without the link, it is the generation with the highest number.

    Raises:
        DamagedError: The link names a missing file. Replay: using an older generation instead would go unnoticed.
    """
    link = folders.warehouse / LINK
    while link.is_symlink():
        name = link.readlink()
        if (folders.warehouse / name).exists():
            return (folders.warehouse / name).resolve()
        if link.readlink() == name:  # otherwise the next generation was published in the meantime
            raise DamagedError(f"{folders.warehouse / name} is missing", "Rebuild it with `firmlake replay`")
    if link.exists():
        return link
    return max(folders.warehouse.glob(PATTERN), key=generation_number, default=None)


def lost_warehouse(folders: Folders, unpublished: Collection[Run | None] = ()) -> DamagedError | None:
    """Return an error if there is no generation although runs have ended; otherwise None.

    Args:
        folders: The data folder.
        unpublished: Runs that are about to be published, which do not count: a kill may have come before their publish.

    Raises:
        DamagedError: The link names a missing file.
    """
    ended = (
        [] if newest(folders) else [run for run in read_runs(folders)[0] if run.is_fetched and run not in unpublished]
    )
    if not ended:
        return None
    return DamagedError(
        f"{folders.warehouse} holds no warehouse, although run {ended[-1].run_id} over {ended[-1].plan.list_name} has "
        "ended",
        "Rebuild the warehouse with `firmlake replay`, which sends no request",
    )


def list_generations(folders: Folders) -> list[Path]:
    """List the generations that are kept, oldest first."""
    return sorted(folders.warehouse.glob(PATTERN), key=generation_number)


def generation_number(path: Path) -> int:
    """Read a generation's number from its name."""
    return int(path.stem.removeprefix("gen_"))


@contextmanager
def open_warehouse(
    folders: Folders,
    *,
    of_any_version: bool = False,
    locked: bool = False,
    memory_limit: str | None = None,
    company_list: str = "",
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the newest generation for reading. A publish in the meantime does not change it.

    Args:
        folders: The data folder.
        of_any_version: Also open a generation whose tables have the shape of another version of firmlake.
        locked: Restrict SQL to the generation: no other file, no network, no extension, no Python variable, no change
            of settings. DuckDB shares the settings of a file within a process, so all connections of this process to
            the same generation are locked until the last of them is closed.
        memory_limit: Memory limit of DuckDB, such as "512MB"; None uses DuckDB's default, and so does a folder that
            cannot be written, where DuckDB cannot spill to disk.
        company_list: Restrict all tables and views to the companies of this list; empty shows all companies.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
        FirmlakeError: Nothing was published yet, another version made the generation, or a query needs more memory. The
            message says what to do.
        DamagedError: The file was changed. Replay.
    """
    path = newest(folders)
    memory_limit = memory_limit if is_writable(folders.warehouse) else None
    try:
        with _connect(folders) as connection:
            if company_list:
                restrict(connection, company_list)
            _restrict(connection, locked, memory_limit)
            if not of_any_version:
                check_version(connection)
            try:
                yield connection
            except Exception as error:
                _release(error)
                raise
    except duckdb.OutOfMemoryException as error:
        next_step = "Raise run.duckdb_memory" if memory_limit else "Query fewer rows at once"
        raise FirmlakeError(f"DuckDB needs more memory than {memory_limit or 'it may use'}", next_step) from error
    except duckdb.Error as error:
        raise explain_damage(path, error) or error from None


def ask(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = ""
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query on the newest generation, made by any version, and return column names and rows.

    Args:
        folders: The data folder.
        sql: The query.
        locked: Restrict SQL to the generation; False lets it read and write everything that this process may.
        company_list: Restrict all tables and views to the companies of this list; empty shows all companies.

    Raises:
        UsageError: DuckDB rejects the query. The message holds DuckDB's explanation.
    """
    with asking(folders, sql, locked=locked, company_list=company_list) as connection:
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


@contextmanager
def asking(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = ""
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the newest generation for a query, as `ask` does, and turn errors of DuckDB into `UsageError`."""
    opened = open_warehouse(folders, of_any_version=True, locked=locked, company_list=company_list)
    with opened as connection:
        try:
            if not connection.extract_statements(sql):
                raise UsageError("The SQL is empty", "Write a query, such as: firmlake query 'FROM companies LIMIT 10'")
            yield connection
        except duckdb.PermissionException as error:
            raise UsageError(
                f"SQL may only read the warehouse: {first_line(error)}",
                "If you trust the SQL, allow it to use files with `firmlake query --allow-files`",
            ) from None
        except duckdb.Error as error:
            raise explain_damage(newest(folders), error) or explain_rejected(sql, error) from None


def connect_to(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a generation for reading.

    Raises:
        DamagedError: The file was changed. Replay.
        FirmlakeError: We may not read the file, or another program has it open for writing.
    """
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.IOException as error:
        raise explain_damage(path, error) or _explain_closed(path, error) from error


# ---------------------------------------------------------------------------------------------------------------------


def _connect(folders: Folders) -> duckdb.DuckDBPyConnection:
    """Connect to the newest generation; retry if it was removed because newer ones were published in the meantime."""
    while path := newest(folders):
        try:
            return connect_to(path)
        except FirmlakeError:
            if path.exists():
                raise
    if lost := lost_warehouse(folders):
        raise lost
    raise FirmlakeError(
        f"{folders.warehouse / LINK} does not exist yet",
        "Create it with `firmlake run LIST`. If you ran a list with --data or --config, name the same here",
    )


def _release(error: BaseException | None) -> None:
    """Drop the objects that the frames of an error hold, such as readers of rows.

    Otherwise code that keeps the error would keep the generation open, and DuckDB 2.0 hangs if the same process then
    opens it again.
    """
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _restrict(connection: duckdb.DuckDBPyConnection, locked: bool, memory_limit: str | None) -> None:
    """Apply settings, unless another connection of this process has already locked the generation."""
    (is_locked,) = connection.execute("SELECT current_setting('lock_configuration')").fetchall()[0]
    if not is_locked:
        limit = (f"SET memory_limit = '{memory_limit}'",) if memory_limit else ()
        for statement in (*limit, *(LOCKING if locked else ())):
            connection.execute(statement)


def _explain_closed(path: Path, error: duckdb.IOException) -> FirmlakeError:
    """Return the error for a file that DuckDB cannot open: forbidden to us, or open for writing elsewhere."""
    try:
        path.open("rb").close()
    except OSError as refused:
        return from_system(refused, path)
    why = first_line(error)
    return FirmlakeError(f"{path} cannot be opened: {why}", "Close what has it open for writing, then run again")


def explain_damage(path: Path | None, error: duckdb.Error) -> DamagedError | None:
    """Return an error if DuckDB's message means that the file is damaged; DuckDB has no exception class for that."""
    if path is None or not any(words in str(error) for words in _DAMAGE):
        return None
    return DamagedError(f"{path} is damaged ({error})", "Rebuild it with `firmlake replay`")
