"""Formats: files of even size, identifiers that stay text, and no cell that a spreadsheet runs."""

from __future__ import annotations

import csv
import io

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from firmlake.core.guard import unguard
from firmlake.delivery.files import Source, write_csv, write_parquet
from firmlake.delivery.selection import Selected
from firmlake.tables.schemas import Column, Table

from .conftest import ODD

COLUMNS = (
    Column("company_number", "text", "Number"),
    Column("name", "text", "Name", "none"),
    Column("amount", "money", "Amount", "none"),
    Column("count", "integer", "Count", "none"),
    Column("received_on", "date", "Day", "none"),
)
AMOUNTS = ["-0.01", "1234567890123456.78", "0.10", "-5.00"]


@pytest.fixture
def source(tmp_path):
    """Make a source of a table of five columns from rows in SQL."""
    with duckdb.connect() as connection:

        def make(rows, columns=COLUMNS, **sizes):
            names = ", ".join(column.name for column in columns)
            table = Table("odd", "Odd rows", (columns[0].name,), columns)
            query = f"SELECT * FROM ({rows}) t({names})"
            return Source(connection, Selected(table, query), tmp_path, **{"file_bytes": 1 << 20, **sizes})

        yield make


def people(source):
    """Rows with all that is odd in text, and amounts that must not be touched."""
    values = [
        f"('{place:010}', {_sql(text)}, {AMOUNTS[place % 4]}::DECIMAL(18,2), -{place}, DATE '2026-01-05')"
        for place, text in enumerate([*ODD, ""])
    ]
    return source(f"VALUES {', '.join(values)}, ('9999999999', NULL, NULL, NULL, NULL)")


def contents(files):
    """The content of each file, with what else is said about it; a file is open until the next one."""
    return [(written, written.file.read()) for written in files]


def _sql(text):
    return "'" + text.replace("'", "''") + "'"


def test_text_in_csv_is_guarded_so_that_it_can_be_undone_and_numbers_are_left_alone(source):
    [(written, content)] = contents(write_csv(people(source)))
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert not [row["name"] for row in rows if row["name"].startswith(tuple("=-@\t\r\n"))]
    names = [unguard(row["name"]) for row in rows]
    assert names == [*ODD, "", ""]
    assert [row["amount"] for row in rows[:4]] == AMOUNTS
    assert [row["count"] for row in rows[:3]] == ["0", "-1", "-2"]
    assert written.row_count == len(rows)


def test_the_character_nul_is_not_in_csv(source):
    """PostgreSQL takes it for the end of the file."""
    rows = source("VALUES ('1', 'a' || chr(0) || 'b', 1::DECIMAL(18,2), 1, DATE '2026-01-05')")
    [(_, content)] = contents(write_csv(rows))
    assert b"\x00" not in content
    assert "a\ufffdb".encode() in content


def test_csv_tells_null_from_empty_and_text_from_number(source):
    [(_, content)] = contents(write_csv(people(source)))
    lines = content.decode().splitlines()
    assert lines[0] == '"company_number","name","amount","count","received_on"'
    assert lines[-2:] == ['"0000000009","",1234567890123456.78,-9,2026-01-05', '"9999999999",,,,']


def test_a_table_without_rows_has_a_header_in_every_format(source):
    nothing = source("SELECT '', '', 0::DECIMAL(18,2), 0, DATE '2026-01-05' WHERE false")
    for write, read in ((write_parquet, pl.read_parquet), (write_csv, pl.read_csv)):
        [(written, content)] = contents(write(nothing))
        frame = read(io.BytesIO(content))
        assert (frame.columns, frame.height, written.row_count) == ([c.name for c in COLUMNS], 0, 0)


def test_parquet_declares_its_order_and_a_reader_skips_row_groups_without_the_number(source):
    columns = (
        Column("country", "text", "Country"),
        Column("company_number", "text", "Number"),
        Column("rank", "integer", "Rank"),
        Column("lookalike_company_number", "text", "Number"),
    )
    query = (
        "SELECT 'BE', lpad((9999 - i // 3)::VARCHAR, 10, '0'), i % 3, (hash(i) // 1000)::VARCHAR FROM range(6000) r(i)"
    )
    made = source(query, columns, batch_rows=2000)
    made = made._replace(
        selected=Selected(made.table._replace(key=("country", "company_number", "rank")), made.selected.query)
    )
    [(_, content)] = contents(write_parquet(made))
    path = made.scratch / "lookalikes.parquet"
    path.write_bytes(content)
    read = pq.ParquetFile(path)
    rows = list(zip(*(read.read([n])[n].to_pylist() for n in ("company_number", "rank")), strict=True))
    assert rows == sorted(rows)
    names = read.schema_arrow.names
    for n in range(read.metadata.num_row_groups):
        group = read.metadata.row_group(n)
        order = [(names[key.column_index], key.descending, key.nulls_first) for key in group.sorting_columns]
        assert order == [("company_number", False, False), ("rank", False, False)]
    probed = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'lookalike_company_number', 'absent')"
    assert duckdb.sql(probed).fetchall() == [(True,)] * 3


@pytest.mark.parametrize("rows", [100, 20_000, 23_000])
def test_parquet_files_are_of_even_size_without_a_scrap_at_the_end(source, rows):
    columns = (Column("number", "integer", "Number"), Column("country", "text", "Country"))
    wanted = 30_000
    query = f"SELECT (hash(i) // 2)::BIGINT, 'BE' FROM range({rows}) r(i)"
    made = source(query, columns, file_bytes=wanted, batch_rows=500)
    sizes, counts, numbers = [], [], []
    for written, content in contents(write_parquet(made)):
        numbers += pq.read_table(io.BytesIO(content))["number"].to_pylist()
        sizes.append(len(content))
        counts.append(written.row_count)
        assert written.path == f"odd/country=BE/part-{len(sizes):05}.parquet"
    assert (sum(counts), numbers) == (rows, sorted(numbers))
    assert len(set(numbers)) == rows
    assert all(wanted / 2 <= size <= 2 * wanted for size in sizes) or len(sizes) == 1
