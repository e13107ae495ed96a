"""Each generation says whether it is complete for its lists and, if not, why and how much, wherever its data goes."""

from __future__ import annotations

import json

import openpyxl
import pyarrow.parquet as pq
import pytest

from enrich.desk import Desk
from firmlake_sandbox import Sandbox
from other_service import start_other_service
from support import DATASETS, lose_patience, query, slow


def causes(desk):
    rows = query(desk.folders, "SELECT DISTINCT cause, dataset, company_count FROM incomplete WHERE list_name = 'list'")
    return set(rows)


@pytest.fixture
def desk(sandbox, tmp_path):
    desk = Desk(tmp_path, sandbox)
    desk.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    return desk


@pytest.mark.slow
def test_what_a_sample_and_a_budget_leave_out_is_told_wherever_the_data_goes_until_a_run_leaves_out_nothing(
    desk, tmp_path
):
    desk.run("--sample", "10")
    assert causes(desk) == {("not_asked", None, 20)}
    desk.run("--max-credits", "5")
    assert causes(desk) == {("budget", dataset, 15) for dataset in DATASETS}
    assert_everything_says(desk, tmp_path, 15)
    with desk.list.open("a") as lines:
        lines.write("x\n")
    assert desk.run("--out", str(tmp_path / "back.csv"))[0] == 0
    assert causes(desk) == set()
    assert json.loads((tmp_path / "back.csv.json").read_text()) == {
        "is_complete": True, "incomplete": [], "refused_line_count": 1, "service": desk.service.base_url,
    }  # fmt: skip
    assert last_sheet(desk, tmp_path) == ["Complete", [
        "1 line could not be used; the sheet Refused lines says why",
        "No company lacks anything: every company was asked for everything",
        f"The figures are those of {desk.service.base_url}",
    ]]  # fmt: skip
    [(comment,)] = query(desk.folders, "SELECT comment FROM duckdb_views() WHERE view_name = 'list'")
    assert comment.endswith(". Complete")


def test_credits_that_run_out_are_the_services(desk, sandbox: Sandbox):
    sandbox.set_options(credits=12)
    assert desk.run()[0] == 4
    sandbox.set_options(credits=1_000_000)
    assert causes(desk) == {("credits", dataset, 18) for dataset in DATASETS}


@pytest.mark.parametrize(("broken", "cause"), [(403, "forbidden"), *slow((500, "outage"))])
@pytest.mark.slow
def test_a_dataset_that_is_forbidden_or_down(tmp_path, monkeypatch, broken, cause):
    lose_patience(monkeypatch)
    with start_other_service() as service:
        desk = Desk(tmp_path, service)
        service.broken["lookalikes"] = broken
        assert desk.run()[0] == 3
        assert causes(desk) == {(cause, "lookalikes", 30)}


def last_sheet(desk, tmp_path):
    assert desk.call("list", "export", "list", str(tmp_path / "back.xlsx"))[0] in (0, None)
    sheet = openpyxl.load_workbook(tmp_path / "back.xlsx").worksheets[-1]
    return [sheet.title, [row[0].value for row in sheet.iter_rows(min_row=2)]]


def assert_everything_says(desk, tmp_path, count):
    for name in ("back.csv", "back.xlsx", "back.parquet"):
        assert desk.call("list", "export", "list", str(tmp_path / name))[0] in (0, None)
    assert desk.call("export", str(tmp_path / "exported"))[0] in (0, None)
    lacking = [
        {"list": "list", "dataset": dataset, "cause": "budget", "company_count": count} for dataset in sorted(DATASETS)
    ]
    completeness = {
        "is_complete": False, "incomplete": lacking, "refused_line_count": 0, "service": desk.service.base_url,
    }  # fmt: skip
    assert json.loads((tmp_path / "back.csv.json").read_text()) == completeness
    metadata = pq.read_schema(tmp_path / "back.parquet").metadata
    assert json.loads(metadata[b"firmlake.completeness"]) == completeness
    sheet = openpyxl.load_workbook(tmp_path / "back.xlsx").worksheets[-1]
    assert (sheet.title, [cell.value for cell in sheet[2]]) == (
        "Incomplete", ["the budget of a run or month was used up", "financials", count],
    )  # fmt: skip
    [manifest] = (tmp_path / "exported").glob("exports/*/manifest.json")
    in_manifest = json.loads(manifest.read_text())["incomplete"]
    assert [each for each in in_manifest if each["list"]] == lacking
    for file in manifest.parent.glob("companies/*/*.parquet"):
        assert json.loads(pq.read_schema(file).metadata[b"firmlake.completeness"])["incomplete"] == in_manifest
    [(comment,)] = query(desk.folders, "SELECT comment FROM duckdb_views() WHERE view_name = 'list'")
    assert f"Incomplete because of budget (financials: {count} companies)" in comment
    status = json.loads(desk.call("status", "--json")[1])["incomplete"]
    assert [(each["cause"], each["company_count"]) for each in status if each["list_name"]] == [("budget", count)] * 3
    assert "incomplete list" in desk.call("status")[1]
    metrics = tmp_path / "metrics.prom"
    desk.call("status", "--metrics", str(metrics))
    line = 'firmlake_incomplete_companies{list="list",dataset="financials",cause="budget"}'
    assert f"{line} {count}" in metrics.read_text()
