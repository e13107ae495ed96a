"""Load the newest generation, or its changes since the last load, into a target.

The target should hold what the generation loaded last holds. If somebody else has changed it, all rows are loaded.
"""

# ruff: noqa: S608 - statements are put together from our own table names, never from data

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.failure import recorded_delivery
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import Settings
from firmlake.core.text import count_of
from firmlake.delivery.bigquery import open_bigquery
from firmlake.delivery.database import LoadRecord, LoadTarget, TargetConnection
from firmlake.delivery.duckdb_file import open_duckdb
from firmlake.delivery.postgres import open_postgres
from firmlake.delivery.selection import (
    BASE,
    EXPORTED_TABLES,
    LastLoad,
    Selected,
    attach,
    last_load,
    select_changes,
    select_whole,
)
from firmlake.delivery.snowflake import open_snowflake
from firmlake.delivery.table_files import Source
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, lock_name, made_at, record_export
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.loads import has_loaded


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to load, and where.

    Attributes:
        target: `postgres://HOST/DATABASE`, `snowflake://ACCOUNT/DATABASE`, `bigquery://PROJECT/DATASET`, `duckdb:FILE`.
        schema: The schema of the tables in the target.
        tables: The tables to load, in addition to those that earlier loads put into the schema.
        is_whole: Load all rows, even if loading the changes would be enough.
        takes_over: Replace what another data folder loaded into the schema.
        memory_limit: The most memory that DuckDB may use.
    """

    target: str
    schema: str = "firmlake"
    tables: tuple[str, ...] = EXPORTED_TABLES
    is_whole: bool = False
    takes_over: bool = False
    memory_limit: str = "224MB"


def request_of(settings: Settings, *, is_whole: bool = False, takes_over: bool = False) -> LoadRequest:
    """Make a request from the settings.

    Raises:
        UsageError: The settings name no target. Set `load.target`.
    """
    wanted = settings.load
    if not wanted.target:
        raise UsageError("No target is named", "Run `firmlake load postgres://HOST/DATABASE`, or set load.target")
    return LoadRequest(
        target=wanted.target,
        schema=wanted.schema,
        tables=wanted.tables or EXPORTED_TABLES,
        is_whole=is_whole,
        takes_over=takes_over,
        memory_limit=settings.run.duckdb_memory,
    )


class Delivered(NamedTuple):
    """The result of a load.

    Attributes:
        target: The target, without credentials.
        record: The load that the target holds now.
        is_new: Whether anything was written.
        note: Why all rows were loaded instead of changes. Empty for a load of changes, a first load, or if all rows
            were requested.
    """

    target: str
    record: LoadRecord
    is_new: bool
    note: str = ""

    def describe(self) -> str:
        """Describe the load in one line."""
        record = self.record
        what = f"run {record.run_id}, generation {record.generation}"
        if not self.is_new:
            return f"Already there: {self.target} holds {what}"
        rows = count_of(sum(record.row_counts.values()), "row" if record.mode == "whole" else "changed row")
        return f"Loaded into {self.target}: {rows}, {what}" + (f" (whole, because {self.note})" if self.note else "")


def load(
    folders: Folders,
    request: LoadRequest,
    now: Callable[[], datetime],
    tell: Callable[[str], object] = lambda line: None,
) -> Delivered:
    """Load the newest generation into the tables of a target. If a load is interrupted, call again to resume it.

    If the target holds an earlier generation that is still kept, and nobody else changed it, only the rows that differ
    are sent.

    Args:
        folders: The data folder.
        request: What to load, and where.
        now: The clock, UTC.
        tell: Called with a line for each table.

    Raises:
        UsageError: The target or a table is unknown.
        LockHeldError: Another load into the target is running. Wait until it ends.
        FirmlakeError: Nothing is published yet, the target holds a later generation or one of another data folder, or
            it reports an error.
    """
    with (
        recorded_delivery(folders.state, f"a load into {_address(request)}, schema {request.schema}"),
        open_warehouse(folders, memory_limit=request.memory_limit) as connection,
        open_target(request) as target,
        lock(folders, f"a load into {target.name}", lock_name(target.name + request.schema), is_reader=True),
    ):
        held, newest = target.held(), last_load(connection)
        if held and not request.takes_over:
            check_follows(connection, folders, held, target)
        tables = choose_tables(request, target)
        if kept := ", ".join(name for name in tables if name not in request.tables):
            tell(f"Also loaded, because earlier loads put them into the schema: {kept}")
        request = msgspec.structs.replace(request, tables=tables)
        mode, note = choose_mode(connection, folders, request, held, target)
        if held and not mode:
            _remember(folders, request, target, held, now)
            return Delivered(target.name, held, is_new=False)
        selected = select_whole(tables) if mode == "whole" else select_changes(tables)
        record = start(request, newest, made_at(folders, newest.generation), held, mode)
        counts = _stage(connection, folders, target, record, selected, tell)
        shapes = [WAREHOUSE_TABLES[name] for name in tables]
        loaded_at = now().replace(tzinfo=None)
        if held:  # the newest load stays the last one even if a clock was set back
            loaded_at = max(loaded_at, held.loaded_at + timedelta(microseconds=1))
        record = msgspec.structs.replace(record, loaded_at=loaded_at, tables=target.staged(shapes), row_counts=counts)
        target.publish(record, shapes)
        _remember(folders, request, target, record, now)
    return Delivered(target.name, record, is_new=True, note=note)


@contextmanager
def open_target(request: LoadRequest) -> Iterator[LoadTarget]:
    """Open the target of a request.

    Raises:
        UsageError: The address of the target is invalid.
        FirmlakeError: The target cannot be opened.
    """
    scheme = request.target.partition(":")[0]
    if scheme not in _OPENERS:
        raise UsageError(
            f"{scheme} is not a supported target",
            "Name postgres://HOST/DATABASE, snowflake://ACCOUNT/DATABASE, bigquery://PROJECT/DATASET or duckdb:FILE; "
            "for other databases, `firmlake export --ddl DIALECT` prints a script",
        )
    with _OPENERS[scheme](request) as connection:
        yield LoadTarget(connection)


def _open_file(request: LoadRequest) -> AbstractContextManager[TargetConnection]:
    return open_duckdb(Path(request.target.removeprefix("duckdb:")), request.schema, request.memory_limit)


_OPENERS: dict[str, Callable[[LoadRequest], AbstractContextManager[TargetConnection]]] = {
    "postgres": lambda request: open_postgres(request.target, request.schema),
    "postgresql": lambda request: open_postgres(request.target, request.schema),
    "snowflake": lambda request: open_snowflake(request.target, request.schema),
    "bigquery": lambda request: open_bigquery(request.target, request.schema),
    "duckdb": _open_file,
}


def _address(request: LoadRequest) -> str:
    """Return the address of the target; the path of a file is made absolute."""
    scheme, _, path = request.target.partition(":")
    return f"duckdb:{Path(path).absolute()}" if scheme == "duckdb" else request.target


def _stage(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    target: LoadTarget,
    record: LoadRecord,
    selected: list[Selected],
    tell: Callable[[str], object],
) -> dict[str, int]:
    """Stage all tables that are not staged yet, and return the number of rows of each."""
    counts = target.prepare(record.load_id)
    scratch = folders.state if is_writable(folders.state) else Path(tempfile.gettempdir())
    for each in selected:
        table = each.table
        if table.name in counts:
            tell(f"{table.name}: staged by an earlier attempt")
            continue
        source = Source(connection, each, scratch, file_bytes=0)
        whole = record.mode == "whole"
        counts[table.name] = target.stage(record.load_id, table, source.batches(table), is_whole=whole)
        tell(f"{table.name}: {count_of(counts[table.name], 'row')}{'' if whole else ' changed'}")
    return counts


def _remember(
    folders: Folders, request: LoadRequest, target: LoadTarget, record: LoadRecord, now: Callable[[], datetime]
) -> None:
    """Keep the loaded generation, because the next load compares with it."""
    if is_writable(folders.state):
        last = LastExport(
            target=f"{target.name} {request.schema}",
            export_id=record.load_id,
            generation=record.generation,
            exported_at=now(),
            address=_address(request),
        )
        record_export(folders, last)


def check_follows(
    connection: duckdb.DuckDBPyConnection, folders: Folders, held: LoadRecord, target: LoadTarget
) -> None:
    """Check that a target holds an earlier state of this data folder: a run, overview or plan that the folder has too.

    Raises:
        FirmlakeError: The target holds a later generation, or a load from another data folder.
    """
    take_over = "add --take-over to replace what it holds"
    if not has_loaded(connection, folders, held.run_id):
        raise FirmlakeError(
            f"{target.name}: schema {target.schema} holds run {held.run_id}, which is not in {folders.data}: "
            "it came from another data folder, or from a later copy of this one",
            f"Load into another schema (--schema), or {take_over}",
        )
    if held.published_at > last_load(connection).published_at:
        raise FirmlakeError(
            f"{target.name} holds a newer load, of generation {held.generation} from {held.published_at} UTC",
            f"Load from the data folder that it came from, or into another schema (--schema), or {take_over}",
        )


def choose_tables(request: LoadRequest, target: LoadTarget) -> tuple[str, ...]:
    """Add the tables that earlier loads put into the schema, so that all its tables are of the same generation."""
    made, there = target.made(), target.shapes()
    kept = (name for name in WAREHOUSE_TABLES if name in made and name in there)
    return tuple(dict.fromkeys((*request.tables, *kept)))


def choose_mode(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: LoadRequest,
    held: LoadRecord | None,
    target: LoadTarget,
) -> tuple[str, str]:
    """Decide what to load, and attach the generation that changes start from.

    Returns:
        `whole`, `changes`, or an empty text if the target already holds the newest generation; and why all rows are
        loaded, unless that was requested or nothing was loaded before.
    """
    if held is None or request.is_whole or request.takes_over:
        return "whole", ""
    if held.schema_version != SCHEMA_VERSION:
        return "whole", "the columns of the tables have changed since the last load"
    if set(held.tables) != set(request.tables):
        return "whole", "the last load had other tables"
    path = folders.generation(held.generation)
    if not path.exists():
        return "whole", f"generation {held.generation}, which was loaded last, is no longer kept"
    if made_at(folders, held.generation) != held.made_at:
        return "whole", f"generation {held.generation}, which was loaded last, was rebuilt since then"
    is_newest = held.generation == last_load(connection).generation
    if not is_newest:
        attach(connection, path)
    if difference := next(_differences(connection, "" if is_newest else f"{BASE}.", held, target), None):
        return "whole", f"the target was changed since the last load: {difference}"
    return ("" if is_newest else "changes"), ""


def start(request: LoadRequest, newest: LastLoad, made_at: str, held: LoadRecord | None, mode: str) -> LoadRecord:
    """Make the record of a load. Its name is derived from the content, so that an interrupted load can resume."""
    content = (
        newest.generation, newest.published_at, made_at, mode, held and held.load_id, request.tables, SCHEMA_VERSION
    )  # fmt: skip
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
    return LoadRecord(
        load_id=f"{newest.run_id}-{mode}-{digest}",
        loaded_at=newest.published_at,
        mode=mode,
        run_id=newest.run_id,
        generation=newest.generation,
        published_at=newest.published_at,
        made_at=made_at,
        base_generation=held.generation if held and mode == "changes" else None,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
    )


def _differences(
    connection: duckdb.DuckDBPyConnection, prefix: str, held: LoadRecord, target: LoadTarget
) -> Iterator[str]:
    """Yield how a target differs from what was loaded: tables, columns and types first, then counts.

    A value that somebody replaced by another value goes unnoticed, because finding it would take reading every row.
    """
    there = target.shapes()
    for name, shape in held.tables.items():
        now = dict(there.get(name, ()))
        if not now:
            yield f"{name} is gone"
        for column, kind in shape:
            if column not in now:
                yield f"{name} has no column {column}"
            elif now[column] != kind:
                yield f"{name}.{column} is {now[column]} instead of {kind}"
    for name, shape in held.tables.items():
        columns = [column for column, _ in shape]
        counted = ", ".join(("count(*)", *(f"count({column})" for column in columns)))
        expected = connection.execute(f"SELECT {counted} FROM {prefix}{name}").fetchall()[0]
        for column, count, wanted in zip(("", *columns), target.count(name, columns), expected, strict=True):
            if count != wanted:
                yield f"{name} has {count:,} {f'values of {column}' if column else 'rows'} instead of {wanted:,}"
