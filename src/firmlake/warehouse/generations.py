"""Generations of the warehouse: each publish makes a new read-only file, and a link names the newest.

    warehouse/gen_000007.duckdb      never written again
    warehouse/firmlake.duckdb ->     the newest; replaced in one step
    warehouse/held_000008.duckdb     held back by a gate: the next generation starts from it, readers do not see it

A DuckDB file has either one writer or many readers. So a published file is never written: a publish copies the newest,
loads into the copy, and points the link to it. Readers keep the generation that they opened; whoever opens the link
later gets the new generation, complete.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from traceback import clear_frames
from typing import Any
from weakref import WeakSet

import duckdb

from firmlake.core.errors import DamagedError, FirmlakeError, UsageError, first_line, from_system
from firmlake.core.files import is_writable, make_folder, open_to, sync_folder
from firmlake.core.folders import Folders
from firmlake.core.sql import lock
from firmlake.core.text import one_line
from firmlake.landing.run import read_runs
from firmlake.warehouse.exported import exported_generations
from firmlake.warehouse.list_names import restrict
from firmlake.warehouse.loads import check_version

LINK = "firmlake.duckdb"

PATTERN = "gen_*.duckdb"

HELD = "held_*.duckdb"

_DAMAGE = ("Corrupt database file", "not a valid DuckDB database file", "Could not read enough bytes")

_MESSAGE_MAX = 500

_TIDIED_EVERY = 8
"""Compact rows only in every eighth generation; otherwise each load would rewrite half of a table to remove a few
rows. A replay compacts too, because it makes a file of many loads; a first load leaves nothing to compact."""

_FULL = re.compile(
    r"No space left|quota exceeded|File too large|autocheckpoint failed|could not write(?!.*(Input/output|Read-only))",
    re.IGNORECASE,
)
"""DuckDB's messages if the disk is full, or if a limit for files is reached."""

_GIVEN_BACK_FROM = "8MB"
"""DuckDB returns freed memory to the system from this size on. Its default is 512 MB, which costs 50 MB more."""


def newest(folders: Folders) -> Path | None:
    """Find the newest generation; None before the first publish.

    The link names it. If the folder was copied without the link, it is the generation with the highest number. If the
    link names a missing file, that is a DamagedError: using an older generation instead would go unnoticed.
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


def find_held(folders: Folders) -> Path | None:
    """Find the generation that is held back; None if the newest is published. A crash may leave older ones."""
    held = max(folders.warehouse.glob(HELD), key=generation_number, default=None)
    published = newest(folders) if held else None
    is_over = held and published and published.name != LINK and generation_number(held) < generation_number(published)
    return None if is_over else held


def newest_of_all(folders: Folders) -> Path | None:
    """Find the generation that the next one starts from: the one held back, or the newest; None if there is neither."""
    return find_held(folders) or newest(folders)


def newest_link(folders: Folders) -> Path:
    """Return the path under which people find what `newest_of_all` finds: the link, or the generation held back."""
    return find_held(folders) or folders.warehouse / LINK


def lost_warehouse(folders: Folders, *, unloaded_max: int = 0) -> DamagedError | None:
    """Return an error if there is no generation although runs have ended; otherwise None.

    So many runs as `unloaded_max` are no loss, for a caller that loads them: the first may have been killed before it
    was loaded.
    """
    ended = [] if newest_of_all(folders) else [run for run in read_runs(folders)[0] if run.is_fetched]
    if len(ended) <= unloaded_max:
        return None
    return DamagedError(
        f"{folders.warehouse} holds no warehouse, although run {ended[-1].run_id} over {ended[-1].plan.list_name} has "
        "ended",
        "Rebuild the warehouse with `firmlake replay`, which sends no request",
    )


def list_generations(folders: Folders) -> list[Path]:
    """List the published generations that are kept, oldest first."""
    return sorted(folders.warehouse.glob(PATTERN), key=generation_number)


def generation_number(path: Path) -> int:
    """Read a generation's number from its name."""
    return int(path.stem.rpartition("_")[2])


def next_number(folders: Folders) -> int:
    """Return the number of the next generation."""
    return 1 + max(map(generation_number, (*list_generations(folders), *folders.warehouse.glob(HELD))), default=0)


