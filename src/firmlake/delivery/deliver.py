"""Bring the newest generation, or its difference from what a target holds, to that target: exports and loads.

A target remembers what it holds (`held`). Tables are put beside what readers see, then published together, so a kill at
any moment is harmless. The name of a delivery is derived from its content, so a repeated call finds what is done and
resumes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from firmlake import __version__
from firmlake.core.errors import FirmlakeError, Translation, UsageError, translated
from firmlake.core.files import is_writable, make_folder
from firmlake.core.folders import Folders
from firmlake.core.settings import PrivacySettings, Settings
from firmlake.core.work import lock, recorded_delivery, utc_now
from firmlake.delivery.database import Database
from firmlake.delivery.destination import open_destination
from firmlake.delivery.drivers import open_database
from firmlake.delivery.files import TABLE_FORMATS, FileTarget
from firmlake.delivery.record import DeliveredTable, Record, describe_rows
from firmlake.delivery.selection import BASE, EXPORTED_TABLES, attach, check_mask, mask_columns, select
from firmlake.privacy.tombstones import key_path, read_key
from firmlake.tables.stage import SCHEMA_VERSION
from firmlake.warehouse.exported import LastExport, export_record, is_database, lock_name, made_at, record_export
from firmlake.warehouse.generations import open_warehouse
from firmlake.warehouse.incomplete import read_incomplete, to_hand_on
from firmlake.warehouse.loads import Load, has_loaded, read_loads

Target = FileTarget | Database
"""What deliveries are brought to. Both have the same methods:

held             reads the record of what readers see
choose_tables    adds the tables that must stay at the same generation
differences      yields what others changed since the last delivery
begin            removes what other, killed deliveries left, and names the tables that this one has put already
put              puts the rows of a table beside what readers see
publish          lets readers see all tables at once
"""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to deliver, and where.

    Attributes:
        target: For an export, a folder, s3://, gs:// or az://; for a load, an address of `drivers`.
        schema: For a load: the schema of the tables in the target.
        mode: `whole`; `changes` since the last delivery, or `whole` if these are no longer known; `as_of`, the state
            after the run `as_of`, for files only.
        tables: A schema of a database also keeps those that earlier loads put into it.
        takes_over: Replace what another data folder delivered.
        format: For files: parquet, csv, or one of `TABLE_FORMATS`.
        file_bytes: A Parquet file ends once it has this size.
        company_list: Restricts the tables to the companies of this list; empty for all companies. For files only.
        mask: "drop" or "hash" by pattern of columns; see `selection`. For files only.
        privacy: Where the key of the hashes is.
    """

    target: str = ""
    schema: str = "firmlake"
    mode: str = "whole"
    tables: tuple[str, ...] = EXPORTED_TABLES
    takes_over: bool = False
    format: str = "parquet"
    as_of: str = ""
    file_bytes: int = 128_000_000
    company_list: str = ""
    mask: dict[str, str] = {}
    privacy: PrivacySettings = PrivacySettings()
    memory_limit: str = "224MB"

    @property
    def is_load(self) -> bool:
        """Whether the target is a database."""
        return is_database(self.target)

    @property
    def is_newest(self) -> bool:
        """Whether readers shall see the delivery as the newest state; otherwise it is put beside that."""
        return self.mode != "as_of" and not self.company_list

    @property
    def address(self) -> str:
        """The target; the path of a DuckDB file is made absolute."""
        scheme, _, path = self.target.partition(":")
        return f"duckdb:{Path(path).absolute()}" if scheme == "duckdb" else self.target


class Delivered(NamedTuple):
    """The result of a delivery.

    Attributes:
        target: Without credentials.
        record: What the target holds now, or the export beside it.
        is_new: Whether anything was written.
        note: Why all rows were delivered although changes were requested; or why the delivery was not recorded.
    """

    target: str
    record: Record
    is_new: bool
    note: str
    is_load: bool

    def describe(self) -> str:
        """Describe the delivery in one line."""
        record = self.record
        origin = f"run {record.run_id}, generation {record.generation}"
        if not self.is_new:
            return f"Already there: {self.target} holds {origin}"
        note = f" ({record.mode}: {self.note})" if self.note else ""
        verb = "Loaded into" if self.is_load else "Exported to"
        return f"{verb} {self.target}: {describe_rows(record, record.mode)}, {origin}{note}"

    def content(self) -> dict[str, object]:
        """Describe the delivery for programs."""
        record = self.record
        return {
            "target": self.target,
            "is_new": self.is_new,
            "note": self.note,
            "load_id" if self.is_load else "export_id": record.delivery_id,
            "mode": record.mode,
            "run_id": record.run_id,
            "generation": record.generation,
            "rows": record.row_counts,
            "changes": {table.name: table.changes for table in record.tables if table.changes},
            "byte_count": record.byte_count,
        }


