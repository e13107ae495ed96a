"""Load the newest generation, or its changes since the last load, into a target."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
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
from firmlake.delivery.bigquery import open_bigquery
from firmlake.delivery.duckdb_file import open_duckdb
from firmlake.delivery.postgres import open_postgres
from firmlake.delivery.record import LoadRecord
from firmlake.delivery.snowflake import open_snowflake
from firmlake.delivery.target import LoadTarget, TargetConnection
from firmlake.exports.selection import (
    BASE,
    EXPORTED_TABLES,
    LastLoad,
    Selected,
    attach,
    last_load,
    select_changes,
    select_whole,
)
from firmlake.exports.table_files import Source
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, lock_name, record_export
from firmlake.warehouse.exported import made_at as made_at_of
from firmlake.warehouse.generations import open_warehouse

__all__ = ["Delivered", "LoadRequest", "load", "open_target", "request_of"]


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to load, and where.

    Attributes:
        target: `postgres://HOST/DATABASE`, `snowflake://ACCOUNT/DATABASE`, `bigquery://PROJECT/DATASET`, `duckdb:FILE`.
        schema: The schema of the tables in the target.
        tables: The tables to load.
        is_whole: Load all rows, even if loading the changes would be enough.
        memory_limit: The most memory that DuckDB may use.
    """

    target: str
    schema: str = "firmlake"
    tables: tuple[str, ...] = EXPORTED_TABLES
    is_whole: bool = False
    memory_limit: str = "224MB"


class Delivered(NamedTuple):
    """The result of a load.

    Attributes:
        target: The target, without credentials.
        record: The load that the target holds now.
        is_new: Whether anything was written.
        note: Why all rows were loaded instead of changes. Empty for a load of changes, a first load, or if all rows
            were asked for.
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
        rows = f"{sum(record.row_counts.values()):,} {'rows' if record.mode == 'whole' else 'changed rows'}"
        return f"Loaded into {self.target}: {rows}, {what}" + (f" (whole, because {self.note})" if self.note else "")


def request_of(settings: Settings, *, is_whole: bool = False) -> LoadRequest:
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
        memory_limit=settings.run.duckdb_memory,
    )


def load(
    folders: Folders,
    request: LoadRequest,
    now: Callable[[], datetime],
    tell: Callable[[str], object] = lambda line: None,
) -> Delivered:
    """Load the newest generation into the tables of a target. If a load is interrupted, call again to resume it.

    If the target holds an earlier generation that is still kept, only the rows that differ are sent.

    Args:
        folders: The data folder.
        request: What to load, and where.
        now: The clock, UTC.
        tell: Receives a line for each table.

    Raises:
        UsageError: The target or a table is unknown.
        LockHeldError: Another load into the target is running. Wait until it ends.
        FirmlakeError: Nothing is published yet, the target holds a later generation, or the target reports an error.
    """
    with (
        recorded_delivery(folders.state, f"a load into {_address(request)}, schema {request.schema}"),
        open_warehouse(folders, memory_limit=request.memory_limit) as connection,
        open_target(request) as target,
        lock(folders, f"a load into {target.name}", lock_name(target.name + request.schema), is_reader=True),
    ):
        held, newest = target.held(), last_load(connection)
        _check_order(held, newest, target)
        made_at = made_at_of(folders, newest.generation)
        if held and made_at == held.made_at and _holds(held, newest, request):
            _remember(folders, request, target, held, now)
            return Delivered(target.name, held, is_new=False)
        why_whole = _why_whole(connection, folders, request, held)
        selected = select_whole(request.tables) if why_whole is not None else select_changes(request.tables)
        record = _start(request, target, newest, made_at, held, is_whole=why_whole is not None)
        counts = _stage(connection, folders, target, record, selected, tell)
        record = msgspec.structs.replace(record, loaded_at=now().replace(tzinfo=None), row_counts=counts)
        target.publish(record, [WAREHOUSE_TABLES[name] for name in request.tables], held)
        _remember(folders, request, target, record, now)
    return Delivered(target.name, record, is_new=True, note=why_whole or "")


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
            "for others `firmlake export --ddl DIALECT` prints a script",
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


# ---------------------------------------------------------------------------------------------------------------------


def _address(request: LoadRequest) -> str:
    """Return the address of the target; that of a file does not depend on where a command is started."""
    scheme, _, path = request.target.partition(":")
    return f"duckdb:{Path(path).absolute()}" if scheme == "duckdb" else request.target


def _check_order(held: LoadRecord | None, newest: LastLoad, target: LoadTarget) -> None:
    if held and held.published_at > newest.published_at:
        raise FirmlakeError(
            f"{target.name} holds a newer load, of generation {held.generation} from {held.published_at} UTC",
            "Load from the data folder of that load, or into another schema",
        )


def _holds(held: LoadRecord, newest: LastLoad, request: LoadRequest) -> bool:
    return (
        not request.is_whole
        and (held.generation, held.published_at) == (newest.generation, newest.published_at)
        and held.schema_version == SCHEMA_VERSION
        and set(held.tables) == set(request.tables)
    )


def _why_whole(
    connection: duckdb.DuckDBPyConnection, folders: Folders, request: LoadRequest, held: LoadRecord | None
) -> str | None:
    """Return why all rows must be loaded, "" if asked for; None if changes are enough, after attaching their base."""
    if held is None or request.is_whole:
        return ""
    if held.schema_version != SCHEMA_VERSION:
        return "the columns of the tables have changed since the last load"
    if set(held.tables) != set(request.tables):
        return "the last load was of other tables"
    path = _path(folders, held.generation)
    if path.exists() and made_at_of(folders, held.generation) != held.made_at:
        return f"generation {held.generation}, which was loaded last, was rebuilt since then"
    if path.exists():
        attach(connection, path)
        if last_load(connection, BASE).published_at == held.published_at:
            return None
    return f"generation {held.generation}, which was loaded last, is no longer kept"


def _path(folders: Folders, generation: int) -> Path:
    return folders.warehouse / f"gen_{generation:06}.duckdb"


def _start(
    request: LoadRequest, target: LoadTarget, newest: LastLoad, made_at: str, held: LoadRecord | None, *, is_whole: bool
) -> LoadRecord:
    """Make the record of a load. Its name is derived from the content, so that an interrupted load can resume."""
    tables = {name: target.dialect.shape(WAREHOUSE_TABLES[name]) for name in request.tables}
    mode = "whole" if is_whole else "changes"
    content = (newest.generation, newest.published_at, made_at, mode, held and held.load_id, tables, SCHEMA_VERSION)
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
    return LoadRecord(
        load_id=f"{newest.run_id}-{mode}-{digest}",
        loaded_at=newest.published_at,
        mode=mode,
        run_id=newest.run_id,
        generation=newest.generation,
        published_at=newest.published_at,
        made_at=made_at,
        base_generation=held.generation if held and not is_whole else None,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
        tables=tables,
    )


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
        tell(f"{table.name}: {counts[table.name]:,} rows{'' if whole else ' changed'}")
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
