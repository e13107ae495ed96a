"""Bring the newest generation, or its difference from what a target holds, to that target: exports and loads.

A target remembers what it holds (`Target.held`). Tables are put beside what readers see, then published together, so a
kill at any moment is harmless. The name of a delivery is derived from its content, so a repeated call finds what is
done and resumes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.clock import utc_now
from firmlake.core.errors import FirmlakeError, Translation, UsageError, translated
from firmlake.core.failure import recorded_delivery
from firmlake.core.files import is_writable, make_folder
from firmlake.core.folders import Folders
from firmlake.core.lock import lock
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.core.text import count_of
from firmlake.delivery.database import Database
from firmlake.delivery.destination import Destination, open_destination
from firmlake.delivery.drivers import open_database
from firmlake.delivery.files import FORMATS, TABLE_FORMATS, FileTarget, Source
from firmlake.delivery.record import DeliveredTable, Record, describe_rows
from firmlake.delivery.selection import (
    BASE,
    EXPORTED_TABLES,
    LastLoad,
    Selected,
    as_held,
    attach,
    check_mask,
    last_load,
    mask_columns,
    select_as_of,
    select_changes,
    select_whole,
)
from firmlake.privacy.key import read_key
from firmlake.privacy.tombstones import key_path
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, lock_name, made_at, record_export
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.incomplete import read_incomplete, to_hand_on, to_json
from firmlake.warehouse.loads import has_loaded, loaded_runs


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to deliver.

    Attributes:
        mode: `whole`; `changes` since the last delivery, or `whole` if these are no longer known; `as_of`, the state
            after the run `as_of`, for files only.
        tables: The tables; a schema of a database also keeps those that earlier loads put into it.
        target: For a load: `postgres://HOST/DATABASE`, `snowflake://ACCOUNT/DATABASE`, `bigquery://PROJECT/DATASET` or
            `duckdb:FILE`.
        schema: For a load: the schema of the tables in the target.
        takes_over: Replace what another data folder delivered.
        format: For files: a key of `FORMATS`, or one of `TABLE_FORMATS`.
        file_bytes: Approximate size of a Parquet file.
        company_list: Restricts the tables to the companies of this list; empty for all companies. For files only.
        mask: "drop" or "hash" by pattern of columns; see `selection`. For files only.
        privacy: Where the key of the hashes is.
        memory_limit: The most memory that DuckDB may use.
    """

    mode: str = "whole"
    tables: tuple[str, ...] = EXPORTED_TABLES
    target: str = ""
    schema: str = "firmlake"
    takes_over: bool = False
    format: str = "parquet"
    as_of: str = ""
    file_bytes: int = 128_000_000
    company_list: str = ""
    mask: dict[str, str] = {}
    privacy: PrivacySettings = PrivacySettings()
    memory_limit: str = "224MB"


