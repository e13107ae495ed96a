"""Exporting: what leaves is what the warehouse holds, and no moment shows half of it."""

from __future__ import annotations

import shutil

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from firmlake.core.errors import FirmlakeError, LockHeldError, UsageError
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.files import folder_of
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from support import export, slow

from .conftest import RUNS
from .reading import check, exported_rows, follow, rows

ALL = tuple(WAREHOUSE_TABLES)
CHANGES = Request(mode="changes")


@pytest.fixture(scope="module")
def whole(lake, tmp_path_factory):
    """A whole export of every table, and its folder."""
    target = tmp_path_factory.mktemp("whole")
    done = export(lake, Request(tables=ALL), Folder(target))
    return target / folder_of(done.record.delivery_id), done.record


def is_apart(folder, table):
    """Whether the country stands in the path; a table without rows is one file."""
    return any((folder / table).glob("country=*"))


def by_duckdb(folder, table):
    rows = f"read_parquet('{folder}/{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    return duckdb.sql(f"FROM {rows}").to_arrow_table()


def by_polars(folder, table):
    return pl.read_parquet(folder / table / "**/*.parquet", hive_partitioning=is_apart(folder, table)).to_arrow()


def by_pyarrow(folder, table):
    return ds.dataset(folder / table, partitioning="hive" if is_apart(folder, table) else None).to_table()


def texts(connection, source, table):
    """Every value as DuckDB writes it, so that a decimal is compared digit by digit."""
    casts = {"timestamp": "::TIMESTAMP", "boolean": "::BOOLEAN"}
    values = [f"{column.name}{casts.get(column.type, '')}::VARCHAR" for column in WAREHOUSE_TABLES[table].columns]
    return connection.execute(f"SELECT {', '.join(values)} FROM {source} ORDER BY ALL").fetchall()


@pytest.mark.parametrize("read", [by_duckdb, *slow(by_polars, by_pyarrow)])
def test_a_reader_finds_what_the_warehouse_holds(lake, whole, read):
    """Every table, row and column, exact amounts included."""
    folder, manifest = whole
    with duckdb.connect() as connection, open_warehouse(lake) as warehouse:
        connection.execute("SET TimeZone = 'UTC'")
        for table in manifest.tables:
            found = read(folder, table.name)
            connection.register("found", found)
            expected = texts(warehouse, table.name, table.name)
            assert texts(connection, "found", table.name) == expected, table.name
            assert len(expected) == table.row_count
    kind = read(folder, "financials").schema.field("revenue").type
    assert (pa.types.is_decimal(kind), kind.scale) == (True, 2)


def test_parquet_files_are_plain_and_say_what_they_hold(whole):
    folder, _ = whole
    for path in folder.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        group = file.metadata.row_group(0) if file.metadata.num_row_groups else None
        assert group is None or group.column(0).compression == "ZSTD"
        for field in file.schema_arrow:
            assert field.name == field.name.lower()
            assert field.metadata[b"comment"]
            assert not pa.types.is_nested(field.type)
            assert not pa.types.is_timestamp(field.type) or field.type == pa.timestamp("us", "UTC")
    inside = pq.ParquetFile(next((folder / "financials/country=BE").iterdir())).schema_arrow
    assert "country" not in inside.names
    assert inside.field("revenue").type == pa.decimal128(18, 2)


def test_the_manifest_states_every_file(whole):
    check(*whole)


def test_as_of_a_run_is_what_the_warehouse_held_then(lake, tmp_path):
    done = export(lake, Request(mode="as_of", as_of=RUNS[0]), Folder(tmp_path))
    folder = tmp_path / folder_of(done.record.delivery_id)
    for table in ("companies", "financials", "lookalikes", "relationships", "company_state"):
        with open_warehouse(lake) as connection:
            expected = rows(connection, f"{table}_as_of('{RUNS[0]}')")
        assert exported_rows(folder, table) == expected, table
    assert [row[0] for row in duckdb.sql(f"SELECT run_id FROM '{folder}/runs/*.parquet'").fetchall()] == [RUNS[0]]
    assert not (tmp_path / "latest.json").exists()
    assert {table.name: table.key for table in done.record.tables}["relationships"] == ()


@pytest.mark.slow
def test_an_export_of_changes_counts_them_by_kind_and_names_the_export_before(weeks, tmp_path):
    target = Folder(tmp_path / "out")
    first = export(weeks(1), CHANGES, target)
    assert (first.record.mode, first.note) == ("whole", "nothing was delivered before")
    done = export(weeks(2), CHANGES, target)
    changed = {table.name: table.changes for table in done.record.tables}
    assert changed["financials"] == {"delete": 1, "insert": 1, "update": 1}  # 2024 moved down by one
    assert changed["relationships"] == {"delete": 2}
    assert follow(tmp_path / "out")[1].previous == first.record.delivery_id


def test_an_export_that_came_between_is_not_overwritten(lake, tmp_path):
    elsewhere, target = Folders(tmp_path / "elsewhere"), tmp_path / "out"
    shutil.copytree(lake.warehouse, elsewhere.warehouse, symlinks=True)

    class Slow(Folder):
        def put_if(self, path, content, known):
            export(elsewhere, Request(tables=("companies",)), Folder(target))
            return super().put_if(path, content, known)

    with pytest.raises(FirmlakeError, match="Another export has replaced"):
        export(lake, Request(tables=("runs",)), Slow(target))
    assert [table.name for table in follow(target)[1].tables] == ["companies"]


def test_two_exports_to_one_place_at_once_do_not_clear_each_others_files(lake, tmp_path):
    class Slow(Folder):
        def put(self, path, file):
            with pytest.raises(LockHeldError, match=f"an export to {tmp_path}, process"):
                export(lake, Request(tables=("companies",)), Folder(tmp_path))
            super().put(path, file)

    done = export(lake, Request(tables=("companies",)), Slow(tmp_path))
    assert follow(tmp_path)[1] == done.record


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"tables": ("companys",)}, "no table companys"),
        ({"mode": "as_of", "as_of": "2020"}, "no run 2020"),
        ({"mode": "as_of", "as_of": RUNS[0], "tables": ("financials_history",)}, "superseded"),
        ({"mode": "as_of", "as_of": RUNS[0], "format": "delta"}, "keep their own history"),
        ({"company_list": "a", "format": "iceberg"}, "those of one list would replace them"),
    ],
)
def test_what_there_is_not_is_refused(lake, tmp_path, wanted, words):
    with pytest.raises(UsageError, match=words):
        export(lake, Request(**wanted), Folder(tmp_path))
    assert follow(tmp_path) is None


def test_nothing_published_is_told(folders, tmp_path):
    with pytest.raises(FirmlakeError, match="does not exist yet"):
        export(folders, Request(), Folder(tmp_path))
