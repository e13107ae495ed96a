"""Files as the target of exports: Parquet or CSV, or the files of Delta Lake and Iceberg, in a folder or bucket.

latest.json                                      the only file that is ever replaced
exports/<export>/<table>/country=BE/part-*.parquet
exports/<export>/manifest.json                   after all files
exports/<export>/_SUCCESS                        after the manifest

Parquet is split by country, and only the path names the country. It is written with pyarrow because DuckDB's COPY keeps
neither column comments nor NOT NULL, and needs named files that a kill would leave behind.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars import selectors

from firmlake.core.errors import DamagedError, FirmlakeError
from firmlake.core.files import encode_json
from firmlake.core.formulas import guard_texts
from firmlake.delivery.destination import Destination, StoredFile
from firmlake.delivery.record import DeliveredFile, DeliveredTable, Record, describe_table
from firmlake.delivery.selection import CHANGE, Source
from firmlake.warehouse.incomplete import COMPLETENESS, to_json

T = TypeVar("T")

_BATCH_ROWS = 122_880  # a row group of DuckDB, which its threads divide among them
_NUMBER = "company_number"


def write_rows(file: IO[bytes], rows: pa.RecordBatchReader, delimiter: str = ",") -> int:
    """Write rows as CSV, and return their number.

    It is UTF-8 with a byte order mark, without which spreadsheet programs read text in the code page of their country.
    Text and dates are in quotes, and null is an empty field. Programs that separate fields by semicolons use a decimal
    comma, so numbers then have one. Text and names that a spreadsheet would run as a formula are made harmless; other
    text is unchanged, except that NUL becomes U+FFFD.
    """
    count = 0
    for batch in chain([rows.schema.empty_table()], rows):
        frame = guard_texts(cast("pl.DataFrame", pl.from_arrow(batch))).with_columns(
            selectors.string().str.replace_all("\x00", "\ufffd", literal=True),
            selectors.datetime(time_zone="*").dt.to_string("%Y-%m-%d %H:%M:%S%.6fZ"),
        )
        frame.write_csv(
            file,
            include_bom=not file.tell(),
            include_header=not file.tell(),
            separator=delimiter,
            decimal_comma=delimiter == ";",
            quote_style="non_numeric",
        )
        count += frame.height
    return count


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
        scratch: Folder for unfinished files; by default, the system's. They have no name there, so that a kill leaves
            nothing behind.
        file_bytes: A Parquet file ends once it has this size.
        is_named: Whether `latest.json` will name the export.
    """

    next_step = "Export to another destination, or move that export away first"
    logs_deliveries = False
    address = ""

    def __init__(
        self,
        destination: Destination,
        scratch: Path | None = None,
        file_bytes: int = 128_000_000,
        *,
        is_named: bool = True,
    ) -> None:
        self._destination, self._is_named = destination, is_named
        self._scratch, self._file_bytes = scratch, file_bytes
        self.name = self.key = destination.url
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
            table = msgspec.structs.replace(table, changes=source.counts(CHANGE.name))
        if record.format in TABLE_FORMATS:
            from firmlake.delivery.lakes import LAKES

            row_count = sum(table.changes.values()) or source.row_count()
            table = msgspec.structs.replace(table, row_count=row_count)
            return LAKES[record.format](self._destination).commit(source, table, record)
        files = tuple((self._write_csv if record.format == "csv" else self._write_parquet)(record, source))
        return msgspec.structs.replace(table, files=files, row_count=sum(file.row_count for file in files))

    def publish(self, record: Record) -> bool:
        """Write the manifest and its mark of success, then let `latest.json` name the export.

        Returns whether anything was written; False if the same export was there already.
        """
        folder, content = folder_of(record.delivery_id), encode_json(record)
        if not self._complete:
            self._destination.put(f"{folder}/manifest.json", io.BytesIO(content))
            self._destination.put(f"{folder}/_SUCCESS", io.BytesIO())
        if not self._is_named or record.delivery_id == self._named_id:
            return not self._complete
        digest = hashlib.sha256(content).hexdigest()
        latest = Latest(record.delivery_id, f"{folder}/manifest.json", digest, record.published_at)
        if not self._destination.put_if(LATEST, encode_json(latest), self._latest):
            raise FirmlakeError(f"Another export has replaced {self.name}/{LATEST} in the meantime", "Run again")
        return True

    def _read_record(self, export_id: str) -> Record | None:
        folder = folder_of(export_id)
        manifest = self._destination.read(f"{folder}/_SUCCESS") and self._destination.read(f"{folder}/manifest.json")
        return _decode(f"{self.name}/{folder}/manifest.json", manifest.content, Record) if manifest else None

    def _write_parquet(self, record: Record, source: Source) -> Iterator[DeliveredFile]:
        """Write Parquet, compressed with zstd; split by country if the rows have one.

        A table without rows becomes one empty file, so that readers of its folder find the columns.
        """
        name, countries = source.table.name, source.counts("country") if source.has_country else {}
        for country in countries:
            part = source.of_country(country)
            yield from self._write_parts(record, part, f"{name}/country={country}", country)
        if not countries:
            yield from self._write_parts(record, source, name)

    def _write_parts(self, record: Record, source: Source, folder: str, country: str = "") -> Iterator[DeliveredFile]:
        rows, part = source.read(), 0
        schema = rows.schema.with_metadata({COMPLETENESS: to_json(record.incomplete)})
        groups = row_groups(rows)
        group = next(groups, None)
        while group or part == 0:
            part, count = part + 1, 0
            with tempfile.TemporaryFile(dir=self._scratch) as file:
                with _parquet_writer(file, schema, source.table.key, group.num_rows if group else 1) as writer:
                    while group and file.tell() < self._file_bytes:
                        writer.write_table(group)
                        count += group.num_rows
                        group = None  # memory for the next one
                        group = next(groups, None)
                yield self._put_file(record, file, f"{folder}/part-{part:05}.parquet", count, country)

    def _write_csv(self, record: Record, source: Source) -> Iterator[DeliveredFile]:
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            count = write_rows(file, source.read())
            yield self._put_file(record, file, f"{source.table.name}.csv", count)

    def _put_file(self, record: Record, file: IO[bytes], path: str, row_count: int, country: str = "") -> DeliveredFile:
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        size = file.tell()
        file.seek(0)
        self._destination.put(f"{folder_of(record.delivery_id)}/{path}", file)
        return DeliveredFile(path, row_count, size, sha256, country)


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


def _parquet_writer(file: IO[bytes], schema: pa.Schema, key: tuple[str, ...], row_count: int) -> pq.ParquetWriter:
    """Open a writer that declares the order of the rows, and writes Bloom filters of other numbers of companies.

    A reader that looks for a company skips the other row groups by their ranges. Numbers of lookalikes and related
    companies are in no order: with filters, DuckDB finds one of 1.2 million in 8 ms of CPU time instead of 50.
    """
    unordered_numbers = [name for name in schema.names if name.endswith(_NUMBER) and name not in key]
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        sorting_columns=[pq.SortingColumn(schema.names.index(name)) for name in key] or None,
        bloom_filter_options={name: {"ndv": row_count, "fpp": 0.01} for name in unordered_numbers} or None,
    )
