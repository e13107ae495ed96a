"""Generations of the warehouse: each publish makes a new read-only file, and a link names the newest.

    warehouse/gen_000007.duckdb      never written again
    warehouse/firmlake.duckdb ->     the newest; replaced in one step

A DuckDB file has either one writer or many readers. So a published file is never written: readers keep the generation
they opened, and the next reader that opens the link gets the new generation, complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError
from firmlake.core.files import make_folder, open_to, sync_folder
from firmlake.core.folders import Folders
from firmlake.warehouse.company_lists import restrict
from firmlake.warehouse.exported import exported_generations
from firmlake.warehouse.rejected import explain_rejected
from firmlake.warehouse.version import check_version

__all__ = [
    "LINK",
    "ask",
    "asking",
    "generation_number",
    "list_generations",
    "newest",
    "open_warehouse",
    "publish",
    "settle",
]

LINK = "firmlake.duckdb"
_PATTERN = "gen_*.duckdb"
_TIDIED_EVERY = 8
"""Rows are compacted in every eighth generation only: otherwise each load would rewrite half of a table for the few
rows that it removes."""
_GIVEN_BACK_FROM = "8MB"
"""DuckDB returns freed memory to the system from this size on. Its default is 512 MB, which costs 50 MB more."""
_LOCKING = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_DAMAGE = ("Corrupt database file", "not a valid DuckDB database file", "Could not read enough bytes")


def newest(folders: Folders) -> Path | None:
    """Find the newest generation; None before the first publish.

    The link names it. If the folder was copied without its link, it is the generation with the highest number.

    Raises:
        DamagedError: The link names a missing file. Using an older generation instead would go unnoticed; replay.
    """
    link = folders.warehouse / LINK
    while link.is_symlink():
        name = link.readlink()
        if (folders.warehouse / name).exists():
            return (folders.warehouse / name).resolve()
        if link.readlink() == name:  # otherwise the next generation was published meanwhile
            raise DamagedError(f"{folders.warehouse / name} is missing", "`firmlake replay` makes it again")
    if link.exists():
        return link
    return max(folders.warehouse.glob(_PATTERN), key=generation_number, default=None)


def list_generations(folders: Folders) -> list[Path]:
    """List the generations that are kept, oldest first."""
    return sorted(folders.warehouse.glob(_PATTERN), key=generation_number)


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
        memory_limit: Memory limit of DuckDB, such as "512MB"; None uses DuckDB's default.
        company_list: Restrict all tables and views to the companies of this list; empty shows all companies.

    Raises:
        UsageError: There is no such list. The message suggests a similar name.
        FirmlakeError: Nothing was published yet, or another version made the generation. The message says what to do.
        DamagedError: The file is not what was written; replay.
    """
    path = newest(folders)
    try:
        with _connect(folders) as connection:
            if company_list:
                restrict(connection, company_list)
            _restrict(connection, locked, memory_limit)
            if not of_any_version:
                check_version(connection)
            yield connection
    except duckdb.Error as error:
        raise _explained(path, error) or error from None


