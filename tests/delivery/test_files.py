"""Formats: files of even size, identifiers that stay text, and no cell that a spreadsheet runs."""

from __future__ import annotations

import csv
import io

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.core.formulas import unguard
from firmlake.delivery.destination import Folder
from firmlake.delivery.files import FileTarget, folder_of
from firmlake.delivery.record import Record
from firmlake.delivery.selection import Source
from firmlake.tables.schemas import Column, Table
from support import attached

from .conftest import ODD
from .test_conformance import NOWHERE

COLUMNS = (
    Column("company_number", "text", "Number"),
    Column("name", "text", "Name", "none"),
    Column("amount", "money", "Amount", "none"),
    Column("count", "integer", "Count", "none"),
    Column("received_on", "date", "Day", "none"),
)
AMOUNTS = ["-0.01", "1234567890123456.78", "0.10", "-5.00"]


@pytest.fixture
def source():
    """Make a source of a table of five columns from rows in SQL."""
    with attached() as connection:

        def make(rows, columns=COLUMNS, key=None):
            names = ", ".join(column.name for column in columns)
            table = Table("odd", "Odd rows", key or (columns[0].name,), columns)
            return Source(connection, table, f"SELECT * FROM ({rows}) t({names})")

        yield make


def people(source):
    """Rows with all that is odd in text, and amounts that must not be touched."""
    values = [
        f"('{place:010}', {_sql(text)}, {AMOUNTS[place % 4]}::DECIMAL(18,2), -{place}, DATE '2026-01-05')"
        for place, text in enumerate([*ODD, ""])
    ]
    return source(f"VALUES {', '.join(values)}, ('9999999999', NULL, NULL, NULL, NULL)")


@pytest.fixture
def put(tmp_path):
    """Export rows, and give what is said about each file with its content."""

    def put(file_format, source, **sizes):
        record = Record(delivery_id="x", **{**NOWHERE, "format": file_format})
        target = FileTarget(Folder(tmp_path), **sizes)
        target.begin(record)
        files = target.put(record, source).files
        return [(each, (tmp_path / folder_of("x") / each.path).read_bytes()) for each in files]

    return put


def _sql(text):
    return "'" + text.replace("'", "''") + "'"


def test_text_in_csv_is_guarded_so_that_it_can_be_undone_and_numbers_are_left_alone(source, put):
    [(written, content)] = put("csv", people(source))
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert not [row["name"] for row in rows if row["name"].startswith(tuple("=-@\t\r\n"))]
    names = [unguard(row["name"]) for row in rows]
    assert names == [*ODD, "", ""]
    assert [row["amount"] for row in rows[:4]] == AMOUNTS
    assert [row["count"] for row in rows[:3]] == ["0", "-1", "-2"]
    assert written.row_count == len(rows)


def test_the_character_nul_is_not_in_csv(source, put):
    """PostgreSQL takes it for the end of the file."""
    rows = source("VALUES ('1', 'a' || chr(0) || 'b', 1::DECIMAL(18,2), 1, DATE '2026-01-05')")
    [(_, content)] = put("csv", rows)
    assert b"\x00" not in content
    assert "a\ufffdb".encode() in content


def test_csv_tells_null_from_empty_and_text_from_number(source, put):
    [(_, content)] = put("csv", people(source))
    lines = content.decode("utf-8-sig").splitlines()
    assert lines[0] == '"company_number","name","amount","count","received_on"'
    assert lines[-2:] == ['"0000000009","",1234567890123456.78,-9,"2026-01-05"', '"9999999999",,,,']


def test_a_table_without_rows_has_a_header_in_every_format(source, put):
    nothing = source("SELECT '', '', 0::DECIMAL(18,2), 0, DATE '2026-01-05' WHERE false")
    for file_format, read in (("parquet", pl.read_parquet), ("csv", pl.read_csv)):
        [(written, content)] = put(file_format, nothing)
        frame = read(io.BytesIO(content))
        assert (frame.columns, frame.height, written.row_count) == ([c.name for c in COLUMNS], 0, 0)


@pytest.mark.slow
def test_parquet_files_of_the_size_asked_for_declare_their_order_and_a_reader_skips_row_groups(source, put, tmp_path):
    columns = (
        Column("country", "text", "Country"),
        Column("company_number", "text", "Number"),
        Column("rank", "integer", "Rank"),
        Column("lookalike_company_number", "text", "Number"),
    )
    rows = "SELECT 'BE', lpad((99999 - i // 3)::VARCHAR, 10, '0'), i % 3, (hash(i) // 1000)::VARCHAR"
    made = source(f"{rows} FROM range(200_000) r(i)", columns, ("country", "company_number", "rank"))
    [(_, content)] = put("parquet", made)
    read = pq.ParquetFile(io.BytesIO(content))
    assert read.metadata.num_row_groups == 2
    parts = [(each.path, pq.ParquetFile(io.BytesIO(part))) for each, part in put("parquet", made, file_bytes=10)]
    assert [path for path, _ in parts] == [f"odd/country=BE/part-{n:05}.parquet" for n in (1, 2)]
    assert pa.concat_tables(part.read() for _, part in parts) == read.read()
    keys = read.read(["company_number", "rank"])
    assert keys == keys.sort_by([("company_number", "ascending"), ("rank", "ascending")])
    names = read.schema_arrow.names
    for n in range(2):
        group = read.metadata.row_group(n)
        order = [(names[key.column_index], key.descending, key.nulls_first) for key in group.sorting_columns]
        assert order == [("company_number", False, False), ("rank", False, False)]
    path = tmp_path / "lookalikes.parquet"
    path.write_bytes(content)
    probed = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'lookalike_company_number', 'absent')"
    assert duckdb.sql(probed).fetchall() == [(True,)] * 2
