"""A sample of a list: its first companies that are not held, complete, and what the whole would cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmlake_sandbox import Sandbox
from lake import Lake


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
    nobody_left = lake.run("--sample", "5", "--out", str(lake.list.with_name("back.csv")))
    assert (nobody_left.code, "Run it without --sample" in nobody_left.err) == (0, True)
