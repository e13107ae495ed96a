"""Four more readers find in an export what the warehouse holds: every table, row and column, exact amounts included.

DataFusion and chDB come with `pip install --group readers`, 650 MB.
"""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.delivery.files import folder_of
from firmlake.tables.schemas import WAREHOUSE_TABLES
from firmlake.warehouse.generations import open_warehouse
from support import export

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(lake, tmp_path_factory):
    target = tmp_path_factory.mktemp("out")
    return target / folder_of(export(lake, Request(tables=tuple(WAREHOUSE_TABLES)), Folder(target)).record.delivery_id)


def columns_of(table: str) -> list[str]:
    return [column.name for column in WAREHOUSE_TABLES[table].columns]


def is_apart(folder, table) -> bool:
    """Whether the country stands in the path; a table without rows is one file."""
    return any((folder / table).glob("country=*"))


def polars(folder, table):
    return pl.read_parquet(folder / table / "**/*.parquet", hive_partitioning=is_apart(folder, table)).to_arrow()


def pyarrow(folder, table):
    return ds.dataset(folder / table, partitioning="hive" if is_apart(folder, table) else None).to_table()


def datafusion(folder, table):
    library = pytest.importorskip("datafusion")
    context = library.SessionContext()
    partitions = [("country", pa.string())] if is_apart(folder, table) else []
    context.register_parquet(table, str(folder / table), table_partition_cols=partitions, file_extension=".parquet")
    return context.sql(f"SELECT {', '.join(columns_of(table))} FROM {table}").to_arrow_table()


def chdb(folder, table):
    library = pytest.importorskip("chdb")
    place = "country=*/*.parquet" if is_apart(folder, table) else "*.parquet"
    named = {"country": "extract(_path, 'country=([A-Z]+)') AS country"} if is_apart(folder, table) else {}
    columns = ", ".join(named.get(name, name) for name in columns_of(table))
    content = library.query(f"SELECT {columns} FROM file('{folder}/{table}/{place}', Parquet)", "Arrow").bytes()
    return pa.ipc.open_file(pa.py_buffer(content)).read_all()


@pytest.mark.parametrize("read", [polars, pyarrow, datafusion, chdb])
@pytest.mark.parametrize("table", WAREHOUSE_TABLES)
def test_a_reader_finds_what_the_warehouse_holds(lake, folder, table, read):
    found = read(folder, table)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("found", found)
        as_read = connection.execute(f"SELECT {_texts(table)} FROM found ORDER BY ALL").fetchall()
    with open_warehouse(lake) as connection:
        held = connection.execute(f"SELECT {_texts(table)} FROM {table} ORDER BY ALL").fetchall()
    assert as_read == held


def test_amounts_stay_decimals(folder):
    for read in (polars, pyarrow, datafusion, chdb):
        kind = read(folder, "financials").schema.field("revenue").type
        assert (pa.types.is_decimal(kind), kind.scale) == (True, 2), read.__name__


def _texts(table: str) -> str:
    """Every value as DuckDB writes it, so that a decimal is compared digit by digit."""
    casts = {"timestamp": "TIMESTAMP", "boolean": "BOOLEAN"}
    return ", ".join(
        f"{column.name}::{casts[column.type]}::VARCHAR" if column.type in casts else f"{column.name}::VARCHAR"
        for column in WAREHOUSE_TABLES[table].columns
    )
