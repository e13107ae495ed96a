"""Scripts that load an export: each parses in its dialect."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from firmlake.core.errors import UsageError
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.record import Record
from firmlake.delivery.scripts import render_ddl
from support import export

URLS = {"snowflake": "s3://b/p", "bigquery": "gs://b/p", "redshift": "s3://b/p", "databricks": "s3://b/p"}
MONEY = {"bigquery": "NUMERIC(18, 2)"}
TIMES = {"redshift": "TIMESTAMP", "bigquery": "TIMESTAMP", "databricks": "TIMESTAMP"}
TEXT = {"redshift": "VARCHAR(MAX)", "bigquery": "STRING", "databricks": "STRING"}


@pytest.fixture(scope="module")
def manifests(lake, tmp_path_factory) -> dict[str, Record]:
    """An export in a format that warehouses load, and one that they do not."""
    target = Folder(tmp_path_factory.mktemp("out"))
    tables = ("financials", "runs", "drift")
    return {name: export(lake, Request(format=name, tables=tables), target).record for name in ("parquet", "csv")}


@pytest.fixture(params=URLS)
def script(request, manifests):
    """A dialect, its script, and the manifest it was made from."""
    manifest = manifests["parquet"]
    return request.param, render_ddl(manifest, URLS[request.param], request.param), manifest


def creates(dialect, text):
    """The CREATE TABLE statements, read back by the dialect."""
    parts = [part for part in text.split("\n\n") if part.startswith("CREATE TABLE")]
    return {create.find(exp.Table).name: create for create in (sqlglot.parse_one(part, dialect) for part in parts)}


def test_types_nulls_and_names_are_read_back(script):
    dialect, text, manifest = script
    for table in manifest.tables:
        columns = creates(dialect, text)[table.name].find_all(exp.ColumnDef)
        found = {c.name: (c.kind.sql(dialect), bool(c.find(exp.NotNullColumnConstraint))) for c in columns}
        assert list(found) == [column.name for column in table.columns]
        for column in table.columns:
            is_nullable = column.nullable or (dialect == "bigquery" and column.name == "country")
            assert found[column.name][1] is not is_nullable, column
        if table.name == "financials":
            assert found["revenue"][0] == MONEY.get(dialect, "DECIMAL(18, 2)")
            assert found["fetched_at"][0] == TIMES.get(dialect, "TIMESTAMPTZ")
            assert found["company_number"][0] == TEXT.get(dialect, "VARCHAR")


def test_every_comment_is_there_word_for_word(script):
    dialect, text, manifest = script
    statements = [sqlglot.parse_one(part.rstrip(";"), dialect) for part in text.split("\n\n") if "COMMENT ON" in part]
    said = {
        literal.this
        for each in [*statements, *creates(dialect, text).values()]
        for literal in each.find_all(exp.Literal)
    }
    for table in manifest.tables:
        assert {column.comment for column in table.columns} <= said
        assert any(each.startswith(table.meaning) for each in said)


def test_every_file_or_its_folder_is_loaded_and_nothing_of_an_empty_table_is_missed(script):
    dialect, text, manifest = script
    folder = f"exports/{manifest.delivery_id}"
    for table in manifest.tables:
        assert f"{folder}/{table.name}" in text
    if dialect == "redshift":
        for country in ("BE", "NL", "FR"):
            assert f"'s3://b/p/{folder}/financials/country={country}/'" in text
            assert f"SELECT '{country}', " in text
    else:
        assert (
            "country" in text.partition("COPY INTO")[2] + text.partition("LOAD DATA")[2] + text.partition("INSERT")[2]
        )


def test_a_warehouse_is_not_told_to_load_what_it_cannot(manifests):
    with pytest.raises(UsageError, match="redshift cannot load from gs://b"):
        render_ddl(manifests["parquet"], "gs://b", "redshift")
    with pytest.raises(UsageError, match="redshift loads parquet, not csv"):
        render_ddl(manifests["csv"], "s3://b", "redshift")


@pytest.mark.parametrize(
    ("dialect", "url", "expected"),
    [
        ("snowflake", "s3://b/p", "s3://b/p"),
        ("snowflake", "gs://b/p", "gcs://b/p"),
        ("snowflake", "az://box/p", "azure://lake.blob.core.windows.net/box/p"),
        ("snowflake", "abfss://box@ours.dfs.core.windows.net/p", "azure://ours.blob.core.windows.net/box/p"),
        ("databricks", "az://box/p", "abfss://box@lake.dfs.core.windows.net/p"),
        ("databricks", "abfss://box@ours.dfs.core.windows.net/p", "abfss://box@ours.dfs.core.windows.net/p"),
    ],
)
def test_an_address_is_spelled_as_the_warehouse_spells_it(manifests, monkeypatch, dialect, url, expected):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lake")
    assert f"'{expected}/exports/" in render_ddl(manifests["parquet"], url, dialect)


def test_an_azure_address_without_its_account_is_refused_where_the_script_needs_it(manifests, monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(UsageError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        render_ddl(manifests["parquet"], "az://box/p", "snowflake")
