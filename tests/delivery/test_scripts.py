"""Scripts that load an export: `scripts` has one for each warehouse, and each statement parses in its dialect.

`PYTHONPATH=tests python tests/delivery/test_scripts.py` writes them again; check what changes.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec
import pytest
import sqlglot
from sqlglot import exp

from firmlake.core.errors import UsageError
from firmlake.delivery.record import DeliveredFile, Record, describe_table
from firmlake.delivery.scripts import render_ddl, render_sources
from firmlake.tables.schemas import Column, Table

SCRIPTS = Path(__file__).parent / "scripts"
URLS = {"snowflake": "s3://b/p", "bigquery": "gs://b/p", "redshift": "s3://b/p", "databricks": "s3://b/p"}
COLUMNS = (
    Column("country", "text", "Country"),
    Column("company_number", "text", "Number, as the service's files spell it"),
    Column("revenue", "money", "Revenue", "not stated"),
    Column("employee_count", "integer", "Employees", "not stated"),
    Column("score", "score", "Score", "not stated"),
    Column("is_open", "boolean", "Whether it is open", "not stated"),
    Column("received_on", "date", "Day", "not stated"),
    Column("fetched_at", "timestamp", "Time"),
    Column("extra_json", "json", "Other values", "none"),
)
FILES = {
    Table("amounts", "A company's amounts", ("country", "company_number"), COLUMNS): ["BE", "FR"],
    Table("runs", "Runs", ("run_id",), (Column("run_id", "text", "Run"),)): [""],
    Table("nothing", "No rows", ("run_id",), (Column("run_id", "text", "Run"),)): [],
}
"""Tables of an export by the countries of their files: with two, without one, and without files."""


def manifest(mode: str = "whole", file_format: str = "parquet") -> Record:
    tables = []
    for table, countries in FILES.items():
        files = (DeliveredFile(f"{table.name}/{country}/1.parquet", 1, 1, "0", country) for country in countries)
        tables.append(msgspec.structs.replace(describe_table(table), files=tuple(files)))
    return Record(
        delivery_id="EXPORT", mode=mode, format=file_format, run_id="", generation=1, published_at=datetime(2026, 1, 5),
        schema_version=1, firmlake_version="", tables=tuple(tables),
    )  # fmt: skip


@pytest.mark.parametrize("dialect", URLS)
def test_a_script_is_as_it_was_checked_and_its_tables_are_read_back_with_every_comment(dialect):
    script = render_ddl(manifest(), URLS[dialect], dialect)
    assert script == (SCRIPTS / f"{dialect}.sql").read_text("utf-8")
    shapes = [part for part in script.split("\n\n") if part.startswith(("CREATE TABLE", "COMMENT ON"))]
    made = [sqlglot.parse_one(part.rstrip(";"), dialect) for part in shapes]
    said = {literal.this for statement in made for literal in statement.find_all(exp.Literal)}
    creates = {each.find(exp.Table).name: each for each in made if isinstance(each, exp.Create)}
    for table in FILES:
        columns = creates[table.name].find_all(exp.ColumnDef)
        assert [column.name for column in columns] == [column.name for column in table.columns]
        assert {column.comment for column in table.columns} <= said
        assert any(each.startswith(table.meaning) for each in said)


@pytest.mark.parametrize(("mode", "name"), [("whole", "amounts"), ("changes", "amounts_changes")])
def test_tables_of_changes_have_a_name_of_their_own_in_script_and_sources(mode, name):
    assert f" {name} (\n" in render_ddl(manifest(mode), URLS["snowflake"], "snowflake")
    assert f"- name: {name}\n" in render_sources(manifest(mode))


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
def test_an_address_is_spelled_as_the_warehouse_spells_it(monkeypatch, dialect, url, expected):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lake")
    assert f"'{expected}/exports/" in render_ddl(manifest(), url, dialect)


@pytest.mark.parametrize(
    ("file_format", "url", "says"),
    [
        ("parquet", "gs://b", "redshift cannot load from gs://b"),
        ("csv", "s3://b", "redshift loads parquet, not csv"),
        ("parquet", "az://box/p", "redshift cannot load from az"),
    ],
)
def test_a_warehouse_is_not_told_to_load_what_it_cannot(file_format, url, says):
    with pytest.raises(UsageError, match=says):
        render_ddl(manifest(file_format=file_format), url, "redshift")


def test_an_azure_address_without_its_account_is_refused_where_the_script_needs_it(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(UsageError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        render_ddl(manifest(), "az://box/p", "snowflake")


if __name__ == "__main__":
    for name, address in URLS.items():
        (SCRIPTS / f"{name}.sql").write_text(render_ddl(manifest(), address, name), "utf-8")
