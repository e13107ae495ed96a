"""What every target of deliveries keeps to: folder, bucket, Delta Lake, Iceberg and databases."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.delivery.database import Database
from firmlake.delivery.deliver import Delivered, Request, deliver
from firmlake.delivery.destination import open_destination
from firmlake.delivery.files import FileTarget, folder_of
from firmlake.delivery.selection import EXPORTED_TABLES
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import list_generations, newest
from support import ACME, attached, export, slow

from .reading import rows, warehouse_rows
from .test_load import assert_same, now

pytestmark = [
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Loaded:
    """A database, read by a client that is not ours."""

    target = Database

    def __init__(self, place):
        self.place = place
        self.said: list[str] = []

    def deliver(self, folders, **options) -> Delivered:
        return deliver(folders, self.place.request(**options), self.said.append, now)

    def assert_holds(self, folders):
        assert_same(folders, self.place)

    def seen(self):
        return self.place.ask("SELECT company_number, start_date, revenue FROM firmlake.financials ORDER BY 1, 2")


class Exported:
    """A destination, read by somebody who follows `latest.json` and applies changes by key."""

    target = FileTarget

    def __init__(self, address: str, scratch: Path, file_format: str) -> None:
        self.address, self.scratch, self.format = address, scratch, file_format
        self.destination = open_destination(address)
        self.states: dict[str, list[Any]] = {}
        self.appended: dict[str, Counter] = {}

    def deliver(self, folders, mode: str = "changes", **options) -> Delivered:
        done = export(folders, Request(mode=mode, format=self.format, **options), self.destination, now=now)
        for table in done.record.tables if done.is_new and not done.record.mask else ():
            delivered = self.read(done.record, table)
            changes = done.record.mode == "changes"
            self.states[table.name] = applied(self.states[table.name], delivered, table.name) if changes else delivered
        return done

    def assert_holds(self, folders):
        assert set(self.states) == set(EXPORTED_TABLES)
        with attached(newest(folders)) as cursor:
            for name, state in self.states.items():
                assert state == rows(cursor, name), name

    def seen(self):
        latest = self.destination.read("latest.json")
        return latest and latest.content

    def read(self, record, table) -> list[Any]:
        """The rows that a delivery wrote, in the order of `reading.rows`; changes of Delta Lake and Iceberg append."""
        with attached() as cursor:
            if self.format == "parquet":
                return rows(cursor, self.files(record, table))
            cursor.register("delivered", self.arrow(table))
            found = rows(cursor, "delivered")
        if record.mode == "whole":
            return found
        before = self.appended.get(table.name, Counter())
        self.appended[table.name] = Counter(found)
        return list((self.appended[table.name] - before).elements())

    def files(self, record, table) -> str:
        folder = self.scratch / record.delivery_id
        for file in table.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.destination.read(f"{folder_of(record.delivery_id)}/{file.path}").content)
        everything = f"{folder}/{table.name}/**/*.parquet"
        return f"read_parquet('{everything}', hive_partitioning = true, hive_types_autocast = false)"

    def arrow(self, table):
        if self.format == "delta":
            from deltalake import DeltaTable

            path = f"{self.address}/{table.delta_path}"
            return DeltaTable(path, version=table.delta_version).to_pyarrow_dataset().to_table()
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("firmlake", type="sql", uri=f"sqlite:///{self.address}/iceberg/catalog.db")
        return catalog.load_table(table.iceberg_table).scan(snapshot_id=table.iceberg_snapshot).to_arrow()


def applied(state, delivered, table):
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


FILES = ["folder", "bucket", "delta", *slow("container", "iceberg")]
DATABASES = {
    "duckdb": "place_in_file",
    "postgres": "place_on_server",
    "snowflake": "place_in_snowflake",
    "bigquery": "place_in_bigquery",
}
LOADED = ["duckdb", *slow(*list(DATABASES)[1:])]


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Loaded | Exported:
    kind = request.param
    if kind in DATABASES:
        return Loaded(request.getfixturevalue(DATABASES[kind]))
    # Names of buckets are those of folders of tests, which are used again.
    is_store = kind in ("bucket", "container")
    address = f"{request.getfixturevalue(kind)}/{uuid4().hex}" if is_store else str(tmp_path / "out")
    if kind in ("delta", "iceberg"):
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[kind])
    return Exported(address, tmp_path / "read", kind if kind in ("delta", "iceberg") else "parquet")


every_target = pytest.mark.parametrize("target", [*FILES, *LOADED], indirect=True)


@every_target
def test_the_first_delivery_is_whole_later_ones_are_changes_and_a_repeated_one_writes_nothing(weeks, target):
    for week, mode in enumerate(("whole", "changes", "changes")):
        folders = weeks(week)
        done = target.deliver(folders)
        assert (done.is_new, done.record.mode) == (True, mode)
        assert done.record.row_counts.keys() == set(EXPORTED_TABLES)
        target.assert_holds(folders)
        seen = target.seen()
        again = target.deliver(folders)
        assert (again.is_new, again.record.delivery_id) == (False, done.record.delivery_id)
        assert target.seen() == seen
        target.assert_holds(folders)


@every_target
@pytest.mark.parametrize("killed_at", ["put", "publish"])
@pytest.mark.parametrize("week", [*slow(0), 1])
def test_a_killed_delivery_shows_what_was_there_and_the_next_one_completes_it(
    weeks, target, monkeypatch, killed_at, week
):
    if week:
        target.deliver(weeks(0))
    seen = target.seen() if week else None
    folders, carry_out = weeks(week), getattr(target.target, killed_at)

    def die(self, record, *source):
        if source and source[0].table.name != "lookalikes":
            return carry_out(self, record, *source)
        raise KeyboardInterrupt

    monkeypatch.setattr(target.target, killed_at, die)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            target.deliver(folders)
        assert not week or target.seen() == seen
    monkeypatch.setattr(target.target, killed_at, carry_out)
    assert target.deliver(folders).is_new
    target.assert_holds(folders)
    assert isinstance(target, Exported) or "companies: staged by an earlier attempt" in target.said
    assert not target.deliver(folders).is_new


@every_target
def test_rows_come_whole_if_the_generation_before_is_gone(weeks, target):
    target.deliver(weeks(0))
    folders = weeks(1)
    list_generations(folders)[0].unlink()
    done = target.deliver(folders)
    assert (done.record.mode, done.note) == ("whole", "generation 1, which was delivered last, is no longer kept")
    target.assert_holds(folders)


@pytest.mark.parametrize("target", ["folder", "bucket", *LOADED], indirect=True)
@pytest.mark.parametrize("week", [0, 1])
def test_what_was_taken_out_of_rebuilt_generations_leaves_the_target_too(weeks, target, week):
    target.deliver(weeks(0))
    folders = weeks(week)
    for path in list_generations(folders):
        path.chmod(0o600)
        with duckdb.connect(str(path)) as generation:
            generation.execute(f"DELETE FROM lookalikes_versions WHERE company_number = '{ACME.company_number}'")
    done = target.deliver(folders)
    assert (done.is_new, done.record.mode, "was rebuilt" in done.note) == (True, "whole", True)
    target.assert_holds(folders)


@every_target
def test_other_tables_than_those_delivered_last_come_whole(weeks, target):
    target.deliver(weeks(0), tables=("companies",))
    folders = weeks(1)
    done = target.deliver(folders)
    assert (done.record.mode, done.note) == ("whole", "the last delivery had other tables")
    target.assert_holds(folders)


@every_target
def test_what_another_data_folder_delivered_is_not_replaced(weeks, target, other):
    folders = weeks(0)
    target.deliver(folders)
    seen = target.seen()
    for mode in ("changes", "whole"):
        with pytest.raises(FirmlakeError, match="another data folder") as caught:
            target.deliver(other, mode=mode)
        assert caught.value.next_step
    assert target.seen() == seen
    assert not target.deliver(folders).is_new


@every_target
def test_a_target_never_goes_back_in_time(weeks, target, tmp_path):
    older = type(weeks(0))(tmp_path / "older")
    shutil.copytree(tmp_path / "data", older.data, symlinks=True)
    target.deliver(weeks(1))
    seen = target.seen()
    with pytest.raises(FirmlakeError, match="a later copy of this one"):
        target.deliver(older)
    assert target.seen() == seen


@pytest.mark.parametrize("target", FILES, indirect=True)
def test_masked_columns_do_not_leave_and_another_mask_comes_whole(weeks, target):
    target.deliver(weeks(0))
    folders, mask = weeks(0), {"companies.name": "drop", "*.company_number": "hash"}
    done = target.deliver(folders, mask=mask)
    assert (done.record.mode, done.note) == ("whole", "the last delivery had another mask")
    [companies] = [table for table in done.record.tables if table.name == "companies"]
    assert "name" not in {column.name for column in companies.columns}
    found = target.read(done.record, companies)
    assert len(found) == len(warehouse_rows(folders, "companies"))
    assert not any(ACME.company_number in row for row in found)
    assert not target.deliver(folders, mask=mask).is_new
