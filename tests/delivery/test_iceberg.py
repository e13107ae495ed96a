"""Iceberg: a snapshot for each export, none twice, and earlier ones as the warehouse was then."""

from __future__ import annotations

import pytest

from firmlake.core.errors import UsageError
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.lakes import CATALOG
from firmlake.tables.schemas import WAREHOUSE_TABLES
from support import export, query

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


@pytest.mark.slow
def test_columns_keep_their_types_comments_and_key(lake, tmp_path):
    export(lake, Request(format="iceberg", tables=TABLES), Folder(tmp_path))
    schema, table = open_table(tmp_path, "financials").schema(), WAREHOUSE_TABLES["financials"]
    assert {field.name: field.doc for field in schema.fields} == {c.name: c.comment for c in table.columns}
    assert {field.name for field in schema.fields if field.required} == {c.name for c in table.columns if not c.null}
    assert schema.identifier_field_names() == set(table.key)
    assert str(schema.find_field("revenue").field_type) == "decimal(18, 2)"


@pytest.mark.slow
def test_a_new_column_is_added_to_a_table_that_is_there(lake, tmp_path, monkeypatch):
    table = WAREHOUSE_TABLES["financials"]
    fewer = table._replace(columns=tuple(c for c in table.columns if c.name != "revenue"))
    with monkeypatch.context() as patched:
        patched.setattr("firmlake.delivery.selection.WAREHOUSE_TABLES", {"financials": fewer})
        export(lake, Request(format="iceberg", tables=("financials",)), Folder(tmp_path))
    export(lake, Request(format="iceberg", tables=("financials", "runs")), Folder(tmp_path / "more"))
    assert "revenue" not in open_table(tmp_path, "financials").schema().column_names
    export(lake, Request(format="iceberg", tables=("financials", "runs")), Folder(tmp_path))
    assert amounts(open_table(tmp_path, "financials").scan().to_arrow()) == query(lake, AMOUNTS)


def test_an_object_store_without_a_catalog_is_refused_with_the_way_to_name_one(lake, bucket, monkeypatch, tmp_path):
    from firmlake.delivery.destination import open_destination

    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="PYICEBERG_CATALOG__FIRMLAKE__URI"):
        export(lake, Request(format="iceberg", tables=TABLES), open_destination(bucket))
