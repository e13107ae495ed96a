"""`export.mask` drops or hashes columns of an export, and a misspelt one is refused."""

from __future__ import annotations

import polars as pl
import pytest

from firmlake.core.errors import SettingsError
from firmlake.core.files import sha256_of
from firmlake.exports.destination import Folder
from firmlake.exports.export import ExportRequest, export


def table(folder, name):
    files = sorted((folder / "exports").glob(f"*/{name}/**/*.parquet"))
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in files], how="diagonal_relaxed")


def test_columns_are_dropped_or_hashed_with_one_hash_for_equal_values(lake, tmp_path):
    export(lake, ExportRequest(), Folder(tmp_path / "plain"))
    mask = {"person": "hash", "*.company_number": "hash", "companies.name": "drop", "*.extra_json": "drop"}
    manifest = export(lake, ExportRequest(mask=mask), Folder(tmp_path / "masked")).manifest
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


def test_another_mask_is_another_export(lake, tmp_path):
    target = Folder(tmp_path)
    first = export(lake, ExportRequest(mode="changes", mask={"person": "hash"}), target).manifest
    again = export(lake, ExportRequest(mode="changes", mask={"person": "hash"}), target)
    assert not again.is_new
    other = export(lake, ExportRequest(mode="changes", mask={"person": "drop"}), target)
    assert other.is_new
    assert (other.manifest.mode, other.note) == ("whole", "the last export had another mask")
    assert first.export_id != other.manifest.export_id
    assert sha256_of(tmp_path / "latest.json")


def test_a_mask_that_names_no_column_is_refused(lake, tmp_path):
    with pytest.raises(SettingsError, match=r"export.mask: relationships.related_nam names no column"):
        export(lake, ExportRequest(mask={"relationships.related_nam": "drop"}), Folder(tmp_path))
