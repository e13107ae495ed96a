"""A bill that our ledger cannot explain is told by the run, the status and the report."""

from __future__ import annotations

import re

import polars as pl
import pytest

from firmlake.core.settings import RunSettings
from firmlake.report.bill import read_bill
from firmlake.report.page import write_report
from firmlake.report.status import read_status
from firmlake.report.summary import summarise
from firmlake.warehouse.generations import newest, open_warehouse
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    land,
    lookalike,
    make_run,
    publish_landed,
    publish_list,
    query,
    slow,
    with_views,
)


@pytest.mark.parametrize(
    ("charged", "answered", "failure", "bill"),
    [
        ("4", 207, {"status": 500}, "3 more"),  # any status of success tells charges
        ("1", 200, {"status": None, "kind": "no_answer", "error": "broken: cut"}, ""),
        *slow(("0", 200, None, "1 fewer"), ("unknown", 200, None, "")),
    ],
)
def test_a_bill_that_differs_from_the_ledger_is_told_with_both_counts(folders, charged, answered, failure, bill):
    """And a request without an answer counts as failed."""
    run = make_run(folders, [ACME], ["lookalikes"])
    element = found(ACME, "lookalikes", lookalike())
    if failure:
        land(run, answer("lookalikes", element, **failure))
    told = {run.plan.names.credits_charged_header.lower(): charged}
    land(run, answer("lookalikes", element, headers=told, status=answered))
    publish_landed(run, at=NOON + MINUTE)
    with open_warehouse(folders) as connection:
        warning = summarise(connection, run.run_id, newest(folders)).unexplained_bill
    expected = f"Unexplained bill: the service charged {charged} credits, our ledger expects 1 ({bill})" if bill else ""
    assert warning.startswith(expected)
    assert bool(warning) == bool(bill)
    assert ("Ask the service" in warning) == (bill == "3 more")
    assert ("unexplained bill" in read_status(folders).next_step) == (bill == "3 more")
    assert ("answers that never arrived" in warning) == (bill == "1 fewer")
    with_views(folders)
    counts = "SELECT failed_request_count, request_count, unexplained_credit_count FROM spend"
    unexplained = {"": 0, "3 more": 3, "1 fewer": -1}[bill] if charged != "unknown" else None
    assert query(folders, counts) == [(bool(failure), 1 + bool(failure), unexplained)]


def forecast(folders, company_list=""):
    bill = read_status(folders, company_list, RunSettings(), NOON + MINUTE).bill
    return [(each.day, each.credits) for each in bill.days if each.credits]


def land_one(run):
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))


def test_what_an_unfinished_run_still_has_to_buy_falls_due_today(folders):
    """Before the first publish too. What its budget leaves out waits for another run."""
    run = make_run(folders, [ACME, BOLT], ["lookalikes"], waiting=[CIRC])
    land_one(run)
    assert forecast(folders) == [(NOON.date(), 1)]
    publish_landed(run)
    assert forecast(folders) == []


def test_a_run_that_ended_has_nothing_to_buy_before_it_is_loaded_either(folders):
    run = make_run(folders, [ACME, BOLT], ["lookalikes"])
    land_one(run)
    run.finish("stopped", "", NOON + MINUTE)
    assert forecast(folders) == []


def test_credits_fall_due_on_the_day_of_the_time_zone_whatever_its_offset(folders):
    """18:40 in UTC is ten past midnight in India."""
    at = NOON.replace(hour=18, minute=40)
    run = make_run(folders, [ACME], ["lookalikes"], at=at)
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike()), at=at))
    publish_landed(run, at=at)
    with open_warehouse(folders) as connection:
        settings = RunSettings(time_zone="Asia/Kolkata", free_refresh_days=0)
        days = read_bill(connection, settings, at + 10 * DAY, 0).days
    assert [each.day for each in days] == [(at + 31 * DAY).date()]


@pytest.mark.slow
def test_what_an_unfinished_run_has_to_buy_is_counted_once_and_for_its_list_alone(folders):
    """The report forecasts what status does."""
    publish_list(folders, [ACME])
    first = make_run(folders, [ACME], ["lookalikes"], run_id="2026-1")
    land_one(first)
    publish_landed(first)
    with_views(folders)
    make_run(folders, [ACME, BOLT], ["lookalikes"], run_id="2026-2", at=NOON + MINUTE)
    make_run(folders, [BOLT], ["financials"], run_id="2026-3", at=NOON + MINUTE)
    assert forecast(folders) == [(NOON.date(), 1)]
    assert forecast(folders, "customers") == []
    page = write_report(folders, NOON + MINUTE, memory_limit="200MB", run=RunSettings()).read_text()
    (section,) = re.findall(r"The next four weeks.*?</section>", page, re.DOTALL)
    assert "05 Jan" in section, "the day of the credit, on which nothing else falls due"


@pytest.mark.slow
def test_what_a_budget_left_out_is_due_today_and_open_until_no_list_names_it(folders):
    publish_list(folders, [ACME, BOLT])
    assert forecast(folders) == [(NOON.date(), 2)]
    make_run(folders, [BOLT], ["lookalikes"], run_id="2026-1", at=NOON + MINUTE)
    assert forecast(folders) == [(NOON.date(), 2)], "an unfinished run that buys one of them adds nothing"
    publish_list(folders, [ACME], day=2)
    status = read_status(folders)
    assert sorted(kind for kind, _, _ in status.parked) == ["waiting", "waiting, on no list"]
    publish_list(folders, [None], day=3)
    run = make_run(folders, [CIRC], ["lookalikes"], run_id="2026-4", at=NOON + 4 * DAY)
    land(run, answer("lookalikes", found(CIRC, "lookalikes", lookalike()), at=NOON + 4 * DAY))
    publish_landed(run, at=NOON + 4 * DAY)
    status = read_status(folders)
    assert [kind for kind, _, _ in status.parked] == ["waiting, on no list"]
    assert "waiting" not in status.next_step


@pytest.mark.slow
def test_the_forecast_of_a_list_has_what_a_budget_left_out(folders):
    publish_list(folders, [ACME, BOLT])
    run = make_run(folders, [ACME], ["lookalikes"], run_id="2026-1")
    land_one(run)
    publish_landed(run)
    listed = pl.DataFrame([ACME, BOLT, CIRC], schema=["country", "company_number"], orient="row")
    with open_warehouse(folders) as connection:
        days = read_bill(connection, RunSettings(), NOON + MINUTE, 0, listed).days
        left = listed.filter(pl.col("company_number") != CIRC.company_number)
        bought = read_bill(connection, RunSettings(), NOON + MINUTE, 0, listed, left).days
    assert [(each.day, each.credits) for each in days if each.credits] == [(NOON.date(), 2)]
    assert sum(each.credits for each in bought) == 1, "a company that an unfinished run bought is not due again"