class Target(Protocol):
    """What deliveries are brought to: `FileTarget` or `Database`.

    Attributes:
        name: Its address without credentials, for messages.
        key: Names its record and its lock in the data folder.
        address: What `open_target` opened; empty if that is the key.
        next_step: What the user can do if it holds what must not be replaced.
        logs_deliveries: Whether each delivery is a row of its own, even if its content is that of an earlier one.
    """

    name: str
    key: str
    address: str
    next_step: str
    logs_deliveries: bool

    def held(self) -> Record | None:
        """Read the record of what readers see; None before the first delivery."""
        ...

    def choose_tables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tables to deliver."""
        ...

    def differences(self, connection: duckdb.DuckDBPyConnection, prefix: str, held: Record) -> Iterator[str]:
        """Yield how the target differs from the generation delivered last, which the connection has at `prefix`."""
        ...

    def begin(self, record: Record) -> set[str]:
        """Remove what other, killed deliveries left; return the tables that this delivery has put already."""
        ...

    def put(self, record: Record, source: Source) -> DeliveredTable:
        """Put the rows of a table beside what readers see."""
        ...

    def publish(self, record: Record) -> bool:
        """Let readers see all tables at once; return False if they saw them before."""
        ...


class Delivered(NamedTuple):
    """The result of a delivery.

    Attributes:
        target: The target, without credentials.
        record: What the target holds now, or the export beside it.
        is_new: Whether anything was written.
        note: Why all rows were delivered although changes were requested; or why the delivery was not recorded.
    """

    target: str
    record: Record
    is_new: bool
    note: str = ""

    def describe(self) -> str:
        """Describe the delivery in one line."""
        record = self.record
        origin = f"run {record.run_id}, generation {record.generation}"
        if not self.is_new:
            return f"Already there: {self.target} holds {origin}"
        rows = count_of(record.row_count, "row" if record.mode == "whole" else "changed row")
        return f"Loaded into {self.target}: {rows}, {origin}" + (f" (whole, because {self.note})" if self.note else "")


def export_request(settings: Settings, as_of: str = "", company_list: str = "") -> Request:
    """Make the request for an export from the settings; `as_of` names a run, `company_list` a list."""
    wanted = settings.export
    return Request(
        mode="as_of" if as_of else "changes" if wanted.changes else "whole",
        format=wanted.format,
        as_of=as_of,
        tables=wanted.tables or EXPORTED_TABLES,
        file_bytes=wanted.file_megabytes * 1_000_000,
        memory_limit=settings.run.duckdb_memory,
        company_list=company_list,
        mask=dict(wanted.mask),
        privacy=settings.privacy,
    )


def load_request(settings: Settings, *, is_whole: bool = False, takes_over: bool = False) -> Request:
    """Make the request for a load from the settings.

    Raises:
        UsageError: The settings name no target. Set `load.target`.
    """
    wanted = settings.load
    if not wanted.target:
        raise UsageError("No target is named", "Run `firmlake load postgres://HOST/DATABASE`, or set load.target")
    return Request(
        mode="whole" if is_whole else "changes",
        target=wanted.target,
        schema=wanted.schema,
        tables=wanted.tables or EXPORTED_TABLES,
        takes_over=takes_over,
        memory_limit=settings.run.duckdb_memory,
    )


def export_as_set(
    settings: Settings,
    as_of: str = "",
    tell: Callable[[str], object] = lambda line: None,
    company_list: str = "",
) -> tuple[Delivered, Destination]:
    """Export as set in the settings.

    Args:
        settings: `export.target` names the destination.
        as_of: A run; empty for the newest state.
        tell: Called with a line for each table.
        company_list: A list; empty for all companies.

    Returns:
        The export, and its destination.

    Raises:
        UsageError: No destination is named.
        FirmlakeError: As `export`.
    """
    if not settings.export.target:
        raise UsageError("No export target is named", "Run `firmlake export FOLDER`, or set export.target")
    folders = Folders.existing(settings)
    destination = open_destination(settings.export.target, folders.readers)
    return export(folders, export_request(settings, as_of, company_list), destination, tell), destination


def export(
    folders: Folders,
    request: Request,
    destination: Destination,
    tell: Callable[[str], object] = lambda line: None,
    *,
    now: Callable[[], datetime] = utc_now,
) -> Delivered:
    """Export the newest generation, unless the destination already has exactly this export.

    Args:
        folders: The data folder.
        request: What to export.
        destination: Where to write.
        tell: Called with a line for each table.
        now: The clock, UTC.

    Raises:
        UsageError: The request names an unknown table, run or format, or contradicts what the destination holds.
        LockHeldError: Another process exports from this data folder to this destination.
        FirmlakeError: Nothing is published yet, the destination fails, or another export has replaced `latest.json`.
    """
    check_request(request)
    is_named = request.mode != "as_of" and not request.company_list
    target = FileTarget(destination, is_named=is_named)
    return _deliver(folders, request, nullcontext(target), f"an export to {target.name}", now, tell)


def load(
    folders: Folders,
    request: Request,
    now: Callable[[], datetime],
    tell: Callable[[str], object] = lambda line: None,
) -> Delivered:
    """Load the newest generation into the tables of a database. If a load is interrupted, call again to resume it.

    If the database holds an earlier generation that is still kept, and nobody else changed it, only the rows that
    differ are sent.

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
    what = f"a load into {_address(request)}, schema {request.schema}"
    return _deliver(folders, request, open_target(request, now), what, now, tell)


@contextmanager
def open_target(request: Request, now: Callable[[], datetime] = utc_now) -> Iterator[Database]:
    """Open the database of a request.

    Raises:
        UsageError: The address of the database is invalid.
        FirmlakeError: The database cannot be opened.
    """
    with open_database(request.target, request.schema, request.memory_limit) as connection:
        yield Database(connection, request.schema, _address(request), now)


