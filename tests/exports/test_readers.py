"""DataFusion and chDB read an export row for row. They come with `pip install --group readers`, 650 MB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from firmlake.exports.export import Request, export
from firmlake.exports.manifest import folder_of
from firmlake.exports.targets import Folder
from support import query

pytestmark = pytest.mark.slow

COLUMNS = "company_number, start_date, revenue, current_ratio, employee_male_fraction, fetched_at, country"
TEXTS = ", ".join(f"{name}::VARCHAR" for name in COLUMNS.split(", "))


@pytest.fixture(scope="module")
def folder(lake, tmp_path_factory):
    target = tmp_path_factory.mktemp("out")
    return target / folder_of(export(lake, Request(), Folder(target)).manifest.export_id)


def as_text(table: pa.Table) -> list[tuple[str, ...]]:
    """Rows with every value as DuckDB writes it, so that a decimal is compared digit by digit."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("found", table)
        values = ", ".join(
            f"{name}::VARCHAR" for name in COLUMNS.replace("fetched_at", "fetched_at::TIMESTAMP").split(", ")
        )
        return connection.execute(f"SELECT {values} FROM found ORDER BY ALL").fetchall()


@pytest.fixture(scope="module")
def expected(lake):
    return query(
        lake, f"SELECT {', '.join(f'{name}::VARCHAR' for name in COLUMNS.split(', '))} FROM financials ORDER BY ALL"
    )


def test_datafusion(folder, expected):
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    context.register_parquet(
        "financials",
        str(folder / "financials"),
        table_partition_cols=[("country", pa.string())],
        file_extension=".parquet",
    )
    assert as_text(context.sql(f"SELECT {COLUMNS} FROM financials").to_arrow_table()) == expected


def test_chdb(folder, expected):
    chdb = pytest.importorskip("chdb")
    source = f"file('{folder}/financials/country=*/*.parquet', Parquet)"
    columns = COLUMNS.replace("country", "extract(_path, 'country=([A-Z]+)') AS country")
    content = chdb.query(f"SELECT {columns} FROM {source}", "Arrow").bytes()
    assert as_text(pa.ipc.open_file(pa.py_buffer(content)).read_all()) == expected
