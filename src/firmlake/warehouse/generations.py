"""Generations of the warehouse: each publish makes a new read-only file, and a link names the newest.

    warehouse/gen_000007.duckdb      never written again
    warehouse/firmlake.duckdb ->     the newest; swapped in one step

DuckDB lets one writer keep all readers out and the reverse, so nobody ever writes a file that somebody may read:
readers keep the generation they opened, and whoever opens the link next gets the new one, whole.
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
from firmlake.core.run import Folders
from firmlake.warehouse.company_lists import restrict
from firmlake.warehouse.exported import exported_generations
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
"""Generations until the rows that stayed are written together again, where others were removed: else each load would
write half of a table for the few that it removes."""
_GIVEN_BACK_FROM = "8MB"
"""What DuckDB frees at once and gives back to the system; from 512 MB on by itself, which takes 50 MB more."""
_LOCKING = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_DAMAGE = ("Corrupt database file", "not a valid DuckDB database file", "Could not read enough bytes")


def newest(folders: Folders) -> Path | None:
    """Find the newest generation, or None before the first publish.

    It is the one that the link names. A folder that was copied without its links still has its generations.

    Raises:
        DamagedError: The link names a file that is gone: an older one would pass for the newest unseen.
    """
    link = folders.warehouse / LINK
    while link.is_symlink():
        name = link.readlink()
        if (folders.warehouse / name).exists():
            return (folders.warehouse / name).resolve()
        if link.readlink() == name:  # else the next was published meanwhile
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
    """Open the newest generation for reading; it stays as it is, whatever is published meanwhile.

    Args:
        folders: Where.
        of_any_version: Also where another version of firmlake made it, whose tables have another shape.
        locked: SQL can reach nothing but the generation: no other file, no network, no extension, no variable of
            Python's; and no setting can be changed. DuckDB keeps one set of settings for each file in a process, so
            every connection of this process to the same generation is locked until the last of them is closed.
        memory_limit: For DuckDB, such as "512MB"; None leaves it to DuckDB.
        company_list: Name of the list to whose companies all tables and views are restricted; empty for none.

    Raises:
        UsageError: There is no such list.
        FirmlakeError: Nothing was published yet, or another version made it.
        DamagedError: The file is not what was written.
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
    """Answer a question in SQL from the newest generation, whatever version made it: column names and rows.

    Args:
        folders: Where.
        sql: The question.
        locked: As for `open_warehouse`. Without it the question can read and write what this process may.
        company_list: As for `open_warehouse`.

    Raises:
        UsageError: It is no question that DuckDB understands; its own explanation is passed on.
    """
    with asking(folders, sql, locked=locked, company_list=company_list) as connection:
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


@contextmanager
def asking(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = ""
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the newest generation for a question, as `ask` does; an error of DuckDB becomes one of ours."""
    opened = open_warehouse(folders, of_any_version=True, locked=locked, company_list=company_list)
    with opened as connection:
        try:
            if not connection.extract_statements(sql):
                raise UsageError("The SQL holds no question", "For example: firmlake query 'FROM companies LIMIT 10'")
            yield connection
        except duckdb.PermissionException as error:
            raise UsageError(
                f"SQL may only read the warehouse: {str(error).splitlines()[0]}",
                "Where you wrote the SQL yourself, `firmlake query --allow-files` lets it use files",
            ) from None
        except duckdb.Error as error:
            raise _explained(newest(folders), error) or UsageError(
                f"DuckDB says: {error}", "`DESCRIBE` lists the tables, `DESCRIBE financials` columns"
            ) from None


def publish(
    folders: Folders,
    load: Callable[[duckdb.DuckDBPyConnection, int], None],
    *,
    memory_limit: str,
    keep: int,
    start: Path | None = None,
    storage_version: str = "latest",
) -> Path:
    """Make the next generation and let the link name it.

    Args:
        folders: Where.
        load: Changes the copy, inside a transaction; gets the number of the generation.
        memory_limit: For DuckDB, such as "512MB".
        keep: Generations kept, the new one included; besides, those that an export of changes starts from.
        start: The file to start from; None starts empty.
        storage_version: The oldest DuckDB that shall read a file that starts empty, such as "v1.4.0"; "latest" is the
            one in use. A copy keeps the version of its start.

    Returns:
        The new generation. A crash at any moment leaves the link naming a whole one.

    Raises:
        DamagedError: The file to start from is not what was written.
        FirmlakeError: There is no room, or it cannot be loaded; the link names what it named.
    """
    try:
        return _publish(folders, load, memory_limit, keep, start, storage_version)
    except OSError as error:
        raise FirmlakeError(
            f"{folders.warehouse}: {error.strerror}", "Nothing was published; make room, then run again"
        ) from error


def settle(connection: duckdb.DuckDBPyConnection, *, keeps_row_ids: bool = False) -> None:
    """Write what was loaded so far into the generation in the making, which nobody sees yet; it frees memory.

    Args:
        connection: In a transaction, and afterwards in the next.
        keeps_row_ids: Else rows that stay may be written together, and then have other row ids.
    """
    (vacuum_tasks,) = connection.execute("SELECT current_setting('max_vacuum_tasks')").fetchall()[0]
    if keeps_row_ids:
        connection.execute("SET max_vacuum_tasks = 0")
    for statement in ("COMMIT", "CHECKPOINT", f"SET max_vacuum_tasks = {vacuum_tasks}", "BEGIN"):
        connection.execute(statement)


# ---------------------------------------------------------------------------------------------------------------------


def _connect(folders: Folders) -> duckdb.DuckDBPyConnection:
    """Connect to the newest generation, also when so many are published meanwhile that it is removed."""
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
        path.chmod(0o600)  # DuckDB takes no empty file made beforehand; nothing is in this one yet
        connection.execute("BEGIN")
        change(connection)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT")


def _explained(path: Path | None, error: duckdb.Error) -> DamagedError | None:
    """Tell a damaged file from other troubles; DuckDB has no class of errors for it."""
    if path is None or not any(words in str(error) for words in _DAMAGE):
        return None
    return DamagedError(f"{path} is not what was written ({error})", "`firmlake replay` makes a whole one")


def _remove(rest: Path) -> None:
    """Remove what a crash left: a file, or the folder in which DuckDB keeps what does not fit into memory."""
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
