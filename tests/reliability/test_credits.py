"""Credits run out in the middle: nothing more is bought, what is paid for is fetched, the next run goes on."""

from __future__ import annotations

import pytest

from .support import assert_accounted, sized


@pytest.mark.parametrize("case", sized([], [(300, 130), *((1000, share) for share in (0, 1, 99, 250, 500, 750, 970))]))
def test_when_credits_run_out_the_rest_waits_and_nobody_pays_twice(case, sandbox, make_lake, undisturbed):
    count, credits = case
    expected = undisturbed(count)
    lake = make_lake(count, run__shard_companies=200)
    sandbox.set_options(credits=credits)
    result = lake.run()
    charged = lake.ledger()["credits_charged"]
    assert result.code == 4, result.err
    assert charged <= credits
    assert_accounted(result.content)
    assert result.content["expected_credit_count"] == charged
    bought = lake.query("SELECT count(*) FROM companies WHERE paid_at IS NOT NULL")[0][0]
    assert bought == charged
    half = lake.query(
        "SELECT count(*) FROM companies c JOIN company_state s USING (country, company_number) "
        "WHERE c.paid_at IS NOT NULL AND s.status = 'waiting'"
    )
    assert half == [(0,)], "a company that is paid for has all its datasets"
    sandbox.set_options(credits=100_000)
    assert lake.run().code == 0
    assert lake.content() == expected.content
    ledger = lake.ledger()
    assert ledger["companies_charged_again"] == 0
    assert ledger["credits_charged"] == expected.charged
    assert lake.query("SELECT sum(expected_credit_count)::INT FROM runs") == [(expected.charged,)]
    assert lake.call("verify").code == 0


@pytest.mark.parametrize("budget", sized([], [1, 2, 3, 5, 8, 12]))
def test_a_budget_of_requests_is_kept_and_the_next_run_goes_on(budget, make_lake, undisturbed):
    expected = undisturbed(300)
    lake = make_lake(300)
    assert lake.run("--max-requests", str(budget)).code == 4
    assert lake.ledger()["requests"] == budget
    assert lake.run().code == 0
    assert lake.content() == expected.content
    assert lake.ledger()["companies_charged_again"] == 0


@pytest.mark.reliability
def test_a_rerun_of_a_finished_run_sends_nothing(make_lake):
    lake = make_lake(200)
    lake.run()
    before = lake.ledger()["requests"]
    assert lake.run().code == 0
    assert lake.ledger()["requests"] == before
