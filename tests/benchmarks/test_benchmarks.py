"""The benchmark itself: what it measures is right. How fast it was is asserted nowhere but as a ratio, on demand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_a_small_run_is_verified_by_rows_and_sums(tmp_path, monkeypatch):
    from benchmarks import service
    from benchmarks.__main__ import write_list
    from benchmarks.answers import Answers, expected_totals
    from benchmarks.measure import measure
    from firmlake_sandbox import sample_numbers

    monkeypatch.setenv("FIRMLAKE_API_TOKEN", service.TOKEN)
    companies = sample_numbers(120)
    company_list = write_list(tmp_path / "list.csv", companies)
    with service.start(pool=50) as (base_url, _):
        result = measure("run", tmp_path / "data", company_list, base_url)
    assert result["totals"] == msgspec.to_builtins(expected_totals(Answers(50), companies))
    assert {"receive", "land", "check", "flatten", "stage", "load", "publish"} <= result["stages"].keys()
    assert all(result["written_bytes"].values())


def test_the_benchmark_knows_totals_from_the_numbers_alone():
    from benchmarks.answers import Answers, expected_totals

    answers = Answers(pool=20)
    companies = [("NL", f"{number:08}") for number in range(300)]
    totals = expected_totals(answers, companies)
    body = answers.body("financials", companies, 500, 0)
    elements = msgspec.json.decode(body)
    periods = [period for element in elements for period in element["data"] or ()]
    assert totals.companies == len(elements) == 300
    assert totals.not_found == sum(element["data"] is None for element in elements) > 0
    assert totals.financials == len(periods) == sum((e["pagination"] or {"total": 0})["total"] for e in elements)
    revenues = [round(100 * (period["profitability"]["revenue"] or 0)) for period in periods]
    assert totals.revenue_cents == sum(revenues) != 0


@pytest.mark.benchmark
@pytest.mark.timeout(900)
def test_firmlake_costs_less_than_the_plain_script(tmp_path):
    """In one run, on any machine, with everything that the plain script does not do."""
    command = [sys.executable, "-m", "benchmarks", "--work", str(tmp_path), "--rounds", "1"]
    command += ["--companies", "10000", "--scenarios", "--peers", "plain"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in result.stdout.splitlines() if "| run |" in line]
    cost = {row[1].strip(): float(row[4]) for row in rows}
    assert cost["firmlake"] < cost["plain"]
