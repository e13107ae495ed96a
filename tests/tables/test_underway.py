"""What has landed of a run that is not in the warehouse: whom it paid for, and what is left to ask."""

from __future__ import annotations

from firmlake.core.company import Company
from firmlake.core.settings import RunSettings
from firmlake.tables.underway import is_recent, read_underway
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    NOON,
    answer,
    found,
    held_at,
    land,
    make_run,
    not_found,
    period,
    publish_landed,
    stage,
)

LAST = Company("BE", "0770493071")


def landed_run(folders):
    """A run of two shards, the second without an answer; a history came in part, and one company is not found."""
    run = make_run(folders, [ACME, BOLT, CIRC, LAST], ["financials"], shard_companies=3)
    page = [period(2000 + year) for year in range(5)]
    parts = found(ACME, "financials", *page, total=7), found(BOLT, "financials", period()), not_found(CIRC)
    told = {run.plan.names.credits_charged_header.lower(): "2"}
    land(run, answer("financials", *parts, offset=0, headers=told))
    return run


def test_companies_found_are_paid_for_and_the_rest_is_left(folders):
    underway = read_underway(landed_run(folders))
    assert underway.paid.rows() == [(*company, NOON.replace(tzinfo=None)) for company in (ACME, BOLT)]
    left = underway.targets_left().select("country", "company_number", "remaining_count").rows()
    assert left == [(*ACME, 2), (*LAST, None)]


def test_staged_tables_say_the_same(folders):
    run = landed_run(folders)
    before = read_underway(run)
    stage(run)
    after = read_underway(run)
    assert after.paid.equals(before.paid)
    assert after.charges.equals(before.charges)
    assert after.charges.rows() == [(NOON.replace(tzinfo=None), 2)]
    assert after.targets_left().equals(before.targets_left())


def test_a_run_of_this_month_matters_however_short_window_and_refresh_are(folders):
    plan = make_run(folders, [ACME], ["financials"]).plan
    run = RunSettings(refresh_after_days=0, credit_window_days=1)
    assert is_recent(plan, run, NOON + 30 * DAY)
    assert not is_recent(plan, run, NOON + 33 * DAY)


def test_nothing_is_left_of_a_run_whose_fetching_ended(folders):
    run = landed_run(folders)
    run.finish("stopped", "", NOON)
    assert read_underway(run).targets_left().is_empty()
    run.finish("refused", "", NOON)
    assert read_underway(run).targets_left().height == 2


def test_an_answer_inside_a_window_begins_none(folders):
    first = make_run(folders, [ACME], ["financials"])
    land(first, answer("financials", found(ACME, "financials", period()), offset=0))
    publish_landed(first)
    for days, is_paid in ((29, False), (30, True)):
        at = NOON + days * DAY
        late = make_run(folders, [ACME], ["financials"], run_id=f"20260{days}", at=at)
        land(late, answer("financials", found(ACME, "financials", period()), offset=0, at=at))
        held = held_at(folders, NOON + 31 * DAY)
        assert held.paid.select(ACME._fields).rows() == [tuple(ACME)] * is_paid