def check_request(request: Request) -> None:
    """Check the format and the mask of an export.

    Raises:
        UsageError: The format is unknown or does not support the mode, or the mask names no column.
    """
    check_mask(request.mask)
    known = (*FORMATS, *TABLE_FORMATS)
    if request.format not in known:
        raise UsageError(f"There is no format {request.format}", f"Choose one of {', '.join(known)}")
    if request.mode == "changes" and request.company_list:
        raise UsageError(
            "Changes cannot be exported for a single list", "Export the list whole, or the changes of all companies"
        )
    if request.mode == "as_of" and request.format in TABLE_FORMATS:
        raise UsageError(
            f"{TABLE_FORMATS[request.format]} tables keep their own history, so --as-of does not apply",
            "Export as Parquet",
        )


def _deliver(
    folders: Folders,
    request: Request,
    opening: AbstractContextManager[Target],
    what: str,
    now: Callable[[], datetime],
    tell: Callable[[str], object],
) -> Delivered:
    """Deliver as requested; `what` names the delivery in locks and records of failures."""
    with (
        recorded_delivery(folders.state, what),
        open_warehouse(folders, memory_limit=request.memory_limit, company_list=request.company_list) as connection,
        opening as target,
        lock(folders, what, lock_name(target.key), is_reader=True),
    ):
        held, newest = target.held(), last_load(connection)
        if held and request.mode != "as_of" and not request.takes_over:
            _check_follows(connection, folders, held, target)
        tables = target.choose_tables(request.tables)
        if kept := ", ".join(name for name in tables if name not in request.tables):
            tell(f"Also loaded, because earlier loads put them into the schema: {kept}")
        request = msgspec.structs.replace(request, tables=tables)
        mode, note = _choose_mode(connection, folders, request, held, target)
        if held and not mode:
            record, is_new = held, False
        else:
            record = _start(folders, request, mode, newest, held, target)
            record = msgspec.structs.replace(record, incomplete=to_hand_on(read_incomplete(connection)))
            record = msgspec.structs.replace(
                record, tables=tuple(_put_tables(connection, folders, request, target, record, tell))
            )
            is_new = target.publish(record)
        if request.mode != "as_of" and not request.company_list and not _remember(folders, target, record, now):
            note = f"{note}; " * bool(note) + f"not recorded in {folders.data}, which cannot be written to"
    return Delivered(target.name, record, is_new, note)


def _check_follows(connection: duckdb.DuckDBPyConnection, folders: Folders, held: Record, target: Target) -> None:
    """Check that a target holds an earlier state of this data folder: a run, overview or plan that the folder has too.

    Raises:
        FirmlakeError: The target holds a later generation, or a delivery from another data folder.
    """
    if not has_loaded(connection, folders, held.run_id):
        raise FirmlakeError(
            f"{target.key} holds run {held.run_id}, which is not in {folders.data}: it came from another data folder, "
            "or from a later copy of this one",
            target.next_step,
        )
    if held.published_at > last_load(connection).published_at:
        raise FirmlakeError(
            f"{target.key} holds a newer generation, {held.generation} from {held.published_at} UTC", target.next_step
        )


def _choose_mode(
    connection: duckdb.DuckDBPyConnection, folders: Folders, request: Request, held: Record | None, target: Target
) -> tuple[str, str]:
    """Decide what to deliver, and attach the generation that changes start from.

    Returns:
        `whole`, `changes`, `as_of`, or an empty text if the target already holds the newest generation; and why all
        rows are delivered although changes were requested.
    """
    if request.mode != "changes" or request.takes_over:
        return "as_of" if request.mode == "as_of" else "whole", ""
    if held is None:
        return "whole", "nothing was delivered before"
    is_newest = held.generation == last_load(connection).generation
    if reason := next(_reasons_against_changes(folders, request, held, is_newest=is_newest), ""):
        return "whole", reason
    if not is_newest:
        attach(connection, folders.generation(held.generation))
    if difference := next(target.differences(connection, "" if is_newest else f"{BASE}.", held), ""):
        return "whole", f"the target was changed since the last delivery: {difference}"
    return ("" if is_newest else "changes"), ""