@contextmanager
def open_warehouse(
    folders: Folders,
    *,
    of_any_version: bool = False,
    with_held: bool = False,
    locked: bool = False,
    memory_limit: str | None = None,
    company_list: str = "",
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the newest generation for reading. A publish in the meantime does not change it.

    Args:
        folders: The data folder.
        with_held: Open the generation that is held back, if there is one.
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
    find = newest_of_all if with_held else newest
    path = find(folders)
    memory_limit = memory_limit if is_writable(folders.warehouse) else None
    try:
        with _connect(folders, find) as connection:
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


@contextmanager
def kept_open(folders: Folders) -> Iterator[None]:
    """Keep open what `newest_of_all` finds: whoever opens it meanwhile need not read its catalogue again (0.04 s)."""
    path = newest_of_all(folders)
    with connect_to(path) if path else nullcontext():
        yield


def ask(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = ""
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query on the newest generation, made by any version, and return column names and rows.

    If it is not `locked`, SQL reads and writes everything that this process may; see `open_warehouse`. If DuckDB
    rejects the query, the UsageError holds DuckDB's explanation.
    """
    with asking(folders, sql, locked=locked, company_list=company_list) as connection:
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


@contextmanager
def asking(
    folders: Folders, sql: str, *, locked: bool = True, company_list: str = "", with_held: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the newest generation for a query, as `ask` does, and turn errors of DuckDB into `UsageError`."""
    opened = open_warehouse(folders, of_any_version=True, locked=locked, company_list=company_list, with_held=with_held)
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
    """Open a generation for reading; FirmlakeError if we may not read it, or another program is writing to it."""
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.IOException as error:
        raise explain_damage(path, error) or _explain_closed(path, error) from error


def explain_damage(path: Path | None, error: duckdb.Error) -> DamagedError | None:
    """Return an error if DuckDB's message means that the file is damaged; DuckDB has no exception class for that."""
    if path is None or not any(words in str(error) for words in _DAMAGE):
        return None
    return DamagedError(f"{path} is damaged ({error})", "Rebuild it with `firmlake replay`")


def explain_rejected(sql: str, error: duckdb.Error) -> UsageError:
    """Return DuckDB's message with its suggestions, but without the excerpt of the SQL."""
    lines = [line.strip() for line in str(error).partition("\n\nLINE ")[0].splitlines() if line.strip()]
    text = " ".join(f"{line[:-1]}." if line.endswith("!") else line for line in lines).removesuffix(".")
    names = re.search(r"\b(table|column)\b", text, re.IGNORECASE)
    next_step = "Correct the query"
    if isinstance(error, duckdb.CatalogException) and "lists." in sql.lower():
        next_step = "`firmlake list show` shows the lists"
    elif names and isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        next_step = "`DESCRIBE` lists the tables, `DESCRIBE financials` the columns of one"
    return UsageError(f"DuckDB says: {one_line(text, _MESSAGE_MAX)}", next_step)


def publish(
    folders: Folders,
    load: Callable[[duckdb.DuckDBPyConnection, int], object],
    *,
    memory_limit: str,
    keep: int,
    start: Path | None = None,
    storage_version: str = "latest",
    number: int | None = None,
) -> Path:
    """Make the next generation, point the link to it unless `load` holds it back, and return it.

    A crash at any moment leaves a complete newest generation.

    Args:
        load: Changes the new generation inside a transaction; called with a connection and the number. It returns
            True or False for whether the generation is held back; anything else leaves that as it is for `start`.
        memory_limit: Memory limit of DuckDB, such as "512MB".
        keep: The number of generations to keep, including the new one, besides those from which exports start.
        start: The generation to copy and change; None starts with an empty file.
        storage_version: The oldest DuckDB that can read the file, such as "v1.4.0"; "latest" is the installed one. A
            copy keeps the version of `start`.
        number: Its number; None is the next one. A generation that is held back stays if its number is higher.

    Raises:
        DamagedError: `start` was changed. Replay.
        FirmlakeError: The disk is full, or the load failed. The link is unchanged; the message says what to do.
    """
    try:
        make_folder(folders.warehouse, folders.readers)
        for folder in (folders.data, folders.warehouse):
            open_to(folder, folders.readers)
        for rest in folders.warehouse.glob(".*.part*"):
            _remove(rest)
        own = number or next_number(folders)
        held, is_tidied = list(folders.warehouse.glob(HELD)), own % _TIDIED_EVERY == 0 or (start is None and own > 1)
        path = folders.generation(own)
        aside = folders.warehouse / f".{path.name}.part"
        try:
            settings = {"memory_limit": memory_limit, "storage_compatibility_version": storage_version}
            settings |= {} if is_tidied else {"max_vacuum_tasks": "0"}
            verdict = _fill(folders, aside, lambda connection: load(connection, own), start, settings)
            is_held = verdict if isinstance(verdict, bool) else start in held
            path = folders.held(own) if is_held else path
            aside.rename(path)
        finally:
            for rest in folders.warehouse.glob(f"{aside.name}*"):
                _remove(rest)
        if is_held:
            sync_folder(folders.warehouse)
        else:
            _swap_link(folders.warehouse, path)
        _remove_old(folders, own, keep)
        return path
    except OSError as error:
        raise from_system(error, folders.warehouse, "Nothing was published. ") from error


def restore_link(folders: Folders) -> None:
    """Point the link to the newest generation if there is none: a crash may have left the first generation so."""
    if not os.path.lexists(folders.warehouse / LINK) and (path := newest(folders)):
        _swap_link(folders.warehouse, path)


def release(folders: Folders) -> Path | None:
    """Publish the generation that is held back, or one that a crash left without the link; None if there is neither."""
    if held := find_held(folders):
        held.rename(folders.generation(generation_number(held)))
    path, link = max(folders.warehouse.glob(PATTERN), key=generation_number, default=None), folders.warehouse / LINK
    if path is None or (link.exists() and link.resolve().name in (LINK, path.name)):
        return None
    _swap_link(folders.warehouse, path)
    return path


def checkpoint(connection: duckdb.DuckDBPyConnection, *, may_compact: bool = False) -> None:
    """Commit everything loaded so far, write it into the unpublished generation to free memory, and begin again.

    DuckDB may compact rows if the caller allows it and this generation is one to compact. That changes the row ids of
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


def free_memory(connection: duckdb.DuckDBPyConnection, *, may_compact: bool = False) -> None:
    """Checkpoint what a large load has written so far. A small one fits into memory until the end."""
    if connection in _large_loads:
        checkpoint(connection, may_compact=may_compact)


def expect_large_load(connection: duckdb.DuckDBPyConnection) -> None:
    """Let `free_memory` free it between the tables of a load."""
    _large_loads.add(connection)


_large_loads: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def _connect(folders: Folders, find: Callable[[Folders], Path | None]) -> duckdb.DuckDBPyConnection:
    """Connect to the newest generation; retry if it was removed because newer ones were published in the meantime."""
    while path := find(folders):
        try:
            return connect_to(path)
        except FirmlakeError:
            if path.exists():
                raise
    if lost := lost_warehouse(folders):
        raise lost
    if held := find_held(folders):
        raise FirmlakeError(
            f"Nothing was published yet: a gate holds back {held}", "`firmlake status` says why, and what to do"
        )
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
        if memory_limit:
            connection.execute(f"SET memory_limit = '{memory_limit}'")
        if locked:
            lock(connection)


def _explain_closed(path: Path, error: duckdb.IOException) -> FirmlakeError:
    """Return the error for a file that DuckDB cannot open: forbidden to us, or open for writing elsewhere."""
    try:
        path.open("rb").close()
    except OSError as refused:
        return from_system(refused, path)
    why = first_line(error)
    return FirmlakeError(f"{path} cannot be opened: {why}", "Close what has it open for writing, then run again")


def _remove_old(folders: Folders, number: int, keep: int) -> None:
    """Remove what was held back before this generation, and all but the last generations."""
    for old in folders.warehouse.glob(HELD):
        if generation_number(old) < number:
            old.unlink()
    exported, published = exported_generations(folders), newest(folders)
    for old in list_generations(folders)[:-keep]:
        if generation_number(old) not in exported and old.name != (published and published.name):
            old.unlink()


def _fill(
    folders: Folders,
    aside: Path,
    load: Callable[[duckdb.DuckDBPyConnection], object],
    start: Path | None,
    settings: Mapping[str, str],
) -> object:
    """Make the file of a generation, read-only and durable; return what `load` returns."""
    own: dict[str, str | bool | int | float | list[str]] = {
        **settings,
        "threads": 1,  # a second one makes large loads a third faster, but now and then finds no memory to free
        "preserve_insertion_order": False,
        "allocator_bulk_deallocation_flush_threshold": _GIVEN_BACK_FROM,
        "wal_autocheckpoint": "0B",  # a commit writes the tables themselves, not a log that is thrown away
    }
    try:
        if start:
            aside.touch(mode=0o600)
            shutil.copyfile(start, aside)
        with duckdb.connect(aside, config=own) as connection:
            aside.chmod(0o600)  # set here, because DuckDB does not accept an empty file made beforehand
            connection.execute("BEGIN")
            verdict = load(connection)
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        is_short = isinstance(error, duckdb.OutOfMemoryException)
        message = f"{aside}: {first_line(error)}"
        next_step = (
            f"raise run.duckdb_memory above {settings['memory_limit']}, then run again" if is_short else "run again"
        )
        if _FULL.search(str(error)):  # DuckDB's own message speaks of a commit that is durable
            message = f"{aside}: the disk is full, so the next generation could not be written"
            next_step = "make room on the disk (`firmlake prune --dry-run` lists what can go), then run again"
        failed = FirmlakeError(message, f"Nothing was published; {next_step} to continue")
        raise explain_damage(start, error) or failed from error
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.chmod(0o400)
    open_to(aside, folders.readers)
    return verdict


def _remove(rest: Path) -> None:
    """Remove the remains of a crash: a file, or DuckDB's folder for temporary data."""
    if rest.is_dir():
        shutil.rmtree(rest)
    else:
        rest.unlink()


def _swap_link(folder: Path, path: Path) -> None:
    sync_folder(folder)
    aside = folder / f".{LINK}.part"
    aside.unlink(missing_ok=True)  # a crash may have left it
    aside.symlink_to(path.name)
    aside.replace(folder / LINK)
    sync_folder(folder)
