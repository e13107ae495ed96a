"""Iceberg: a snapshot for each export, none twice, and earlier ones as the warehouse was then."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request, export
from firmlake.delivery.destination import Folder
from firmlake.delivery.iceberg import CATALOG
from firmlake.tables.schemas import WAREHOUSE_TABLES
from support import query

from .conftest import add_week

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog

pytestmark = [
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore:.*polars_iceberg"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TABLES = ("financials", "runs", "drift")
COLUMNS = ("country", "company_number", "start_date", "revenue")
AMOUNTS = f"SELECT {', '.join(COLUMNS)} FROM financials ORDER BY ALL"


def open_table(out, name):
    return load_catalog(CATALOG, type="sql", uri=f"sqlite:///{out}/iceberg/catalog.db").load_table(f"{CATALOG}.{name}")


def amounts(rows):
    return sorted(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))


@pytest.fixture
def three(tmp_path):
    """Three weekly exports: two whole, then the changes."""
    folders, out, held = Folders(tmp_path / "data"), tmp_path / "out", []
    for week in range(3):
        add_week(folders, week)
        request = Request(format="iceberg", tables=TABLES, mode="changes" if week == 2 else "whole")
        done = export(folders, request, Folder(out))
        assert export(folders, request, Folder(out)).record == done.record
        held.append((done.record, query(folders, AMOUNTS)))
    return out, held


@pytest.mark.slow
def test_each_export_is_a_snapshot_that_three_readers_read_and_the_past_stays(three):
    out, held = three
    financials = open_table(out, "financials")
    for manifest, expected in held[:2]:
        snapshot = manifest.tables[0].iceberg_snapshot
        assert amounts(financials.scan(snapshot_id=snapshot).to_arrow()) == expected
    assert amounts(pl.scan_iceberg(financials).collect().to_arrow()) == held[1][1]
    files = [task.file.file_path for task in financials.scan().plan_files()]
    rows = duckdb.execute(f"SELECT {', '.join(COLUMNS)} FROM read_parquet(?) ORDER BY ALL", [files]).fetchall()
    assert rows == held[1][1]
    manifest = held[2][0]
    changes = open_table(out, "financials_changes").scan().to_arrow()
    assert sorted(changes["change_type"].to_pylist()) == ["delete", "insert", "update"]
    assert manifest.tables[0].iceberg_table == f"{CATALOG}.financials_changes"


@pytest.mark.slow
def test_columns_keep_their_types_comments_and_key(three):
    schema, table = open_table(three[0], "financials").schema(), WAREHOUSE_TABLES["financials"]
    assert {field.name: field.doc for field in schema.fields} == {c.name: c.comment for c in table.columns}
    assert {field.name for field in schema.fields if field.required} == {c.name for c in table.columns if not c.null}
    assert schema.identifier_field_names() == set(table.key)
    assert str(schema.find_field("revenue").field_type) == "decimal(18, 2)"


def test_an_export_that_was_killed_after_its_commits_does_not_commit_again(lake, tmp_path):
    class DiesBeforeManifest(Folder):
        def put(self, path, file):
            raise KeyboardInterrupt

    request = Request(format="iceberg", tables=TABLES)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            export(lake, request, DiesBeforeManifest(tmp_path))
    export(lake, request, Folder(tmp_path))
    assert len(open_table(tmp_path, "financials").snapshots()) == 1
    assert amounts(open_table(tmp_path, "financials").scan().to_arrow()) == query(lake, AMOUNTS)


@pytest.mark.slow
def test_a_new_column_is_added_to_a_table_that_is_there(lake, tmp_path, monkeypatch):
    table = WAREHOUSE_TABLES["financials"]
    fewer = table._replace(columns=tuple(c for c in table.columns if c.name != "revenue"))
    with monkeypatch.context() as patched:
        patched.setattr("firmlake.delivery.selection.WAREHOUSE_TABLES", {"financials": fewer})
        export(lake, Request(format="iceberg", tables=("financials",)), Folder(tmp_path))
    export(lake, Request(format="iceberg", tables=("financials", "runs")), Folder(tmp_path / "more"))
    assert "revenue" not in open_table(tmp_path, "financials").schema().column_names
    monkeypatch.setattr("firmlake.delivery.iceberg._MOMENT", "firmlake.another")
    export(lake, Request(format="iceberg", tables=("financials", "runs")), Folder(tmp_path))
    assert amounts(open_table(tmp_path, "financials").scan().to_arrow()) == query(lake, AMOUNTS)


def test_an_object_store_without_a_catalog_is_refused_with_the_way_to_name_one(lake, bucket, monkeypatch, tmp_path):
    from firmlake.delivery.destination import open_destination

    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="PYICEBERG_CATALOG__FIRMLAKE__URI"):
        export(lake, Request(format="iceberg", tables=TABLES), open_destination(bucket))
