"""A bill that our ledger cannot explain is told by the run, the status and the report."""

from __future__ import annotations

import pytest

from firmlake.report.summary import summarise
from firmlake.warehouse.generations import newest, open_warehouse
from support import ACME, MINUTE, NOON, answer, found, land, lookalike, make_run, publish_landed, query


def charged(folders, credits_charged):
    run = make_run(folders, [ACME], ["lookalikes"])
    element = found(ACME, "lookalikes", lookalike())
    land(run, answer("lookalikes", element, headers={run.plan.names.credits_charged_header.lower(): credits_charged}))
    publish_landed(run, at=NOON + MINUTE)
    with open_warehouse(folders) as connection:
        return summarise(connection, run.run_id, newest(folders))


@pytest.mark.parametrize(("credits_charged", "bill"), [("4", "3 more"), ("0", "1 fewer")])
def test_a_bill_that_differs_from_the_ledger_is_told_with_both_counts(folders, credits_charged, bill):
    told = charged(folders, credits_charged).unexplained_bill
    assert told.startswith(
        f"Unexplained bill: the service charged {credits_charged} credits, our ledger expects 1 ({bill})"
    )


@pytest.mark.parametrize("credits_charged", ["1", "unknown"])
def test_a_bill_that_agrees_or_is_not_told_is_no_matter(folders, credits_charged):
    assert charged(folders, credits_charged).unexplained_bill == ""
    assert query(folders, "SELECT count(*) FROM runs WHERE credit_count <> expected_credit_count") == [(0,)]
