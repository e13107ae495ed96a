"""An export is loaded by the generated script into a real PostgreSQL server, from Debian's packages, and compared."""

from __future__ import annotations

import json

import pytest

from firmlake.core.folders import Folders
from firmlake.exports.ddl import render_ddl
from firmlake.exports.destination import Folder
from firmlake.exports.export import ExportRequest, export
from firmlake.exports.selection import EXPORTED_TABLES
from firmlake.tables.schemas import WAREHOUSE_TABLES
from postgres import serve_postgres
from support import ACME, BOLT, answer, found, land, make_run, party, publish_landed, query

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def psql():
    """What runs a script on a server and returns the lines it prints."""
    with serve_postgres() as postgres:
        yield postgres.run


def test_every_value_arrives_and_loading_twice_changes_nothing(lake, tmp_path, psql):
    manifest = export(lake, ExportRequest(format="csv"), Folder(tmp_path)).manifest
    script = render_ddl(manifest, str(tmp_path), "postgres")
    for _ in range(2):
        psql(script)
        for name in EXPORTED_TABLES:
            columns = [column for column in WAREHOUSE_TABLES[name].columns if column.type != "score"]
            ours = query(lake, f"SELECT {', '.join(map(_duckdb, columns))} FROM {name}")
            theirs = psql(f"SELECT json_agg(json_build_array({', '.join(map(_postgres, columns))})) FROM {name}")
            assert _rows(theirs) == sorted(ours, key=repr), name


def test_comments_arrive(lake, tmp_path, psql):
    psql(render_ddl(export(lake, ExportRequest(format="csv"), Folder(tmp_path)).manifest, str(tmp_path), "postgres"))
    found = psql("SELECT col_description('financials'::regclass, ordinal_position) FROM information_schema.columns "
                 "WHERE table_name = 'financials' AND column_name = 'revenue'")  # fmt: skip
    assert found.startswith("Revenue of the period. In the currency of the accounts")


def test_a_name_with_a_character_that_no_database_takes_arrives_with_a_mark_in_its_place(tmp_path, psql):
    folders = Folders(tmp_path / "data")
    run = make_run(folders, [ACME], ["relationships"])
    record = party(BOLT, name='Ac\x00me "Zoo"', identifier__name="\x00")
    land(run, answer("relationships", found(ACME, "relationships", record)))
    publish_landed(run)
    request = ExportRequest(format="csv", tables=("relationships",))
    psql(render_ddl(export(folders, request, Folder(tmp_path)).manifest, str(tmp_path), "postgres"))
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
