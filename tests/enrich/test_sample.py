"""A sample of a list: its first companies that are not held, complete, and what the whole would cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmlake_sandbox import Sandbox
from reliability.support import Lake


@pytest.fixture
def lake(sandbox: Sandbox, tmp_path: Path) -> Lake:
    return Lake(tmp_path, sandbox, 30)


def test_a_sample_is_fetched_whole_and_the_rest_is_priced(lake: Lake) -> None:
    run = lake.run("--sample", "5")
    assert run.code == 0
    assert lake.query("SELECT country, company_number FROM companies ORDER BY ALL") == sorted(lake.numbers[:5])
    said = r"The whole list, without a sample: 30 companies to fetch, about [45] requests, at most 30 credits"
    assert re.search(said, run.err), run.err
    assert lake.ledger()["credits_charged"] <= 5


@pytest.mark.slow
def test_the_next_sample_is_of_the_next_companies_and_the_whole_run_buys_only_the_rest(lake: Lake) -> None:
    lake.run("--sample", "5")
    plan = lake.call("plan", str(lake.list), "--sample", "5", "--json").content
    assert (plan["target_count"], plan["credits"], plan["whole"]["target_count"]) == (5, 5, 25)
    assert lake.run("--sample", "5").code == 0
    assert lake.query("SELECT country, company_number FROM companies ORDER BY ALL") == sorted(lake.numbers[:10])
    whole = lake.run()
    assert whole.code == 0
    assert (whole.content["target_count"], lake.ledger()["companies_charged_again"]) == (20, 0)
    assert lake.run("--sample", "5").code == 0, "nobody is left to ask"


@pytest.mark.slow
def test_a_sample_larger_than_the_list_is_the_list(lake: Lake) -> None:
    assert lake.run("--sample", "500").code == 0
    assert lake.query("SELECT count(*) FROM companies") == [(30,)]


@pytest.mark.slow
def test_a_budget_holds_for_a_sample_too(lake: Lake) -> None:
    run = lake.run("--sample", "10", "--max-credits", "4")
    assert run.code == 4
    assert lake.ledger()["credits_charged"] <= 4
    assert lake.run("--sample", "10").code == 0
    assert lake.query("SELECT count(*) FROM companies WHERE paid_at IS NOT NULL") <= [(14,)]
    assert lake.ledger()["companies_charged_again"] == 0


def test_a_sample_that_is_no_number_is_refused(lake: Lake) -> None:
    assert lake.run("--sample", "some").code == 2