def _reasons_against_changes(folders: Folders, request: Request, held: Record, *, is_newest: bool) -> Iterator[str]:
    """Yield why changes would not bring a target from what it holds to what is requested."""
    held_tables, tables = {table.name for table in held.tables}, set(request.tables)
    if held.schema_version != SCHEMA_VERSION:
        yield "the columns of the tables have changed since the last delivery"
    if held.format and held.format != request.format:
        yield f"the last delivery was {held.format}"
    if held.mask != request.mask:
        yield "the last delivery had another mask"
    if not tables <= held_tables if is_newest else tables != held_tables:
        yield "the last delivery had other tables"
    if not folders.generation(held.generation).exists():
        yield f"generation {held.generation}, which was delivered last, is no longer kept"
    elif made_at(folders, held.generation) != held.made_at:
        yield f"generation {held.generation}, which was delivered last, was rebuilt by `firmlake forget` or `prune`"


def _start(
    folders: Folders, request: Request, mode: str, newest: LastLoad, held: Record | None, target: Target
) -> Record:
    """Make the record of a delivery, whose name is derived from everything that goes into it."""
    previous = held.delivery_id if held and mode == "changes" else ""
    made = made_at(folders, newest.generation)
    content = (
        request.format,
        request.tables,
        request.file_bytes,
        newest.generation,
        newest.published_at,
        made,
        held.delivery_id if held and target.logs_deliveries else previous,
        request.company_list,
        sorted(request.mask.items()),
        SCHEMA_VERSION,
        __version__,
    )
    run_id = request.as_of if mode == "as_of" else newest.run_id
    return Record(
        delivery_id=f"{run_id}-{mode}-{hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]}",
        mode=mode,
        format=request.format,
        run_id=run_id,
        generation=newest.generation,
        published_at=newest.published_at,
        made_at=made,
        schema_version=SCHEMA_VERSION,
        firmlake_version=__version__,
        previous=previous,
        base_generation=held.generation if held and mode == "changes" else None,
        mask=request.mask,
    )


def _put_tables(
    connection: duckdb.DuckDBPyConnection,
    folders: Folders,
    request: Request,
    target: Target,
    record: Record,
    tell: Callable[[str], object],
) -> Iterator[DeliveredTable]:
    """Put all tables that an earlier attempt has not put yet, and yield all of them."""
    selection = _select(connection, request, record.mode)
    delivered = target.begin(record)
    scratch = folders.state if is_writable(folders.state) else Path(tempfile.gettempdir())
    key = read_key(key_path(request.privacy, folders), "privacy.key_file") if "hash" in request.mask.values() else b""
    no_room = Translation(
        (OSError, duckdb.IOException, duckdb.OutOfMemoryException),
        "Make room there, then run again",
        f"{{where}}: no temporary file can be written in {scratch}: {{reason}}",
    )
    for selected in selection:
        name = selected.table.name
        masked = mask_columns(connection, selected, request.mask, key)
        completeness = to_json(record.incomplete)
        source = Source(connection, masked, scratch, request.file_bytes, completeness=completeness)
        with translated(name, no_room):
            make_folder(scratch)
            table = target.put(record, source)
        if name not in delivered:
            tell(f"{name}: {describe_rows(table)}{' changed' if record.mode == 'changes' else ''}")
        elif target.logs_deliveries:
            tell(f"{name}: staged by an earlier attempt")
        yield table


def _select(connection: duckdb.DuckDBPyConnection, request: Request, mode: str) -> list[Selected]:
    if mode == "as_of":
        selection = select_as_of(request.tables, request.as_of, loaded_runs(connection))
    else:
        selection = select_changes(request.tables) if mode == "changes" else select_whole(request.tables)
    return [as_held(connection, selected) for selected in selection]


def _remember(folders: Folders, target: Target, record: Record, now: Callable[[], datetime]) -> bool:
    """Keep the delivered generation, because the next delivery compares with it; return False if that is impossible."""
    if not is_writable(folders.state):
        return False
    last = LastExport(
        target=target.key,
        export_id=record.delivery_id,
        generation=record.generation,
        exported_at=now(),
        address=target.address,
    )
    record_export(folders, last)
    return True


def _address(request: Request) -> str:
    """Return the address of the target; the path of a file is made absolute."""
    scheme, _, path = request.target.partition(":")
    return f"duckdb:{Path(path).absolute()}" if scheme == "duckdb" else request.target