def ask(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = ""
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query on the newest generation, made by any version, and return column names and rows.

    Args:
        folders: The data folder.
        sql: The query.
        locked: Restrict SQL to the generation; False lets it read and write whatever this process may.
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
                raise UsageError("The SQL holds no query", "For example: firmlake query 'FROM companies LIMIT 10'")
            yield connection
        except duckdb.PermissionException as error:
            raise UsageError(
                f"SQL may only read the warehouse: {str(error).splitlines()[0]}",
                "If you trust the SQL, `firmlake query --allow-files` lets it use files",
            ) from None
        except duckdb.Error as error:
            raise _explained(newest(folders), error) or explain_rejected(sql, error) from None


def publish(
    folders: Folders,
    load: Callable[[duckdb.DuckDBPyConnection, int], None],
    *,
    memory_limit: str,
    keep: int,
    start: Path | None = None,
    storage_version: str = "latest",
) -> Path:
    """Make the next generation, and let the link name it. A crash at any moment leaves a complete newest generation.

    Args:
        folders: The data folder.
        load: Changes the new generation inside a transaction; gets its number.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one. Generations that an export of changes starts
            from are kept as well.
        start: The generation to copy and change; None starts with an empty file.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one. A
            copy keeps the version of `start`.

    Returns:
        The new generation.

    Raises:
        DamagedError: `start` is not what was written; replay.
        FirmlakeError: The disk is full, or the load failed. The link is unchanged; the message says what to do.
    """
    try:
        return _publish(folders, load, memory_limit, keep, start, storage_version)
    except OSError as error:
        raise FirmlakeError(
            f"{folders.warehouse}: {error.strerror}", "Nothing was published; make room, then run again"
        ) from error


def settle(connection: duckdb.DuckDBPyConnection, *, keeps_row_ids: bool = False) -> None:
    """Commit and write what was loaded so far into the unpublished generation, to free memory.

    Args:
        connection: A connection in a transaction; afterwards it is in a new one.
        keeps_row_ids: True keeps the row ids of remaining rows; False lets DuckDB compact them, which changes the ids.
    """
    (vacuum_tasks,) = connection.execute("SELECT current_setting('max_vacuum_tasks')").fetchall()[0]
    if keeps_row_ids:
        connection.execute("SET max_vacuum_tasks = 0")
    for statement in ("COMMIT", "CHECKPOINT", f"SET max_vacuum_tasks = {vacuum_tasks}", "BEGIN"):
        connection.execute(statement)


# ---------------------------------------------------------------------------------------------------------------------


def _connect(folders: Folders) -> duckdb.DuckDBPyConnection:
    """Connect to the newest generation, and retry if it was removed because newer ones were published meanwhile."""
    while path := newest(folders):
        try:
            return duckdb.connect(path, read_only=True)
        except duckdb.IOException:
            if path.exists():
                raise
    raise FirmlakeError(f"{folders.warehouse / LINK} does not exist yet", "`firmlake run LIST` makes it")


def _restrict(connection: duckdb.DuckDBPyConnection, locked: bool, memory_limit: str | None) -> None:
    """Apply settings, unless another connection of this process has locked the generation already."""
    (is_locked,) = connection.execute("SELECT current_setting('lock_configuration')").fetchall()[0]
    if not is_locked:
        limit = (f"SET memory_limit = '{memory_limit}'",) if memory_limit else ()
        for statement in (*limit, *(_LOCKING if locked else ())):
            connection.execute(statement)


def _publish(
    folders: Folders,
    load: Callable[[duckdb.DuckDBPyConnection, int], None],
    memory_limit: str,
    keep: int,
    start: Path | None,
    storage_version: str,
) -> Path:
    make_folder(folders.warehouse, folders.readers)
    for folder in (folders.data, folders.warehouse):
        open_to(folder, folders.readers)
    for rest in folders.warehouse.glob(".*.part*"):
        _remove(rest)
    number = 1 + max(map(generation_number, folders.warehouse.glob(_PATTERN)), default=0)
    path = folders.warehouse / f"gen_{number:06}.duckdb"
    aside = folders.warehouse / f".{path.name}.part"
    try:
        if start:
            aside.touch(mode=0o600)
            shutil.copyfile(start, aside)
        is_tidied = start is None or number % _TIDIED_EVERY == 0
        _write(aside, lambda connection: load(connection, number), memory_limit, storage_version, is_tidied)
        _sync(aside)
        aside.chmod(0o400)
        open_to(aside, folders.readers)
        aside.rename(path)
    except duckdb.Error as error:
        is_short = isinstance(error, duckdb.OutOfMemoryException)
        next_step = f"raise run.duckdb_memory above {memory_limit}, then run again" if is_short else "run again"
        failed = FirmlakeError(f"{aside}: {error}", f"Nothing was published; {next_step} to continue")
        raise _explained(start, error) or failed from error
    finally:
        for rest in folders.warehouse.glob(f"{aside.name}*"):
            _remove(rest)
    _swap_link(folders.warehouse, path)
    exported = exported_generations(folders)
    for old in list_generations(folders)[:-keep]:
        if generation_number(old) not in exported:
            old.unlink()
    return path


def _write(
    path: Path,
    change: Callable[[duckdb.DuckDBPyConnection], None],
    memory_limit: str,
    storage_version: str,
    is_tidied: bool,
) -> None:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "preserve_insertion_order": False,
        "allocator_bulk_deallocation_flush_threshold": _GIVEN_BACK_FROM,
        "storage_compatibility_version": storage_version,
    }
    if not is_tidied:
        settings["max_vacuum_tasks"] = 0
    with duckdb.connect(path, config=settings) as connection:
        path.chmod(0o600)  # DuckDB accepts no empty file made beforehand; this one has no content yet
        connection.execute("BEGIN")
        change(connection)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT")


def _explained(path: Path | None, error: duckdb.Error) -> DamagedError | None:
    """Return an error if DuckDB's message says that the file is damaged; DuckDB has no exception class for that."""
    if path is None or not any(words in str(error) for words in _DAMAGE):
        return None
    return DamagedError(f"{path} is not what was written ({error})", "`firmlake replay` makes it again")


def _remove(rest: Path) -> None:
    """Remove what a crash left: a file, or DuckDB's folder for temporary data."""
    if rest.is_dir():
        shutil.rmtree(rest)
    else:
        rest.unlink()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _swap_link(folder: Path, path: Path) -> None:
    sync_folder(folder)
    aside = folder / f".{LINK}.part"
    aside.symlink_to(path.name)
    aside.replace(folder / LINK)
    sync_folder(folder)
