"""What has landed of a run so far, from its answers or from the tables that were staged of them."""

from __future__ import annotations

from firmlake.tables.index import landed_facts
from firmlake.tables.stage import landed_tables
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


def landed_run(folders):
    """A history came in part, one company is found and one not."""
    run = make_run(folders, [ACME, BOLT, CIRC], ["financials"])
    page = [period(2000 + year) for year in range(5)]
    parts = found(ACME, "financials", *page, total=7), found(BOLT, "financials", period()), not_found(CIRC)
    told = {run.plan.names.credits_charged_header.lower(): "2"}
    land(run, answer("financials", *parts, offset=0, headers=told))
    return run


def test_companies_found_are_paid_for_and_a_part_of_a_history_leaves_its_company_waiting(folders):
    tables = landed_tables(landed_run(folders), 1)
    assert tables["company_state"]["status"].to_list() == ["waiting", "reported", "not_found"]
    assert tables["companies"]["paid_at"].to_list() == [NOON.replace(tzinfo=None)] * 2 + [None]


def test_staged_tables_say_the_same(folders):
    run = landed_run(folders)
    key = ["country", "company_number", "dataset", "status"]
    before, facts = landed_tables(run, 1)["company_state"].select(key), landed_facts(run)
    stage(run)
    assert landed_tables(run, 1)["company_state"].select(key).rows() == before.rows()
    assert [frame.rows() for frame in landed_facts(run)[:3]] == [frame.rows() for frame in facts[:3]]
    assert facts.charges["credits"].to_list() == [2]


def test_a_refused_run_has_bought_what_it_bought_but_said_nothing(folders):
    run = landed_run(folders)
    run.finish("refused", "", NOON, vanished_share=2.0)
    held = held_at(folders, NOON + DAY)
    assert held.state.is_empty()
    assert (held.paid.height, held.spent) == (2, 2)


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
