"""The sources file for dbt is YAML that names every table, column, key and the age of the data."""

from __future__ import annotations

import yaml

from firmlake.exports.dbt import render_sources
from firmlake.exports.destination import Folder
from firmlake.exports.export import ExportRequest, export


def test_the_sources_file_says_what_the_export_holds(lake, tmp_path):
    manifest = export(lake, ExportRequest(), Folder(tmp_path)).manifest
    [source] = yaml.safe_load(render_sources(manifest))["sources"]
    tables = {table["name"]: table for table in source["tables"]}
    for table in manifest.tables:
        found = tables[table.name]
        assert found["description"] == table.meaning
        columns = {column["name"]: column for column in found["columns"]}
        for column in table.columns:
            assert columns[column.name]["description"] == column.comment
            assert columns[column.name].get("config", {}).get("meta", {}).get("privacy", "") == column.privacy
            assert ("not_null" in columns[column.name].get("data_tests", [])) is not column.nullable
        if len(table.key) > 1:
            [test] = found["data_tests"]
            assert test["dbt_utils.unique_combination_of_columns"]["combination_of_columns"] == list(table.key)
    assert any(column.privacy == "person" for table in manifest.tables for column in table.columns)
    assert "unique" in {c["name"]: c for c in tables["runs"]["columns"]}["run_id"]["data_tests"]
    assert tables["company_state"]["loaded_at_field"] == "fetched_at"
    assert tables["company_state"]["freshness"]["error_after"] == {"count": 15, "period": "day"}
