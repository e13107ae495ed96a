"""What planning reads from the warehouse: what is fresh, what is paid for, how many records to expect."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from firmlake.core.company import Company
from firmlake.core.errors import DamagedError
from firmlake.core.folders import Folders
from firmlake.core.settings import PathSettings, RunSettings, Settings
from firmlake.core.work import lock
from firmlake.enrich.held import read_held
from firmlake.enrich.plan import plan_companies
from firmlake.intake.lines import known_companies
from firmlake.landing.run import list_runs
from firmlake.report.status import read_status
from firmlake.terminal.rows import show
from firmlake.terminal.status import status_parts
from support import (
    ACME,
    BOLT,
    CIRC,
    DAY,
    MINUTE,
    NOON,
    answer,
    found,
    header,
    held_at,
    land,
    log_of,
    lookalike,
    make_run,
    named,
    not_found,
    period,
    publish_landed,
)

NEW = Company("BE", "0770493071")
HOUR = timedelta(hours=1)


def publish_four(folders):
    """Publish a run in which each of four companies ended differently."""
    run = make_run(folders, [ACME, BOLT, CIRC, NEW], ["lookalikes"])
    ended = header("lookalikes", [CIRC], kind="given_up", status=None, error="refused"), b""
    some = found(ACME, "lookalikes", lookalike(), lookalike(), 5)
    land(run, answer("lookalikes", some, not_found(BOLT, "lookalikes")), ended)
    publish_landed(run)


@pytest.fixture
def published(copy_of):
    """A data folder in which each of four companies ended differently."""
    return copy_of(publish_four)


@pytest.fixture
def held(published):
    """Read what is held at some time after that."""

    def read(after, refresh=30, window=30, free=0):
        return held_at(published, NOON + after, refresh, window, free)

    return read


def fresh(held):
    return {
        Company(*row[:2]): row[2]
        for row in named(held.state).select("country", "company_number", "is_fresh").iter_rows()
    }


def closing(held):
    return {name for name, *_ in named(held.state.filter("is_closing")).select("company_number").rows()}


@pytest.mark.slow
def test_a_company_is_closing_in_the_last_days_of_its_window_and_a_weekly_schedule_hits_them(held):
    """Every week at any hour, late by half an hour or an hour early for daylight saving time; 0 never."""
    for hours in range(0, 7 * 24, 12):
        starts = [
            timedelta(days=7 * week, hours=hours, minutes=30 * (week % 2)) - HOUR * (week == 3) for week in range(6)
        ]
        hits = [bool(closing(held(start, free=7))) for start in starts]
        assert any(hits), hours
    assert closing(held(25 * DAY, free=7)) == {ACME.company_number}
    assert not closing(held(25 * DAY, free=0))
    assert not closing(held(21 * DAY, free=7)), "not yet"
    assert not closing(held(30 * DAY - 11 * HOUR, free=7)), "its window might end during the run"


def test_answers_are_fresh_for_so_many_days_and_failures_never(held):
    assert fresh(held(DAY)) == {ACME: True, BOLT: True, CIRC: False, NEW: False}
    assert fresh(held(30 * DAY - MINUTE))[BOLT] is True
    assert fresh(held(30 * DAY))[BOLT] is False
    assert fresh(held(timedelta(0), refresh=0))[BOLT] is False


def test_what_failed_or_did_not_fit_is_known_by_it(held):
    state = named(held(DAY).state)
    assert state.filter("has_failed").select("country", "company_number").rows() == [tuple(ACME), tuple(CIRC)]


def test_companies_that_are_not_found_because_answers_left_them_out_are_known_by_it(folders):
    run = make_run(folders, [ACME, NEW], ["lookalikes", "relationships"])
    ended = header("lookalikes", [NEW], kind="unknown", status=None, code="left_out"), b""
    said = found(ACME, "relationships"), not_found(NEW, "relationships")
    land(run, answer("lookalikes", found(ACME, "lookalikes")), answer("relationships", *said), ended)
    publish_landed(run)
    left_out = named(held_at(folders, NOON).state.filter("is_left_out"))
    assert left_out.select("company_number", "dataset").rows() == [(NEW.company_number, "lookalikes")]
    assert held_at(folders, NOON, 0).state.filter("is_left_out").is_empty(), "every company is asked for"


def test_only_the_companies_that_are_planned_are_read(published):
    for named_companies in ([BOLT], [BOLT, CIRC], []):
        frame = pl.DataFrame(named_companies, schema=dict.fromkeys(ACME._fields, pl.String), orient="row")
        few = read_held(Settings(), published, known_companies(frame, "few"), NOON + DAY)
        assert named(few.state).select(ACME._fields).rows() == [tuple(company) for company in named_companies]
        assert few.paid.is_empty()
        assert few.hits == ((0, 0) if BOLT in named_companies else (1, 1)), "of all, if they tell nothing"


def test_what_an_unfinished_run_keeps_is_paid_for_or_was_never_bought(folders):
    """Once its window has closed, a company is asked for everything again, because it costs a credit again."""
    datasets = ("financials", "lookalikes")
    run = make_run(folders, [ACME, BOLT, CIRC], datasets)
    land(run, answer("financials", found(ACME, "financials", period()), not_found(BOLT), offset=0))
    settings = Settings(
        paths=PathSettings(data=folders.data), run=RunSettings(datasets=datasets, refresh_after_days=90)
    )

    def shards(after):
        planned = plan_companies(settings, run.companies(), "list.csv", NOON + after)
        assert planned.unfinished is not None
        return dict(planned.targets.group_by("company_number").agg("shard").rows())

    acme, bolt, circ = (company.company_number for company in (ACME, BOLT, CIRC))
    assert shards(DAY) == {acme: [1], bolt: [1], circ: [2, 2]}
    assert shards(40 * DAY) == {acme: [2, 2], bolt: [1], circ: [2, 2]}


def test_only_companies_found_are_paid_for_as_long_as_a_run_may_last(held):
    assert named(held(29 * DAY).paid).select(ACME._fields).rows() == [tuple(ACME)]
    assert named(held(29.5 * DAY - MINUTE).paid).select(ACME._fields).rows() == [tuple(ACME)]
    assert named(held(29.5 * DAY).paid).select(ACME._fields).rows() == [], (
        "the window would end during the run, and its end be paid for"
    )


def test_the_price_of_a_list_follows_what_other_companies_have(folders):
    run = make_run(folders, [ACME, BOLT], ["financials"])
    pages = (
        answer("financials", found(each, "financials", period(2000), period(2001)), offset=0) for each in (ACME, BOLT)
    )
    land(run, *pages)
    publish_landed(run)
    assert held_at(folders, NOON).totals == [2, 2]


# --- what an operator asks -------------------------------------------------------------------------------------------


def test_status_tells_what_ran_what_is_open_who_is_at_work_and_what_to_do(published, capsys):
    status = read_status(published)
    assert (status.running, status.unfinished) == ("", [])
    assert status.last_run.run_id == "20260105T120000Z-0001"
    assert status.companies == {"lookalikes": {"failed": 1, "not_found": 1, "reported": 1, "waiting": 1}}
    assert all(size > 0 for size in status.disk_bytes.values())
    late = make_run(published, [ACME], run_id="20260109T120000Z-0009", at=NOON + 4 * DAY)
    status = read_status(published)
    assert [run for run, *_ in status.unfinished] == [late.run_id]
    assert late.run_id in status.next_step
    show(status_parts(status, NOON + 5 * DAY))
    lines = capsys.readouterr().out.splitlines()
    begun = [line.partition(":")[0] for line in lines if ":" in line]
    assert begun == ["Data folder", "Last run", "Running", "Unfinished", "Answers held", "On disk", "Next"]
    assert "done, 2026-01-05 12:01 UTC (5 days ago)" in lines[1]
    with lock(published, "firmlake run list.csv"):
        status = read_status(published)
    assert "firmlake run list.csv" in status.running
    assert status.next_step.startswith("Wait")


@pytest.mark.parametrize("kind", ["begun", "ended"])
def test_status_and_planning_go_on_where_a_published_run_is_damaged(published, kind):
    path = log_of(published, "20260105T120000Z-0001", kind)
    path.write_bytes(path.read_bytes()[::-1])
    status = read_status(published)
    [(run_id, line, next_step)] = status.damaged
    assert (run_id, str(path) in line) == (status.last_run.run_id, True)
    assert "`firmlake replay`" in next_step
    assert list_runs(published, [run_id]) == []
    with pytest.raises(DamagedError, match=str(path)):
        list_runs(published)


def test_status_goes_on_where_what_landed_of_contacts_is_damaged(folders):
    path = folders.additions / "plan=p1" / "plan.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{")
    status = read_status(folders)
    assert [(name, str(path) in line) for name, line, _ in status.damaged] == [("p1", True)]


def test_status_says_what_to_do_about_companies_that_an_earlier_list_left(published):
    publish_landed(make_run(published, [BOLT], ["lookalikes"], run_id="20260106T120000Z-0002"), "done")
    assert "firmlake redrive" in read_status(published).next_step


AHEAD = NOON + 365 * DAY


def publish_ahead(folders):
    run = make_run(folders, [ACME], ["lookalikes"], at=AHEAD)
    land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike()), at=AHEAD))
    publish_landed(run, at=AHEAD + MINUTE)


@pytest.mark.parametrize("now", [NOON, AHEAD - 2 * HOUR])
def test_a_time_in_the_future_makes_nothing_fresh_and_pays_for_nothing(built, now):
    held = held_at(Folders(built(publish_ahead)), now)
    assert held.state["is_fresh"].to_list() == [False]
    assert held.paid.is_empty()


@pytest.mark.parametrize("now", [AHEAD - timedelta(minutes=5), AHEAD, AHEAD + DAY])
def test_clocks_that_differ_by_minutes_are_ordinary(built, now):
    held = held_at(Folders(built(publish_ahead)), now)
    assert (held.state["is_fresh"].to_list(), held.paid.height) == ([True], 1)
