"""`firmlake.enrich` and `firmlake.plan`: any kind of frame goes in, and the data folder is the command's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import firmlake
from firmlake.core.errors import CompanyListError, SettingsError
from lake import Lake
from support import slow

ROWS = {
    "customer": ["Acme", "Bolt", "nobody", "not in the register"],
    "country": ["BE", "BE", "BE", "NL"],
    "number": ["0200000043", "0200.000.142", "12", "17085815"],
    "since": [2019, 2020, 2021, None],
}


@pytest.fixture
def lake(sandbox, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRMLAKE_API_TOKEN", sandbox.token)
    return Lake(tmp_path, sandbox, 12)


@pytest.fixture
def settings(lake):
    return {"api.base_url": lake.service.base_url, "api.requests_per_minute": 0}


KINDS = {
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pandas": pd.DataFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("kind", ["pandas", *slow("polars", "lazy", "arrow")])
def test_a_frame_of_any_kind_comes_back_line_by_line_with_its_columns(kind, settings, tmp_path):
    found = firmlake.enrich(KINDS[kind](ROWS), data=tmp_path / "data", settings=settings, list_name="customers")
    assert found.lines["customer"].to_list() == ROWS["customer"]
    assert found.lines["status"].to_list() == ["enriched", "enriched", "refused", "not found"]
    assert found.lines["since"].to_list()[:3] == [2019, 2020, 2021]
    assert found.companies.height == 3
    assert (found.failures.height, found.shortfall, found.summary.outcome) == (0, None, "done")
    assert found.financials.filter(pl.col("country") == "BE").select("revenue").collect().dtypes == [pl.Decimal(18, 2)]
    for frame in (found.financials, found.lookalikes, found.relationships):
        assert set(frame.collect()["company_number"]) <= {"0200000043", "0200000142"}
    assert found.warehouse == (tmp_path / "data/warehouse/firmlake.duckdb").resolve()


@pytest.mark.slow
def test_the_data_folder_is_the_commands_what_is_left_undone_is_returned_and_nothing_is_paid_twice(lake, settings):
    found = firmlake.enrich(lake.list, data=lake.data, settings={**settings, "run.max_credits": 5})
    assert found.shortfall is not None
    assert (found.shortfall.exit_code, found.companies.filter(pl.col("paid_at").is_not_null()).height) == (4, 5)
    ran = lake.run()
    assert (ran.code, ran.content["credit_count"], ran.content["list_name"]) == (0, 7, found.summary.list_name)
    found = firmlake.enrich(lake.list, data=lake.data, settings=settings)
    assert (found.shortfall, found.summary.request_count, found.companies.height) == (None, 0, 12)
    assert lake.query('SELECT count(*) FROM lists."list"') == [(12,)]
    planned = firmlake.plan(lake.list, data=lake.data, settings=settings)
    assert (planned.company_count, planned.target_count, planned.credits) == (12, 0, 0)


def test_a_plan_states_the_price_and_the_lines_that_are_refused_and_writes_nothing(settings, tmp_path):
    for make in KINDS.values():
        planned = firmlake.plan(make(ROWS), data=tmp_path / "data", settings=settings)
        assert planned.refused["line"].to_list() == [3]
        assert (planned.credits, planned.prices[0].worst, planned.prices[0].expected) == (3, 3, None)
        assert not (tmp_path / "data").exists()


def test_errors_are_those_of_the_command(settings, tmp_path):
    with pytest.raises(SettingsError, match="max_credit"):
        firmlake.plan(pl.DataFrame(ROWS), data=tmp_path, settings={"run.max_credit": 1})
    with pytest.raises(CompanyListError):
        firmlake.enrich(pl.DataFrame({"a": ["x", "y"]}), data=tmp_path / "data", settings=settings)
    with pytest.raises(CompanyListError, match=r"nowhere\.csv"):
        firmlake.plan(Path("nowhere.csv"), data=tmp_path, settings=settings)


def test_the_function_stays_a_function_after_its_package_is_imported():
    import firmlake.enrich.run

    assert callable(firmlake.enrich)
    assert sys.modules["firmlake.enrich"].__doc__


def test_to_import_firmlake_takes_nothing_with_it():
    code = "import sys, firmlake; assert not {'duckdb', 'polars', 'msgspec', 'prefect', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
