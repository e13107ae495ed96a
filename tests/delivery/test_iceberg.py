"""Iceberg: the columns of its tables, and a catalog of the user's own with tables in S3, where others read them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import httpx
import polars as pl
import pyarrow.parquet as pq
import pytest

from firmlake.core.errors import FirmlakeError, UsageError
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder, open_destination
from firmlake.delivery.lakes import CATALOG
from firmlake.tables.schemas import WAREHOUSE_TABLES
from support import export, query

from .conftest import add_week
from .endpoint import Endpoint

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

pytestmark = [
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
    pytest.mark.filterwarnings("ignore:.*polars_iceberg"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TABLES = ("financials", "runs", "drift")
COLUMNS = ("country", "company_number", "start_date", "revenue")
AMOUNTS = f"SELECT {', '.join(COLUMNS)} FROM financials ORDER BY ALL"


def open_table(out: Path, name: str) -> Any:
    return load_catalog(CATALOG, type="sql", uri=f"sqlite:///{out}/iceberg/catalog.db").load_table(f"{CATALOG}.{name}")


def amounts(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Describe the catalog in the environment, as pyiceberg reads it."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def configure(**properties: str) -> None:
        for name, value in properties.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__FIRMLAKE__{name.upper()}", value)

    return configure


@pytest.mark.slow
def test_columns_keep_their_types_and_the_key(lake, tmp_path):
    export(lake, Request(format="iceberg", tables=TABLES), Folder(tmp_path))
    schema, table = open_table(tmp_path, "financials").schema(), WAREHOUSE_TABLES["financials"]
    assert {field.name for field in schema.fields if field.required} == {c.name for c in table.columns if not c.null}
    assert schema.identifier_field_names() == set(table.key)
    assert str(schema.find_field("revenue").field_type) == "decimal(18, 2)"


@pytest.mark.slow
def test_exports_reach_the_catalog_of_the_configuration_and_three_readers_find_them(
    configured, bucket, s3, tmp_path, monkeypatch
):
    configured(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=bucket.replace("/prefix", "/warehouse"))
    configured(s3__endpoint=s3, s3__access_key_id="key", s3__secret_access_key="secret", s3__region="us-east-1")
    create, created = SqlCatalog.create_namespace, list[object]()
    monkeypatch.setattr(SqlCatalog, "create_namespace", lambda *them: (created.append(them[1]), create(*them)))
    folders, held = Folders(tmp_path / "data"), []
    for week in range(3):
        add_week(folders, week)
        request = Request(format="iceberg", tables=TABLES, mode="changes" if week == 2 else "whole")
        done = export(folders, request, open_destination(bucket))
        held.append((done.record, query(folders, AMOUNTS)))
    assert len(created) == 1  # creating it takes a right that later exports do not need

    catalog = load_catalog(CATALOG, **Config().get_catalog_config(CATALOG))
    financials = catalog.load_table("firmlake.financials")
    assert financials.location().startswith("s3://")
    for manifest, expected in held[:2]:
        assert amounts(financials.scan(snapshot_id=manifest.tables[0].iceberg_snapshot).to_arrow()) == expected
    assert amounts(pl.scan_iceberg(financials).collect().to_arrow()) == held[1][1]
    paths = [task.file.file_path.removeprefix("s3://") for task in financials.scan().plan_files()]
    files = [pq.read_table(io.BytesIO(httpx.get(f"{s3}/{path}", trust_env=False).content)) for path in paths]
    rows = [row for file in files for row in duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM file").fetchall()]
    assert sorted(rows) == held[1][1]
    changes = catalog.load_table("firmlake.financials_changes").scan().to_arrow()
    assert sorted(changes["change_type"].to_pylist()) == ["delete", "insert", "update"]


@pytest.mark.slow
def test_a_catalog_that_refuses_the_token_is_told_without_it(configured, bucket, lake):
    refusal = {"error": {"message": "Not authorized", "type": "NotAuthorizedException", "code": 401}}
    endpoint = Endpoint(lambda *_: (401, {}, refusal))
    configured(uri=f"http://127.0.0.1:{endpoint.port}", token="planted-other")
    with pytest.raises(FirmlakeError, match="Check the catalog") as caught:
        export(lake, Request(format="iceberg", tables=TABLES), open_destination(bucket))
    endpoint.close()
    assert "planted-other" not in str(caught.value)


@pytest.mark.usefixtures("configured")
@pytest.mark.slow
def test_an_object_store_without_a_catalog_is_refused_with_the_way_to_name_one(lake, bucket):
    with pytest.raises(UsageError, match="PYICEBERG_CATALOG__FIRMLAKE__URI"):
        export(lake, Request(format="iceberg", tables=TABLES), open_destination(bucket))
