"""Files as the target of exports: Parquet or CSV, or the files of Delta Lake and Iceberg, in a folder or bucket.

latest.json                                      the only file that is ever replaced
exports/<export>/<table>/country=BE/part-*.parquet
exports/<export>/manifest.json                   after all files
exports/<export>/_SUCCESS                        after the manifest

Parquet is split by country, and only the path names the country. It is written with pyarrow because DuckDB's COPY keeps
neither column comments nor NOT NULL, and needs named files that a kill would leave behind. In CSV, text that a
spreadsheet would run as a formula is made harmless; numbers are unchanged. The character NUL, which neither databases
nor spreadsheets accept, becomes U+FFFD.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from firmlake.core.errors import DamagedError
from firmlake.core.files import encode_json
from firmlake.core.guard import HARMLESS, RISKY
from firmlake.delivery.destination import Destination, StoredFile
from firmlake.delivery.record import DeliveredFile, DeliveredTable, Record, describe_table
from firmlake.delivery.selection import CHANGE, Selected, arrow_schema
from firmlake.tables.schemas import Table
from firmlake.warehouse.incomplete import COMPLETENESS

T = TypeVar("T")

_UNKNOWN = "\ufffd"
_BATCH_ROWS = 122_880  # a row group of DuckDB, which its threads divide among them
_NUMBER = "company_number"
_READ_ROWS = 10_000  # DuckDB takes up to twice a batch while it fills it


class TableFile(NamedTuple):
    """A file, open at its start until the next one is asked for, and its number of rows.

    Attributes:
        path: Path below the export's folder.
        country: The country of all its rows; empty if they are mixed.
    """

    path: str
    file: IO[bytes]
    row_count: int
    country: str = ""


class Source(NamedTuple):
    """Selected rows and the connection that reads them.

    Attributes:
        scratch: Folder for unfinished files. They have no name there, so that a kill leaves nothing behind.
        file_bytes: Approximate size of a Parquet file.
        batch_rows: Rows written at once.
        completeness: JSON for the metadata of Parquet files: whether the generation is complete, and if not why.
    """

    connection: duckdb.DuckDBPyConnection
    selected: Selected
    scratch: Path
    file_bytes: int
    batch_rows: int = _BATCH_ROWS
    completeness: bytes = b"{}"

    @property
    def table(self) -> Table:
        """The table as it is exported."""
        return self.selected.table

    def batches(self, table: Table, where: str = "") -> Iterator[pa.RecordBatch]:
        """Read the rows in the order of their key, so that equal rows make equal files."""
        names = ", ".join(column.name for column in table.columns)
        order = ", ".join(self.table.key) or "ALL"
        query = f"SELECT {names} FROM ({self.selected.query}) {where} ORDER BY {order}"  # noqa: S608 - our own names
        schema = arrow_schema(table)
        # A loop would hold each batch while the next one is read.
        rows = min(self.batch_rows, _READ_ROWS)
        return map(methodcaller("cast", schema), self.connection.sql(query).to_arrow_reader(rows))

    def counts(self, by: str) -> list[tuple[str, int]]:
        """Count the rows for each value of a column."""
        query = f"SELECT {by}, count(*) FROM ({self.selected.query}) GROUP BY 1 ORDER BY 1"  # noqa: S608 - our names
        return self.connection.execute(query).fetchall()

    def row_count(self) -> int:
        """Count the rows."""
        return int(self.connection.execute(f"SELECT count(*) FROM ({self.selected.query})").fetchall()[0][0])  # noqa: S608

    def scratch_file(self) -> IO[bytes]:
        """Open a file without a name."""
        return tempfile.TemporaryFile(dir=self.scratch)


def write_parquet(source: Source) -> Iterator[TableFile]:
    """Write Parquet, compressed with zstd, in files of similar size; split by country if the rows have one.

    A table without rows becomes one empty file, so that readers of its folder find the columns.
    """
    counts = source.counts("country") if source.selected.has_country else []
    if not counts:
        yield from _parquet_files(source, source.table, "", "", None)
        return
    apart = source.table._replace(columns=tuple(c for c in source.table.columns if c.name != "country"))
    for country, count in counts:
        yield from _parquet_files(source, apart, f"WHERE country = '{country}'", country, count)


def write_csv(source: Source) -> Iterator[TableFile]:
    """Write one CSV file: UTF-8, text in quotes, null as an empty field, numbers plain."""
    count = 0
    with source.scratch_file() as file:
        with pyarrow.csv.CSVWriter(file, arrow_schema(source.table)) as writer:
            for batch in source.batches(source.table):
                writer.write_batch(guarded(batch))
                count += batch.num_rows
        file.seek(0)
        yield TableFile(f"{source.table.name}.csv", file, count)


def row_groups(batches: Iterable[pa.RecordBatch], rows: int = _BATCH_ROWS) -> Iterator[pa.Table]:
    """Gather batches into tables of at least `rows` rows; the last table may have fewer."""
    rest = iter(batches)

    def gather() -> list[pa.RecordBatch]:
        group: list[pa.RecordBatch] = []
        count = 0
        while count < rows and (batch := next(rest, None)):
            group.append(batch)
            count += batch.num_rows
        return group

    # A loop would hold each table while the next one is gathered.
    return map(pa.Table.from_batches, iter(gather, []))


FORMATS: dict[str, Callable[[Source], Iterator[TableFile]]] = {
    "parquet": write_parquet,
    "csv": write_csv,
}
TABLE_FORMATS = {"delta": "Delta Lake", "iceberg": "Iceberg"}
"""Formats that are tables with versions instead of files."""

LATEST = "latest.json"


class Latest(msgspec.Struct, frozen=True):
    """The newest whole export, and the hash of its manifest."""

    export_id: str
    manifest: str
    manifest_sha256: str
    published_at: datetime


class FileTarget:
    """A destination that holds exports. Readers follow `latest.json`, which always names a complete one.

    Args:
        destination: The folder or bucket.
        is_named: Whether `latest.json` will name the export.
    """

    next_step = "Export to another destination, or move that export away first"
    logs_deliveries = False

    def __init__(self, destination: Destination, *, is_named: bool = True) -> None:
        self._destination, self._is_named = destination, is_named
        self.name = self.key = destination.url
        self.address = ""
        self._latest: StoredFile | None = None
        self._named_id = ""
        self._complete: Record | None = None

    def held(self) -> Record | None:
        """Read the record of the export that `latest.json` names; None if there is none, or if it is gone."""
        self._latest = self._destination.read(LATEST)
        if self._latest is None:
            return None
        self._named_id = _decode(f"{self.name}/{LATEST}", self._latest.content, Latest).export_id
        return self._read_record(self._named_id)

    def choose_tables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tables to export: those asked for."""
        return names

    def differences(self, *_: object) -> Iterator[str]:
        """Yield nothing: files are checked by their checksums, by those who read them."""
        yield from ()

    def begin(self, record: Record) -> set[str]:
        """Return the names of the tables if the export is complete already; otherwise clear what a killed one left."""
        self._complete = self._read_record(record.delivery_id)
        if self._complete is None:
            self._destination.clear(folder_of(record.delivery_id))
        return {table.name for table in self._complete.tables} if self._complete else set()

    def put(self, record: Record, source: Source) -> DeliveredTable:
        """Write a table, unless the export is complete already."""
        table = describe_table(source.table)
        if self._complete:
            return next(each for each in self._complete.tables if each.name == table.name)
        if record.mode == "changes":
            table = msgspec.structs.replace(table, changes=dict(source.counts(CHANGE.name)))
        if record.format in TABLE_FORMATS:
            from firmlake.delivery.lakes import LAKES

            return LAKES[record.format](self._destination).commit(source, table, record)
        files = tuple(self._put_file(folder_of(record.delivery_id), file) for file in FORMATS[record.format](source))
        return msgspec.structs.replace(table, files=files, row_count=sum(file.row_count for file in files))

    def publish(self, record: Record) -> bool:
        """Write the manifest and its mark of success, then let `latest.json` name the export.

        Returns:
            Whether anything was written; False if the same export was there already.

        Raises:
            FirmlakeError: Another export has replaced `latest.json`.
        """
        folder = folder_of(record.delivery_id)
        if not self._complete:
            self._destination.put(f"{folder}/manifest.json", io.BytesIO(encode_json(record)))
            self._destination.put(f"{folder}/_SUCCESS", io.BytesIO())
        if not self._is_named or record.delivery_id == self._named_id:
            return not self._complete
        manifest = f"{folder}/manifest.json"
        digest = hashlib.sha256(encode_json(record)).hexdigest()
        latest = Latest(record.delivery_id, manifest, digest, record.published_at)
        self._destination.replace(LATEST, encode_json(latest), self._latest)
        return True

    def _read_record(self, export_id: str) -> Record | None:
        folder = folder_of(export_id)
        manifest = self._destination.read(f"{folder}/_SUCCESS") and self._destination.read(f"{folder}/manifest.json")
        return _decode(f"{self.name}/{folder}/manifest.json", manifest.content, Record) if manifest else None

    def _put_file(self, folder: str, written: TableFile) -> DeliveredFile:
        sha256 = hashlib.file_digest(written.file, "sha256").hexdigest()  # type: ignore[arg-type]
        size = written.file.tell()
        written.file.seek(0)
        self._destination.put(f"{folder}/{written.path}", written.file)
        return DeliveredFile(written.path, written.row_count, size, sha256, written.country)


