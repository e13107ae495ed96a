"""The targets of deliveries, each read by somebody else: who follows `latest.json`, or asks the database.

A target has `deliver`, `assert_holds`, which compares every value that it holds with a data folder, and `seen`, which
shows what readers see.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from firmlake.core.folders import Folders
from firmlake.delivery.database import Database
from firmlake.delivery.deliver import Delivered, Request, deliver, open_target
from firmlake.delivery.destination import open_destination
from firmlake.delivery.files import FileTarget, folder_of
from firmlake.delivery.record import DeliveredTable, Record
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import newest
from support import DAY, NOON, attached, export, query

from .reading import rows

DATABASES = {"duckdb": "file", "postgres": "on_server", "snowflake": "in_snowflake", "bigquery": "in_bigquery"}
"""The fixture of each database."""

REAL = ("duckdb", "postgres")
"""Those that run here; the others are imitated."""

_COMMENTS = "SELECT comment FROM duckdb_columns() WHERE table_name = 'financials'"
_POSTGRES_COMMENTS = """
SELECT col_description('firmlake.financials'::regclass, ordinal_position::int)
FROM information_schema.columns WHERE table_name = 'financials' AND table_schema || '.' = 'firmlake.'"""

FILES = ("folder", "bucket", "container", "delta", "iceberg")
SLOW = {"bucket", "container", "delta", "iceberg", "postgres", "snowflake", "bigquery"}
"""What takes a server or a library of its own; a folder stands for files, and DuckDB for databases."""

FEW = ("companies", "financials", "lookalikes", "runs")
"""What deliveries of tests have, unless they say otherwise: one table of each kind that is delivered its own way."""

CANNOT = {
    "mask columns": set(DATABASES),
    "forget what earlier versions hold": {"delta", "iceberg"},
}
"""What some targets cannot do, or leave to somebody else; every other rule holds for each of them."""


def now() -> datetime:
    return NOON + 60 * DAY


class Loaded:
    """The schema of a database, and a way to ask it that is not ours."""

    target = Database

    def __init__(self, address: str, ask: Callable[[str], list[tuple[Any, ...]]], schema: str = "firmlake") -> None:
        self.address, self.ask, self.schema = address, ask, schema
        self.said: list[str] = []

    def request(self, mode: str = "changes", **options: Any) -> Request:
        return Request(mode=mode, target=self.address, schema=self.schema, **options)

    @contextmanager
    def open(self) -> Iterator[Database]:
        with open_target(self.request()) as target:
            yield target

    def deliver(
        self, folders: Folders, now: Callable[[], datetime] = now, tables: tuple[str, ...] = FEW, **options: Any
    ) -> Delivered:
        return deliver(folders, self.request(tables=tables, **options), self.said.append, now)

    def litter(self, _: Record) -> None:
        """Leave nothing: what a killed load has staged, the same load takes up again."""

    def assert_holds(self, folders: Folders, tables: tuple[str, ...] = FEW) -> None:
        for name in tables:
            columns = [c.name for c in WAREHOUSE_TABLES[name].columns if c.type != "timestamp"]
            moments = [c.name for c in WAREHOUSE_TABLES[name].columns if c.type == "timestamp"]
            ours = query(folders, f"SELECT {', '.join([*columns, *(f'epoch({m})' for m in moments)])} FROM {name}")
            theirs = [*columns, *(f"extract(epoch FROM {moment})::double precision" for moment in moments)]
            assert _texts(self.ask(f"SELECT {', '.join(theirs)} FROM firmlake.{name}")) == _texts(ours), name

    def comments(self) -> set[str]:
        """The comments on columns of financials."""
        query = _POSTGRES_COMMENTS if self.address.startswith("postgres") else _COMMENTS
        return {text for (text,) in self.ask(query)}

    def seen(self) -> list[tuple[Any, ...]]:
        return self.ask("SELECT company_number, start_date, revenue FROM firmlake.financials ORDER BY 1, 2")


class Exported:
    """A destination; changes are applied by their key."""

    target = FileTarget

    def __init__(self, address: str, scratch: Path, file_format: str) -> None:
        self.address, self.scratch, self.format = address, scratch, file_format
        self.destination = open_destination(address)
        self.states: dict[str, list[Any]] = {}
        self.appended: dict[str, Counter[Any]] = {}

    def deliver(
        self, folders: Folders, mode: str = "changes", tables: tuple[str, ...] = FEW, **options: Any
    ) -> Delivered:
        wanted = Request(mode=mode, format=self.format, tables=tables, **options)
        done = export(folders, wanted, self.destination, now=now)
        if self.format == "parquet":
            folder = folder_of(done.record.delivery_id)
            files = {file.path for table in done.record.tables for file in table.files}
            expected = {f"{folder}/{name}" for name in (*files, "manifest.json", "_SUCCESS")}
            assert self.destination.sizes(folder).keys() == expected
        for table in done.record.tables if done.is_new and not done.record.mask else ():
            delivered = self.read(done.record, table)
            changes = done.record.mode == "changes"
            self.states[table.name] = _applied(self.states[table.name], delivered, table.name) if changes else delivered
        return done

    def litter(self, record: Record) -> None:
        """Leave a file, as a killed export may have, which its successor does not write."""
        self.destination.put(f"{folder_of(record.delivery_id)}/lookalikes/part-00099.parquet", io.BytesIO(b"half"))

    def assert_holds(self, folders: Folders, tables: tuple[str, ...] = FEW) -> None:
        assert set(self.states) == set(tables)
        with attached(newest(folders)) as cursor:
            for name, state in self.states.items():
                assert state == rows(cursor, name), name

    def comments(self) -> set[str]:
        """The comments on columns of financials in Iceberg."""
        return {field.doc for field in self._iceberg("firmlake.financials").schema().fields}

    def seen(self) -> bytes | None:
        latest = self.destination.read("latest.json")
        return latest and latest.content

    def read(self, record: Record, table: DeliveredTable) -> list[Any]:
        """The rows that a delivery wrote, in the order of `reading.rows`; changes of Delta Lake and Iceberg append."""
        with attached() as cursor:
            if self.format == "parquet":
                return rows(cursor, self._files(record, table))
            cursor.register("delivered", self._arrow(table))
            found = rows(cursor, "delivered")
        if record.mode == "whole":
            return found
        before = self.appended.get(table.name, Counter())
        self.appended[table.name] = Counter(found)
        return list((self.appended[table.name] - before).elements())

    def _files(self, record: Record, table: DeliveredTable) -> str:
        folder = self.scratch / record.delivery_id
        for file in table.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            found = self.destination.read(f"{folder_of(record.delivery_id)}/{file.path}")
            assert found
            path.write_bytes(found.content)
        everything = f"{folder}/{table.name}/**/*.parquet"
        return f"read_parquet('{everything}', hive_partitioning = true, hive_types_autocast = false)"

    def _arrow(self, table: DeliveredTable) -> pa.Table:
        if self.format == "delta":
            from deltalake import DeltaTable

            path = f"{self.address}/{table.delta_path}"
            return DeltaTable(path, version=table.delta_version).to_pyarrow_dataset().to_table()
        return self._iceberg(table.iceberg_table).scan(snapshot_id=table.iceberg_snapshot).to_arrow()

    def _iceberg(self, name: str) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("firmlake", type="sql", uri=f"sqlite:///{self.address}/iceberg/catalog.db").load_table(name)


def _applied(state: list[Any], delivered: list[Any], table: str) -> list[Any]:
    """Apply changes as a reader would: by key, deletes and updates away, inserts and updates in."""
    names = sorted(column.name for column in WAREHOUSE_TABLES[table].columns)
    place = sorted([*names, "change_type"]).index("change_type")
    key = [names.index(name) for name in WAREHOUSE_TABLES[table].key]
    by_key = {tuple(row[n] for n in key): row for row in state}
    assert len(by_key) == len(state)
    for change in delivered:
        kind, row = change[place], change[:place] + change[place + 1 :]
        name = tuple(row[n] for n in key)
        assert (name in by_key) == (kind != "insert")
        if kind == "delete":
            assert by_key.pop(name) == row
        else:
            by_key[name] = row
    return sorted(by_key.values(), key=lambda row: [(value is None, value) for value in row])


def _texts(found: list[tuple[Any, ...]]) -> list[tuple[str | None, ...]]:
    return sorted((tuple(str(cell) if cell is not None else None for cell in row) for row in found), key=repr)
