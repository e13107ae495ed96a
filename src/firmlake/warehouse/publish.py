"""Publish a generation of the warehouse: copy the newest, load into the copy, and point the link to it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from firmlake.core.errors import FirmlakeError, first_line, from_system
from firmlake.core.files import make_folder, open_to, sync_folder
from firmlake.core.folders import Folders
from firmlake.core.log import log
from firmlake.warehouse.exported import exported_generations
from firmlake.warehouse.generations import (
    LINK,
    PATTERN,
    explain_damage,
    generation_number,
    list_generations,
    newest,
)

__all__ = ["check_room", "checkpoint", "publish", "remake", "use_threads"]

_THREADS = 2
"""Threads of a large load."""
_TIDIED_EVERY = 8
"""Compact rows only in every eighth generation; otherwise each load would rewrite half of a table to remove a few
rows."""
_FULL = re.compile(
    r"No space left|quota exceeded|File too large|autocheckpoint failed|could not write(?!.*(Input/output|Read-only))",
    re.IGNORECASE,
)
"""DuckDB's messages if the disk is full, or if a limit for files is reached."""
_GIVEN_BACK_FROM = "8MB"
"""DuckDB returns freed memory to the system from this size on. Its default is 512 MB, which costs 50 MB more."""


def check_room(folders: Folders) -> None:
    """Check that the disk has room for a copy of the newest generation, before credits are spent on the next one.

    Raises:
        FirmlakeError: The disk is too full. Make room.
    """
    held = newest(folders)
    if held is None:
        return
    free, needed = shutil.disk_usage(folders.warehouse).free, held.stat().st_size
    if free < needed:
        raise FirmlakeError(
            f"{folders.warehouse}: {free / 1e6:,.0f} MB are free, but the next generation needs {needed / 1e6:,.0f} MB",
            "No request was sent, because its answer could not be published. Make room (`firmlake prune --dry-run`), "
            "then run again",
        )


def publish(
    folders: Folders,
    load: Callable[[duckdb.DuckDBPyConnection, int], None],
    *,
    memory_limit: str,
    keep: int,
    start: Path | None = None,
    storage_version: str = "latest",
) -> Path:
    """Make the next generation and point the link to it. A crash at any moment leaves a complete newest generation.

    Args:
        folders: The data folder.
        load: Changes the new generation inside a transaction; called with a connection and the number.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one. Generations from which an export of changes
            starts are kept as well.
        start: The generation to copy and change; None starts with an empty file.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one. A
            copy keeps the version of `start`.

    Returns:
        The new generation.

    Raises:
        DamagedError: `start` was changed. Replay.
        FirmlakeError: The disk is full, or the load failed. The link is unchanged; the message says what to do.
    """
    try:
        return _publish(folders, load, memory_limit, keep, start, storage_version)
    except OSError as error:
        raise from_system(error, folders.warehouse, "Nothing was published. ") from error


def remake(
    folders: Folders,
    path: Path,
    load: Callable[[duckdb.DuckDBPyConnection], None],
    *,
    memory_limit: str,
    start: Path | None = None,
    storage_version: str = "latest",
) -> None:
    """Replace a kept generation in one step; readers that have it open keep the old file.

    Args:
        folders: The data folder.
        path: The generation.
        load: Fills the file inside a transaction.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        start: The generation to copy and change; None starts with an empty file.
        storage_version: The oldest DuckDB that can read the file.

    Raises:
        FirmlakeError: The disk is full, or the load failed. The generation is unchanged.
    """
    try:
        with _aside(folders, path) as aside:
            _fill(folders, aside, load, memory_limit, start, storage_version, is_tidied=start is None)
            aside.replace(path)
        sync_folder(folders.warehouse)
    except OSError as error:
        raise from_system(error, path) from error


def checkpoint(connection: duckdb.DuckDBPyConnection, *, may_compact: bool = False) -> None:
    """Commit everything loaded so far and write it into the unpublished generation, to free memory.

    Args:
        connection: A connection in a transaction; afterwards it is in a new one.
        may_compact: Whether DuckDB may compact rows, if this generation is one to compact. That changes the row ids of
            all tables, so no code may rely on earlier row ids.
    """
    (vacuum_tasks,) = connection.execute("SELECT current_setting('max_vacuum_tasks')").fetchall()[0]
    allowed = vacuum_tasks if may_compact else 0
    for statement in (
        f"SET max_vacuum_tasks = {allowed}",
        "COMMIT",
        "CHECKPOINT",
        f"SET max_vacuum_tasks = {vacuum_tasks}",
        "BEGIN",
    ):
        connection.execute(statement)


