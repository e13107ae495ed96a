"""The tables of a warehouse: their columns, types and comments, and what becomes of those of another version."""

from __future__ import annotations

import re

import duckdb
import pytest

from firmlake.core.errors import FirmlakeError
from firmlake.tables.schemas import TABLES, WAREHOUSE_TABLES, duckdb_type
from firmlake.warehouse.changes import KINDS
from firmlake.warehouse.schema import create_tables
from firmlake.warehouse.versions import VALIDITY, versions_of


@pytest.fixture
def empty():
    with duckdb.connect() as connection:
        create_tables(connection)
        yield connection


def test_every_table_and_column_has_its_comment(empty):
    tables = dict(
        empty.execute(
            "SELECT table_name, comment FROM duckdb_tables() WHERE NOT ends_with(table_name, '_versions') "
            "UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    )
    assert tables.keys() == WAREHOUSE_TABLES.keys()
    for name, table in WAREHOUSE_TABLES.items():
        assert tables[name].startswith(table.meaning)
        assert all(column in tables[name] for column in table.key)
    columns = empty.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    ).fetchall()
    assert {(table, column): comment for table, column, comment in columns if not table.endswith("_versions")} == {
        (name, column.name): column.comment for name, table in WAREHOUSE_TABLES.items() for column in table.columns
    }


def test_what_is_stored_has_its_type_and_is_not_null_where_null_says_nothing(empty):
    query = "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() WHERE NOT internal"
    found = {(table, name): (kind, nullable) for table, name, kind, nullable in empty.execute(query).fetchall()}
    for table in TABLES.values():
        columns = table.columns if table.volatile is None else (*table.columns, *VALIDITY)
        assert {column: shape for (name, column), shape in found.items() if name == versions_of(table.name)} == {
            column.name: (duckdb_type(column), bool(column.null)) for column in columns
        }
    for name, table in WAREHOUSE_TABLES.items():
        assert [found[name, column.name][0] for column in table.columns] == [duckdb_type(c) for c in table.columns]


@pytest.mark.parametrize(("version", "words"), [(1, "an earlier version"), (99, "a later version")])
def test_a_warehouse_of_another_version_is_refused_whole(empty, version, words):
    create_tables(empty)
    empty.execute(
        "INSERT INTO loads BY NAME SELECT 1 AS generation, 'r' AS run_id, now()::TIMESTAMP AS published_at, "
        "now()::TIMESTAMP AS loaded_at, 0 AS changed_company_count, '{}' AS row_counts, ? AS schema_version",
        [version],
    )
    with pytest.raises(FirmlakeError, match=words) as caught:
        create_tables(empty)
    assert "replay" in caught.value.next_step


def test_the_schema_names_every_kind_of_change():
    comment = next(column.meaning for column in TABLES["company_changes"].columns if column.name == "kind")
    assert re.sub(r" \([^)]*\)", "", comment).replace(" or ", ", ").split(", ") == list(KINDS)
