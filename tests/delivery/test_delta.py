"""Delta Lake: a version for each export, and none twice."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from firmlake.core.folders import Folders
from firmlake.delivery.deliver import Request, export
from firmlake.delivery.destination import Folder, open_destination
from support import query

from .conftest import add_week

TABLES = ("financials", "runs")
AMOUNTS = "SELECT company_number, start_date, revenue FROM financials ORDER BY ALL"


class KilledError(BaseException):
    """Stands for the end of the process."""


class DiesBeforeManifest(Folder):
    def put(self, path, file):
        raise KilledError


def amounts(path, version):
    columns = ["company_number", "start_date", "revenue"]
    table = DeltaTable(str(path), version=version).to_pyarrow_table(columns=columns)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.slow
def test_a_whole_export_overwrites_and_changes_are_appended(tmp_path):
    folders, out = Folders(tmp_path / "data"), tmp_path / "out"
    held = []
    for week in range(3):
        add_week(folders, week)
        request = Request(format="delta", tables=TABLES, mode="changes" if week == 2 else "whole")
        done = export(folders, request, Folder(out))
        assert export(folders, request, Folder(out)).record == done.record
        held.append(done.record.tables[0])
    assert [(each.delta_path, each.delta_version) for each in held] == [
        ("delta/financials", 0),
        ("delta/financials", 1),
        ("delta/financials_changes", 0),
    ]
    changes = DeltaTable(str(out / held[2].delta_path)).to_pyarrow_table()
    assert sorted(changes["change_type"].to_pylist()) == ["delete", "insert", "update"]
    assert held[2].changes == {"delete": 1, "insert": 1, "update": 1}


@pytest.mark.slow
def test_delta_goes_to_s3(lake, bucket):
    done = export(lake, Request(format="delta", tables=("financials",)), open_destination(bucket))
    assert amounts(f"{bucket}/delta/financials", done.record.tables[0].delta_version) == query(lake, AMOUNTS)
