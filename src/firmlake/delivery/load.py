"""Load the newest generation, or its changes since the last load, into a target."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from firmlake.core.errors import UsageError
from firmlake.core.failure import recorded_delivery
from firmlake.core.files import is_writable
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.text import count_of
from firmlake.delivery.bigquery import open_bigquery
from firmlake.delivery.decision import check_follows, choose_mode, choose_tables, start
from firmlake.delivery.duckdb_file import open_duckdb
from firmlake.delivery.postgres import open_postgres
from firmlake.delivery.record import LoadRecord
from firmlake.delivery.request import LoadRequest
from firmlake.delivery.snowflake import open_snowflake
from firmlake.delivery.target import LoadTarget, TargetConnection
from firmlake.exports.selection import Selected, last_load, select_changes, select_whole
from firmlake.exports.table_files import Source
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.exported import LastExport, lock_name, made_at, record_export
from firmlake.warehouse.generations import open_warehouse

__all__ = ["Delivered", "load", "open_target"]


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


# ---------------------------------------------------------------------------------------------------------------------


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
