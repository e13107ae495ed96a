"""Scripts that load an export: each parses in its dialect, and the one for PostgreSQL is run on a server."""

from __future__ import annotations

import json

import pytest
import sqlglot
from sqlglot import exp

from firmlake.core.errors import UsageError
from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.record import Record
from firmlake.delivery.scripts import SCRIPTS, render_ddl
from firmlake.delivery.selection import EXPORTED_TABLES
from firmlake.tables.schemas import WAREHOUSE_TABLES
from postgres import serve_postgres
from support import ACME, BOLT, answer, export, found, land, make_run, party, publish_landed, query

URLS = {"snowflake": "s3://b/p", "bigquery": "gs://b/p", "redshift": "s3://b/p", "databricks": "s3://b/p"}
MONEY = {"bigquery": "NUMERIC(18, 2)"}
TIMES = {"redshift": "TIMESTAMP", "bigquery": "TIMESTAMP", "databricks": "TIMESTAMP"}
TEXT = {"redshift": "VARCHAR(MAX)", "bigquery": "STRING", "databricks": "STRING", "postgres": "TEXT"}


@pytest.fixture(scope="module")
def manifests(lake, tmp_path_factory) -> dict[str, Record]:
    """An export in each format that a warehouse loads."""
    target = Folder(tmp_path_factory.mktemp("out"))
    tables = ("financials", "runs", "drift")
    return {name: export(lake, Request(format=name, tables=tables), target).record for name in ("parquet", "csv")}


@pytest.fixture(params=SCRIPTS)
def script(request, manifests):
    """A dialect, its script, and the manifest it was made from."""
    manifest = manifests[SCRIPTS[request.param].format]
    return request.param, render_ddl(manifest, URLS.get(request.param, "/out"), request.param), manifest


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
    elif dialect != "postgres":
        assert (
            "country" in text.partition("COPY INTO")[2] + text.partition("LOAD DATA")[2] + text.partition("INSERT")[2]
        )


def test_a_warehouse_is_not_told_to_load_what_it_cannot(manifests):
    with pytest.raises(UsageError, match="redshift cannot load from gs://b"):
        render_ddl(manifests["parquet"], "gs://b", "redshift")
    with pytest.raises(UsageError, match="postgres loads csv, not parquet"):
        render_ddl(manifests["parquet"], "/out", "postgres")


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


@pytest.fixture(scope="module")
def psql():
    """What runs a script on a server and returns the lines it prints."""
    with serve_postgres() as postgres:
        yield postgres.run


@pytest.mark.slow
def test_every_value_arrives_and_loading_twice_changes_nothing(lake, tmp_path, psql):
    manifest = export(lake, Request(format="csv"), Folder(tmp_path)).record
    script = render_ddl(manifest, str(tmp_path), "postgres")
    for _ in range(2):
        psql(script)
        for name in EXPORTED_TABLES:
            columns = [column for column in WAREHOUSE_TABLES[name].columns if column.type != "score"]
            ours = query(lake, f"SELECT {', '.join(map(_duckdb, columns))} FROM {name}")
            theirs = psql(f"SELECT json_agg(json_build_array({', '.join(map(_postgres, columns))})) FROM {name}")
            assert _rows(theirs) == sorted(ours, key=repr), name


@pytest.mark.slow
def test_a_name_with_a_character_that_no_database_takes_arrives_with_a_mark_in_its_place(tmp_path, psql):
    folders = Folders(tmp_path / "data")
    run = make_run(folders, [ACME], ["relationships"])
    record = party(BOLT, name='Ac\x00me "Zoo"', identifier__name="\x00")
    land(run, answer("relationships", found(ACME, "relationships", record)))
    publish_landed(run)
    request = Request(format="csv", tables=("relationships",))
    psql(render_ddl(export(folders, request, Folder(tmp_path)).record, str(tmp_path), "postgres"))
    arrived = psql("SELECT related_name, related_identifier_name FROM relationships WHERE related_name LIKE 'Ac%'")
    assert arrived == 'Ac\ufffdme "Zoo"|\ufffd\n'


def _rows(text):
    return sorted((tuple(row) for row in json.loads(text.strip() or "[]")), key=repr)


def _duckdb(column):
    if column.type == "timestamp":
        return f"strftime({column.name}, '%Y-%m-%d %H:%M:%S.%f')"
    return f"{column.name}::VARCHAR"


def _postgres(column):
    name = f'"{column.name}"'
    if column.type == "timestamp":
        return f"to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    return f"{name}::TEXT"
