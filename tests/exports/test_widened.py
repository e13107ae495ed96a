"""A column that `contract.types` has widened leaves as a decimal: in files, schemas, Delta tables and DDL."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.core.folders import Folders
from firmlake.core.settings import ContractSettings
from firmlake.exports.ddl import render_ddl
from firmlake.exports.destination import Folder
from firmlake.exports.export import ExportRequest, export
from firmlake.rebuild.replay import replay
from support import ACME, DAY, NOON, answer, found, land, make_run, period, publish_landed

WIDE = ContractSettings(types={"financials.employee_count": "decimal"})
TABLES = ("financials",)


@pytest.fixture(scope="module")
def widened(tmp_path_factory):
    """Two runs over full-time equivalents, read as decimals by a replay: two generations of this shape."""
    folders = Folders(tmp_path_factory.mktemp("widened") / "data")
    for day, count in enumerate((12.5, 13.25)):
        at = NOON + day * DAY
        run = make_run(folders, [ACME], ["financials"], run_id=f"2026010{5 + day}T120000Z-0001", at=at)
        record = period(2024, people__employees=count)
        land(run, answer("financials", found(ACME, "financials", record), offset=0, at=at))
        publish_landed(run.read_by(WIDE), at=at)
        if not day:
            replay(folders, lambda: NOON, keep=5, contract=WIDE, memory_limit="100MB")
    return folders


def test_parquet_and_its_manifest_have_the_decimal(widened, tmp_path):
    done = export(widened, ExportRequest(tables=TABLES), Folder(tmp_path)).manifest
    [file] = tmp_path.rglob("*.parquet")
    column = pq.read_table(file, columns=["employee_count"])["employee_count"]
    assert (column.type, column.to_pylist()) == (pa.decimal128(23, 4), [Decimal("13.2500")])
    [shape] = [column for column in done.tables[0].columns if column.name == "employee_count"]
    assert shape.type == "DECIMAL(23,4)"


def test_csv_and_its_ddl_have_the_decimal(widened, tmp_path):
    done = export(widened, ExportRequest(format="csv", tables=TABLES), Folder(tmp_path)).manifest
    [file] = tmp_path.rglob("*.csv")
    assert duckdb.sql(f"SELECT employee_count FROM read_csv('{file}')").fetchall() == [(13.25,)]
    script = render_ddl(done, str(tmp_path), "postgres")
    assert '"employee_count" DECIMAL(23, 4)' in script
    assert '"new_hire_count" BIGINT' in script


@pytest.mark.slow
def test_tables_as_of_a_run_and_delta_have_the_decimal(widened, tmp_path):
    export(
        widened, ExportRequest(tables=TABLES, mode="as_of", as_of="20260105T120000Z-0001"), Folder(tmp_path / "past")
    )
    [file] = (tmp_path / "past").rglob("*.parquet")
    assert pq.read_table(file)["employee_count"].to_pylist() == [Decimal("12.5000")]
    export(widened, ExportRequest(format="delta", tables=TABLES), Folder(tmp_path / "delta"))
    [file] = (tmp_path / "delta").rglob("*.parquet")
    assert pq.ParquetFile(file).read(["employee_count"])["employee_count"].to_pylist() == [Decimal("13.2500")]


def test_changes_since_a_generation_with_whole_numbers_have_the_decimal(tmp_path):
    folders = Folders(tmp_path / "data")
    for day, (count, contract) in enumerate(((12, ContractSettings()), (13.25, WIDE))):
        at = NOON + day * DAY
        run = make_run(folders, [ACME], ["financials"], run_id=f"2026010{5 + day}T120000Z-0001", at=at)
        record = period(2024, people__employees=count)
        land(run, answer("financials", found(ACME, "financials", record), offset=0, at=at))
        publish_landed(run.read_by(contract), at=at)
        request = ExportRequest(format="parquet", tables=TABLES, mode="changes" if day else "whole")
        done = export(folders, request, Folder(tmp_path / "out")).manifest
    assert done.tables[0].changes == {"update": 1}
    values = [pq.read_table(file)["employee_count"].to_pylist() for file in (tmp_path / "out").rglob("*.parquet")]
    assert [Decimal("13.2500")] in values