def folder_of(export_id: str) -> str:
    """Return the folder of an export, below the destination."""
    return f"exports/{export_id}"


def _decode(where: str, content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(
            f"{where} cannot be read: {error}", "Export to another folder, or remove this file"
        ) from None


def _parquet_files(source: Source, table: Table, where: str, country: str, total: int | None) -> Iterator[TableFile]:
    folder = f"{table.name}/country={country}" if country else table.name
    written = part = 0
    groups = row_groups(source.batches(table, where), source.batch_rows)
    group = next(groups, None)
    while group or part == 0:
        part, count = part + 1, 0
        with source.scratch_file() as file:
            with _parquet_writer(file, table, group.num_rows if group else 1, source.completeness) as writer:
                while group:
                    writer.write_table(group)
                    count += group.num_rows
                    group = None  # memory for the next one
                    group = next(groups, None)
                    if _is_full(file.tell(), count, source.file_bytes, total and total - written - count):
                        break
            written += count
            file.seek(0)
            yield TableFile(f"{folder}/part-{part:05}.parquet", file, count, country)


def _parquet_writer(file: IO[bytes], table: Table, row_count: int, completeness: bytes) -> pq.ParquetWriter:
    """Open a writer that declares the order of the rows, and writes Bloom filters of other numbers of companies.

    A reader that looks for a company skips the other row groups by their ranges. Numbers of lookalikes and related
    companies are in no order: with filters, DuckDB finds one of 1.2 million in 8 ms of CPU time instead of 50.
    """
    names = [column.name for column in table.columns]
    schema = arrow_schema(table)
    schema = schema.with_metadata({**(schema.metadata or {}), COMPLETENESS: completeness})
    unordered_numbers = [name for name in names if name.endswith(_NUMBER) and name not in table.key]
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        sorting_columns=[pq.SortingColumn(names.index(name)) for name in table.key if name in names] or None,
        bloom_filter_options={name: {"ndv": row_count, "fpp": 0.01} for name in unordered_numbers} or None,
    )


def _is_full(size: int, count: int, wanted: int, rest: int | None) -> bool:
    """Return whether to start another file: this one is large enough, and the rest fills at least half a file."""
    return size >= wanted and (rest is None or size / count * rest >= wanted / 2)


def guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make all text of a batch harmless in a spreadsheet, as `firmlake.core.guard` does."""
    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type):
            is_harmless = pc.match_substring_regex(column, HARMLESS)
            risky = pc.and_not(pc.match_substring_regex(column, RISKY), is_harmless)
            column = pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
            column = pc.replace_substring(column, "\x00", _UNKNOWN)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
