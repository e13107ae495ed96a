"""The benchmark itself: what it measures is right. How fast it was is asserted nowhere but as a ratio, on demand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _found(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.slow
def test_a_small_run_is_verified_by_rows_and_sums(tmp_path, monkeypatch):
    from benchmarks import service
    from benchmarks.answers import Answers, expected_totals
    from benchmarks.lists import write_companies
    from benchmarks.measure import measure
    from benchmarks.pieces import Job
    from firmlake_sandbox import sample_numbers

    monkeypatch.setenv("FIRMLAKE_API_TOKEN", service.TOKEN)
    companies = sample_numbers(120)
    company_list = write_companies(tmp_path / "list.csv", companies)
    with service.start(pool=50) as (base_url, _):
        job = Job(tmp_path / "data", company_list, base_url)
        ran, planned, exported, reported, replayed = (
            measure(name, job) for name in ("run", "plan", "export", "report", "replay")
        )
    totals = msgspec.to_builtins(expected_totals(Answers(50), companies))
    assert ran["facts"] == exported["facts"] == replayed["facts"] == totals
    assert reported["facts"] == {"companies": 120}
    assert planned["facts"] == {
        "target_count": 360, "credit_count": totals["not_found"], "lookalikes": 2, "relationships": 2,
    }  # fmt: skip
    assert {"receive", "land", "check", "flatten", "stage", "load", "publish"} <= ran["stages"].keys()
    assert all(ran["written_bytes"][name] for name in ("landing", "staged", "warehouse"))


@pytest.mark.parametrize("dialect", ["nulls-omitted", "fields-added"])
def test_a_dialect_says_the_same_in_other_words(dialect):
    from benchmarks.answers import Answers, expected_totals

    companies = [("NL", f"{number:08}") for number in range(20)]
    plain, other = Answers(pool=5), Answers(pool=5, dialect=dialect)
    assert expected_totals(other, companies) == expected_totals(plain, companies)
    assert other.body("financials", companies, 5, 0) != plain.body("financials", companies, 5, 0)


def test_what_a_mixed_list_holds_is_known_while_it_is_written(tmp_path):
    from benchmarks.lists import write_mixed
    from benchmarks.measure import measure
    from benchmarks.pieces import Job

    facts = write_mixed(tmp_path / "list.csv", 2_000)
    assert measure("intake", Job(tmp_path, tmp_path / "list.csv", ""))["facts"] == facts
    assert all(facts.values())


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


def test_a_stage_is_named_if_it_costs_half_as_much_again():
    from benchmarks.history import compare

    before = {"receive": 0.2, "tables": 0.3}
    assert compare({"receive": 0.29, "tables": 0.44, "new": 9}, before) == []
    (worse,) = compare({"receive": 0.31, "tables": 0.3}, before)
    assert worse.startswith("receive: 0.310")


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_no_stage_costs_half_as_much_again_and_all_cost_less_than_the_plain_script():
    """In one run, on any machine, with everything that the plain script does not do."""
    from benchmarks.history import HISTORY, compare, measure_costs

    costs = measure_costs()
    assert costs["whole"] < 1
    assert compare(costs, msgspec.json.decode(HISTORY.read_bytes())[-1]["of_plain"]) == []