def use_threads(connection: duckdb.DuckDBPyConnection) -> None:
    """Let a large load use as many threads as it may."""
    [(count,)] = connection.execute("SELECT coalesce(getvariable('thread_count'), 1)").fetchall()
    connection.execute(f"SET threads = {count}")


# ---------------------------------------------------------------------------------------------------------------------


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
    number = 1 + max(map(generation_number, folders.warehouse.glob(PATTERN)), default=0)
    path = folders.generation(number)
    is_tidied = start is None or number % _TIDIED_EVERY == 0
    with _aside(folders, path) as aside:
        _fill(
            folders,
            aside,
            lambda connection: load(connection, number),
            memory_limit,
            start,
            storage_version,
            is_tidied=is_tidied,
        )
        aside.rename(path)
    _swap_link(folders.warehouse, path)
    exported = exported_generations(folders)
    for old in list_generations(folders)[:-keep]:
        if generation_number(old) not in exported:
            old.unlink()
    return path


@contextmanager
def _aside(folders: Folders, path: Path) -> Iterator[Path]:
    """Yield the path of the temporary file in which a generation is made, and remove what is left of it at the end."""
    aside = folders.warehouse / f".{path.name}.part"
    try:
        yield aside
    finally:
        for rest in folders.warehouse.glob(f"{aside.name}*"):
            _remove(rest)


def _fill(
    folders: Folders,
    aside: Path,
    change: Callable[[duckdb.DuckDBPyConnection], None],
    memory_limit: str,
    start: Path | None,
    storage_version: str,
    *,
    is_tidied: bool,
) -> None:
    """Make the file of a generation, read-only and durable.

    What runs out of memory with two threads is repeated with one: now and then, DuckDB finds no block to evict because
    the other thread uses them all.
    """

    def write(thread_count: int) -> None:
        if start:
            aside.touch(mode=0o600)
            shutil.copyfile(start, aside)
        _write(aside, change, memory_limit, storage_version, is_tidied, thread_count)

    try:
        try:
            write(_THREADS)
        except duckdb.OutOfMemoryException as error:
            log("load_repeated", path=str(aside), error=first_line(error))
            for rest in aside.parent.glob(f"{aside.name}*"):
                _remove(rest)
            write(1)
        _sync(aside)
        aside.chmod(0o400)
        open_to(aside, folders.readers)
    except duckdb.Error as error:
        is_short = isinstance(error, duckdb.OutOfMemoryException)
        next_step = f"raise run.duckdb_memory above {memory_limit}, then run again" if is_short else "run again"
        if _FULL.search(str(error)):
            next_step = "make room on the disk, then run again"
        failed = FirmlakeError(f"{aside}: {first_line(error)}", f"Nothing was published; {next_step} to continue")
        raise explain_damage(start, error) or failed from error


def _write(
    path: Path,
    change: Callable[[duckdb.DuckDBPyConnection], None],
    memory_limit: str,
    storage_version: str,
    is_tidied: bool,
    thread_count: int,
) -> None:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "threads": 1,  # see `use_threads`
        "preserve_insertion_order": False,
        "allocator_bulk_deallocation_flush_threshold": _GIVEN_BACK_FROM,
        "wal_autocheckpoint": "0B",  # a commit writes the tables themselves, not a log that is thrown away
        "storage_compatibility_version": storage_version,
    }
    if not is_tidied:
        settings["max_vacuum_tasks"] = 0
    with duckdb.connect(path, config=settings) as connection:
        path.chmod(0o600)  # set here, because DuckDB does not accept an empty file made beforehand
        connection.execute(f"SET VARIABLE thread_count = {thread_count}")
        connection.execute("BEGIN")
        change(connection)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT")


def _remove(rest: Path) -> None:
    """Remove the remains of a crash: a file, or DuckDB's folder for temporary data."""
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
