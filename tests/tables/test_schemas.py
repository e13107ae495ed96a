"""Tables stated once: everything a reader needs to know stands there."""

import pytest

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas import COMPANY_TABLES, PRIVACY, TABLES, WAREHOUSE_TABLES, duckdb_type, polars_schema

SUFFIXES = {"_at": "TIMESTAMP", "_date": "DATE", "_count": "BIGINT", "_fraction": "DECIMAL(9,6)"}


@pytest.mark.parametrize("table", WAREHOUSE_TABLES.values(), ids=WAREHOUSE_TABLES)
def test_a_key_is_made_of_columns_that_are_never_null(table):
    columns = {column.name: column for column in table.columns}
    nullable = {name for name in table.key if columns[name].null}
    assert nullable <= {"request_id"}


@pytest.mark.parametrize("table", WAREHOUSE_TABLES.values(), ids=WAREHOUSE_TABLES)
def test_names_are_used_once_and_every_row_knows_its_run(table):
    names = [column.name for column in table.columns]
    assert len(names) == len(set(names))
    assert {"run_id", "opened_run"} & set(names)


@pytest.mark.parametrize("table", WAREHOUSE_TABLES.values(), ids=WAREHOUSE_TABLES)
def test_every_column_says_what_it_means(table):
    for column in table.columns:
        assert column.comment.endswith(".")
        assert ".." not in column.comment.replace("...", "")
        assert ("Null: " in column.comment) != ("Never null" in column.comment)


@pytest.mark.parametrize("table", WAREHOUSE_TABLES.values(), ids=WAREHOUSE_TABLES)
def test_suffixes_tell_the_type(table):
    for column in table.columns:
        kinds = [kind for suffix, kind in SUFFIXES.items() if column.name.endswith(suffix)]
        assert duckdb_type(column) in kinds or not kinds


def test_every_field_of_the_contract_is_a_column_with_its_source():
    for dataset, tables in COMPANY_TABLES.items():
        sources = {column.source.rpartition("[].")[2] for table in tables for column in TABLES[table].columns}
        assert {field.path for field in DATASETS[dataset].fields.values()} <= sources


PERSONAL = {
    "related_name": "person",
    "contact_id": "contact",
    "created_by": "contact",
    "company_number": "company",
    "extra_json": "text",
    "given": "text",
    "columns": "text",
    "record_json": "text",
}


def test_every_column_that_may_be_about_a_person_says_so_in_its_comment():
    for table in WAREHOUSE_TABLES.values():
        for column in table.columns:
            assert column.privacy == PERSONAL.get(column.name, column.privacy)
            assert PRIVACY[column.privacy] in column.comment
            assert (column.type == "json") <= (
                column.privacy == "text" or table.name in ("company_changes", "loads") or column.name == "column_names"
            )


def test_money_is_never_a_float():
    for table in TABLES.values():
        floats = {name for name, kind in polars_schema(table).items() if kind.is_float()}
        assert floats <= {"score", "duration_seconds"}