def export_request(settings: Settings, as_of: str = "", company_list: str = "") -> Request:
    """Make the request for an export from the settings; `as_of` names a run, `company_list` a list."""
    wanted = settings.export
    if not wanted.target:
        raise UsageError("No export target is named", "Run `firmlake export FOLDER`, or set export.target")
    if is_database(wanted.target):
        raise UsageError("The export target is a database", "Use `firmlake load`, or name a folder or a store")
    return Request(
        target=wanted.target,
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
    """Make the request for a load from the settings."""
    wanted = settings.load
    if not wanted.target:
        raise UsageError("No target is named", "Run `firmlake load postgres://HOST/DATABASE`, or set load.target")
    if not is_database(wanted.target):
        raise UsageError(
            f"{wanted.target.partition(':')[0]} is not a supported target",
            "Name postgres://HOST/DATABASE, snowflake://ACCOUNT/DATABASE, bigquery://PROJECT/DATASET or duckdb:FILE; "
            "for other databases, `firmlake export --ddl DIALECT` prints a script",
        )
    return Request(
        target=wanted.target,
        schema=wanted.schema,
        mode="whole" if is_whole else "changes",
        tables=wanted.tables or EXPORTED_TABLES,
        takes_over=takes_over,
        memory_limit=settings.run.duckdb_memory,
    )


def deliver(
    folders: Folders,
    request: Request,
    tell: Callable[[str], object] = lambda line: None,
    now: Callable[[], datetime] = utc_now,
) -> Delivered:
    """Deliver the newest generation, unless the target holds it already. If interrupted, call again to resume.

    If the target holds an earlier generation that is still kept, and nobody else changed it, a request for changes
    sends only the rows that differ. `tell` gets a line for each table.

    Raises:
        UsageError: The request names an unknown target, table or run, or contradicts what the target holds.
        LockHeldError: Another delivery to the target is running. Wait until it ends.
        FirmlakeError: Nothing is published yet, the target holds a later generation or one of another data folder, it
            fails, or another export has replaced `latest.json`.
    """
    _check(request)
    scratch = folders.state if is_writable(folders.state) else Path(tempfile.gettempdir())
    opening: AbstractContextManager[Target]
    if request.is_load:
        what, opening = f"a load into {request.address}, schema {request.schema}", open_target(request, now)
    else:
        destination = open_destination(request.target, folders.readers)
        files = FileTarget(destination, scratch, request.file_bytes, is_named=request.is_newest)
        what, opening = f"an export to {files.name}", nullcontext(files)
    with (
        recorded_delivery(folders.state, what),
        open_warehouse(folders, memory_limit=request.memory_limit, company_list=request.company_list) as connection,
        opening as target,
        lock(folders, what, lock_name(target.key), is_reader=True),
    ):
        previous = target.held()
        wanted = msgspec.structs.replace(request, tables=target.choose_tables(request.tables))
        delivery = _Delivery(connection, folders, wanted, target, previous, _newest(connection))
        delivery.check_follows()
        if kept := ", ".join(name for name in wanted.tables if name not in request.tables):
            tell(f"Also loaded, because earlier loads put them into the schema: {kept}")
        mode, note = delivery.choose_mode()
        if previous and not mode:
            record, is_new = previous, False
        else:
            record = delivery.start(mode)
            record = msgspec.structs.replace(record, tables=tuple(delivery.put_tables(record, scratch, tell)))
            is_new = target.publish(record)
        if not delivery.remember(record, now()):
            note = f"{note}; " * bool(note) + f"not recorded in {folders.data}, which cannot be written to"
    return Delivered(target.name, record, is_new, note, request.is_load)


def open_target(request: Request, now: Callable[[], datetime] = utc_now) -> AbstractContextManager[Database]:
    """Open the database of a request."""
    return open_database(request.address, request.schema, request.memory_limit, now)


def _check(request: Request) -> None:
    """Check that the parts of a request fit each other."""
    check_mask(request.mask)
    if request.mode == "changes" and request.company_list:
        raise UsageError(
            "Changes cannot be exported for a single list", "Export the list whole, or the changes of all companies"
        )
    if request.company_list and request.format in TABLE_FORMATS:
        raise UsageError(
            f"{TABLE_FORMATS[request.format]} tables hold all companies, and those of one list would replace them",
            "Export the list as Parquet or CSV, or all companies",
        )
    if request.mode == "as_of" and request.format in TABLE_FORMATS:
        raise UsageError(
            f"{TABLE_FORMATS[request.format]} tables keep their own history, so --as-of does not apply",
            "Export as Parquet",
        )


class _Delivery(NamedTuple):
    """What a delivery is made from.

    The `request` has all tables that are delivered, and `previous` is what the target holds.

    The load `newest` made the newest generation, which `connection` reads.
    """

    connection: duckdb.DuckDBPyConnection
    folders: Folders
    request: Request
    target: Target
    previous: Record | None
    newest: Load

    def check_follows(self) -> None:
        """Refuse a target with a later generation, or a run, overview or plan that this data folder does not have."""
        previous, target = self.previous, self.target
        if previous is None or self.request.mode == "as_of" or self.request.takes_over:
            return
        if not has_loaded(self.connection, self.folders, previous.run_id):
            raise FirmlakeError(
                f"{target.key} holds run {previous.run_id}, which is not in {self.folders.data}: it came from another "
                "data folder, or from a later copy of this one",
                target.next_step,
            )
        if previous.published_at > self.newest.published_at.replace(tzinfo=None):
            raise FirmlakeError(
                f"{target.key} holds a newer generation, {previous.generation} from {previous.published_at} UTC",
                target.next_step,
            )

    def choose_mode(self) -> tuple[str, str]:
        """Decide what to deliver, and attach the generation that changes start from.

        Returns `whole`, `changes`, `as_of`, or an empty text if the target already holds the newest generation; and why
        all rows are delivered although changes were requested.
        """
        previous = self.previous
        if self.request.mode != "changes" or self.request.takes_over:
            return "as_of" if self.request.mode == "as_of" else "whole", ""
        if previous is None:
            return "whole", "nothing was delivered before"
        is_newest = previous.generation == self.newest.generation
        if reason := next(self._reasons_against_changes(previous, is_newest=is_newest), ""):
            return "whole", reason
        if not is_newest:
            attach(self.connection, self.folders.generation(previous.generation))
        differences = self.target.differences(self.connection, "" if is_newest else f"{BASE}.", previous)
        if difference := next(differences, ""):
            return "whole", f"the target was changed since the last delivery: {difference}"
        return ("" if is_newest else "changes"), ""

    def _reasons_against_changes(self, previous: Record, *, is_newest: bool) -> Iterator[str]:
        """Yield why changes would not bring the target from what it holds to what is requested."""
        previous_tables, tables = {table.name for table in previous.tables}, set(self.request.tables)
        if previous.schema_version != SCHEMA_VERSION:
            yield "the columns of the tables have changed since the last delivery"
        if previous.format and previous.format != self.request.format:
            yield f"the last delivery was {previous.format}"
        if previous.mask != self.request.mask:
            yield "the last delivery had another mask"
        if not tables <= previous_tables if is_newest else tables != previous_tables:
            yield "the last delivery had other tables"
        if not self.folders.generation(previous.generation).exists():
            yield f"generation {previous.generation}, which was delivered last, is no longer kept"
        elif made_at(self.folders, previous.generation) != previous.made_at:
            yield f"generation {previous.generation}, which was delivered last, was rebuilt since"

    def start(self, mode: str) -> Record:
        """Make the record of the delivery, whose name is derived from everything that goes into it."""
        request, newest, base = self.request, self.newest, self.previous if mode == "changes" else None
        before = self.previous if self.target.logs_deliveries else base
        run_id = request.as_of if mode == "as_of" else newest.name
        record = Record(
            delivery_id="",
            mode=mode,
            format=request.format,
            run_id=run_id,
            generation=newest.generation,
            published_at=newest.published_at.replace(tzinfo=None),
            made_at=made_at(self.folders, newest.generation),
            schema_version=SCHEMA_VERSION,
            firmlake_version=__version__,
            previous=base.delivery_id if base else "",
            base_generation=base.generation if base else None,
            mask=request.mask,
            incomplete=to_hand_on(read_incomplete(self.connection)),
        )
        also = (request.tables, request.file_bytes, request.company_list, before.delivery_id if before else "")
        digest = hashlib.sha256(msgspec.json.encode((record, also), order="sorted")).hexdigest()
        return msgspec.structs.replace(record, delivery_id=f"{run_id}-{mode}-{digest[:8]}")

    def put_tables(self, record: Record, scratch: Path, tell: Callable[[str], object]) -> Iterator[DeliveredTable]:
        """Put all tables that an earlier attempt has not put yet, and yield all of them."""
        mask, target = self.request.mask, self.target
        sources = select(self.connection, self.request.tables, record.mode, self.request.as_of)
        put_before = target.begin(record)
        key_file = key_path(self.request.privacy, self.folders)
        key = read_key(key_file, "privacy.key_file") if "hash" in mask.values() else b""
        no_room = Translation(
            (OSError, duckdb.IOException, duckdb.OutOfMemoryException),
            "Make room there, then run again",
            f"{{where}}: no temporary file can be written in {scratch}: {{reason}}",
        )
        for source in sources:
            name = source.table.name
            with translated(name, no_room):
                make_folder(scratch)
                table = target.put(record, mask_columns(source, mask, key))
            if name not in put_before:
                tell(f"{name}: {describe_rows(table, record.mode)}")
            elif target.logs_deliveries:
                tell(f"{name}: staged by an earlier attempt")
            yield table

    def remember(self, record: Record, at: datetime) -> bool:
        """Record the delivery, so that the next one compares with it and a forget finds it; return False if it cannot.

        A delivery of a list or of an earlier day keeps no generation, and does not replace the record of the newest.
        """
        if not is_writable(self.folders.state):
            return False
        last = LastExport(
            target=self.target.key,
            export_id=record.delivery_id,
            generation=record.generation if self.request.is_newest else 0,
            exported_at=at,
            address=self.target.address,
        )
        if self.request.is_newest or not export_record(self.folders, last.target).exists():
            record_export(self.folders, last)
        return True


def _newest(connection: duckdb.DuckDBPyConnection) -> Load:
    loads = read_loads(connection)
    if not loads:
        raise FirmlakeError("The warehouse holds no run yet", "Start one with `firmlake run LIST`")
    return loads[-1]
