"""Tables stated once: everything a reader needs to know stands there."""

import pytest

from firmlake.api.contract import DATASETS
from firmlake.tables.schemas import COMPANY_TABLES, PRIVACY, TABLES, WAREHOUSE_TABLES, duckdb_type, polars_schema

SUFFIXES = {"_at": "TIMESTAMP", "_date": "DATE", "_count": "BIGINT", "_fraction": "DECIMAL(9,6)"}


@pytest.mark.parametrize("table", WAREHOUSE_TABLES.values(), ids=WAREHOUSE_TABLES)
def test_a_table_says_what_a_reader_needs_to_know(table):
    columns = {column.name: column for column in table.columns}
    assert len(columns) == len(table.columns), "names are used once"
    assert {"run_id", "opened_run"} & columns.keys(), "every row knows its run"
    assert {name for name in table.key if columns[name].null} <= {"request_id"}, "a key is never null"
    for column in table.columns:
        assert column.comment.endswith(".")
        assert ".." not in column.comment.replace("...", "")
        assert ("Null: " in column.comment) != ("Never null" in column.comment)
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
