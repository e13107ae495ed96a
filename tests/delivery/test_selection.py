"""What is selected: columns of a widened type, columns that a mask drops or hashes."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.folders import Folders
from firmlake.core.settings import ContractSettings
from firmlake.delivery.deliver import Request
from firmlake.delivery.destination import Folder
from firmlake.rebuild.replay import replay
from support import ACME, DAY, NOON, export, land_run, period, publish_landed

WIDE = ContractSettings(types={"financials.employee_count": "decimal"})
TABLES = ("financials",)


def publish_count(folders, day, count, contract=WIDE):
    run = land_run(folders, day, {ACME: {"financials": [period(2024, people__employees=count)]}})
    publish_landed(run.read_by(contract), at=NOON + day * DAY)


@pytest.fixture(scope="module")
def widened(tmp_path_factory):
    """Two runs over full-time equivalents, read as decimals by a replay: two generations of this shape."""
    folders = Folders(tmp_path_factory.mktemp("widened") / "data")
    for day, count in enumerate((12.5, 13.25)):
        publish_count(folders, day, count)
        if not day:
            replay(folders, lambda: NOON, contract=WIDE)
    return folders


def test_parquet_and_its_manifest_have_the_decimal(widened, tmp_path):
    done = export(widened, Request(tables=TABLES), Folder(tmp_path)).record
    [file] = tmp_path.rglob("*.parquet")
    column = pq.read_table(file, columns=["employee_count"])["employee_count"]
    assert (column.type, column.to_pylist()) == (pa.decimal128(23, 4), [Decimal("13.2500")])
    [shape] = [column for column in done.tables[0].columns if column.name == "employee_count"]
    assert shape.type == "DECIMAL(23,4)"


def test_changes_since_a_generation_with_whole_numbers_have_the_decimal(tmp_path):
    folders = Folders(tmp_path / "data")
    for day, (count, contract) in enumerate(((12, ContractSettings()), (13.25, WIDE))):
        publish_count(folders, day, count, contract)
        request = Request(format="parquet", tables=TABLES, mode="changes" if day else "whole")
        done = export(folders, request, Folder(tmp_path / "out")).record
    assert done.tables[0].changes == {"update": 1}
    values = [pq.read_table(file)["employee_count"].to_pylist() for file in (tmp_path / "out").rglob("*.parquet")]
    assert [Decimal("13.2500")] in values


def table(folder, name):
    files = sorted((folder / "exports").glob(f"*/{name}/**/*.parquet"))
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in files], how="diagonal_relaxed")


def test_columns_are_dropped_or_hashed_with_one_hash_for_equal_values(lake, tmp_path):
    export(lake, Request(), Folder(tmp_path / "plain"))
    mask = {"person": "hash", "*.company_number": "hash", "companies.name": "drop", "*.extra_json": "drop"}
    manifest = export(lake, Request(mask=mask), Folder(tmp_path / "masked")).record
    plain, masked = table(tmp_path / "plain", "companies"), table(tmp_path / "masked", "companies")
    assert set(plain.columns) - set(masked.columns) == {"name"}
    assert plain.height == masked.height
    numbers = set(plain["company_number"])
    for name in ("companies", "financials", "relationships"):
        hashed = set(table(tmp_path / "masked", name)["company_number"])
        assert hashed <= set(masked["company_number"])
        assert not hashed & numbers
    related = table(tmp_path / "masked", "relationships")["related_name"].drop_nulls()
    names = table(tmp_path / "plain", "relationships")["related_name"].drop_nulls()
    assert related.n_unique() == names.n_unique()
    assert not set(related) & set(names)
    assert manifest.mask == mask
    [shape] = [each for each in manifest.tables if each.name == "companies"]
    assert {column.name: column.type for column in shape.columns}["company_number"] == "VARCHAR"
    assert "Keyed hash" in {column.name: column.comment for column in shape.columns}["company_number"]


def test_a_mask_that_names_no_column_is_refused(lake, tmp_path):
    with pytest.raises(SettingsError, match=r"export.mask: relationships.related_nam names no column"):
        export(lake, Request(mask={"relationships.related_nam": "drop"}), Folder(tmp_path))
