"""Fields that vanish: measured against what the same records held before, and refused where too many lost one."""

from __future__ import annotations

import msgspec
import pytest

from firmlake.core.errors import DriftError
from firmlake.core.settings import RunSettings, Settings
from firmlake.enrich.finish import decide_outcome, publish_run
from firmlake.rebuild.verify import verify
from support import ACME, BOLT, DAY, NOON, answer, found, land, lookalike, make_run, party, period, query, slow, stage

YEARS = range(2000, 2012)
VANISHED = "SELECT dataset, path, record_count FROM drift WHERE kind = 'vanished_field' ORDER BY ALL"


def run_of(folders, dataset, records, *, day=0, company=ACME, **settings):
    """Fetch these records of a company, and publish them by the rules of a run."""
    at = NOON + day * DAY
    run = make_run(folders, [company], [dataset], run_id=f"2026010{5 + day}T120000Z-0001", at=at)
    land(run, answer(dataset, found(company, dataset, *records), offset=0, at=at))
    manifest, config = stage(run), Settings(run=RunSettings(**settings))
    outcome = decide_outcome(config, run, manifest, "", at)
    publish_run(config, run, manifest, outcome, at)
    return outcome.outcome


def without(record, *path):
    """The record without a key."""
    record = msgspec.json.decode(msgspec.json.encode(record))
    *parents, key = path
    holder = record
    for parent in parents:
        holder = holder[parent]
    del holder[key]
    return record


FULL = [period(year) for year in YEARS]
LACKING = [without(record, "people", "newHires") for record in FULL]


def test_on_a_first_run_nothing_has_vanished(folders):
    assert run_of(folders, "financials", LACKING) == "done"
    assert query(folders, VANISHED) == []


@pytest.mark.slow
def test_for_a_company_not_held_before_nothing_has_vanished(folders):
    run_of(folders, "financials", FULL)
    assert run_of(folders, "financials", LACKING, company=BOLT, day=1) == "done"
    assert query(folders, VANISHED) == []


def test_where_a_field_vanished_nothing_is_published_and_old_rows_stay(folders):
    run_of(folders, "financials", FULL)
    with pytest.raises(DriftError, match=r"12 of 12 financials records no longer have people\.newHires") as refused:
        run_of(folders, "financials", LACKING, day=1)
    assert "vanished_share_max=1" in refused.value.next_step
    assert query(folders, "SELECT count(new_hire_count), count(DISTINCT run_id) FROM financials") == [(12, 1)]
    assert query(folders, "SELECT count(*) FROM loads") == [(1,)]


@pytest.mark.slow
def test_a_setting_publishes_it_and_drift_says_what_vanished(folders):
    run_of(folders, "financials", FULL)
    assert run_of(folders, "financials", LACKING, day=1, vanished_share_max=1.0) == "done"
    assert query(folders, VANISHED) == [("financials", "people.newHires", 12)]
    assert query(folders, "SELECT count(new_hire_count) FROM financials") == [(0,)]
    assert all(check.agrees for check in verify(folders, lambda: NOON + DAY, memory_limit="100MB"))


@pytest.mark.parametrize("settings", [{}, *slow({"vanished_records_min": 3, "vanished_share_max": 0.5})])
def test_a_few_records_may_lose_a_field(folders, settings):
    run_of(folders, "financials", FULL)
    assert run_of(folders, "financials", LACKING[:3] + FULL[3:], day=1, **settings) == "done"
    assert query(folders, VANISHED) == [("financials", "people.newHires", 3)]


@pytest.mark.slow
def test_a_share_is_one_of_all_records_that_were_answered(folders):
    run_of(folders, "financials", FULL)
    with pytest.raises(DriftError, match="3 of 12"):
        run_of(folders, "financials", LACKING[:3] + FULL[3:], day=1, vanished_records_min=1)


@pytest.mark.slow
def test_a_service_that_starts_to_leave_out_nulls_has_lost_nothing(folders):
    run_of(folders, "financials", [period(year, people__newHires=None) for year in YEARS])
    assert run_of(folders, "financials", LACKING, day=1) == "done"
    assert query(folders, VANISHED) == []


def test_values_that_no_longer_fit_have_vanished_too(folders):
    """Else a service that starts to send texts would replace every figure by nothing, and be done."""
    run_of(folders, "financials", FULL)
    with pytest.raises(DriftError, match=r"revenue, which was sent but did not fit \(a number was expected") as refused:
        run_of(folders, "financials", [period(year, profitability__revenue="about 1.5") for year in YEARS], day=1)
    assert "once a setting under contract makes the values fit" in refused.value.next_step


def test_periods_that_are_gone_have_not_lost_a_field(folders):
    run_of(folders, "financials", FULL)
    assert run_of(folders, "financials", FULL[:1], day=1) == "done"
    assert query(folders, VANISHED) == []


@pytest.mark.slow
def test_a_score_that_vanished(folders):
    similar = [lookalike(BOLT._replace(company_number=f"{number:08}"), 0.5) for number in range(12)]
    run_of(folders, "lookalikes", similar)
    with pytest.raises(DriftError, match="12 of 12 lookalikes records no longer have score"):
        run_of(folders, "lookalikes", [without(one, "score") for one in similar], day=1)


@pytest.mark.parametrize("path", [("percentage",), *slow((("name",),), (("identifier", "companyNumber"),))])
def test_what_a_related_party_lost(folders, path):
    """It cannot be told from another one without its name, so parties of a company count together."""
    parents = [party(BOLT._replace(company_number=f"{number:08}"), name=f"P{number}") for number in range(12)]
    run_of(folders, "relationships", parents)
    with pytest.raises(DriftError, match="12 of 12 relationships records no longer have " + r"\.".join(path)):
        run_of(folders, "relationships", [without(one, *path) for one in parents], day=1)


@pytest.mark.slow
def test_a_parent_that_left_is_no_lost_field(folders):
    parents = [party(BOLT._replace(company_number=f"{number:08}"), name=f"P{number}") for number in range(12)]
    run_of(folders, "relationships", parents)
    assert run_of(folders, "relationships", [*parents[:1], party(None)], day=1) == "done"
    assert query(folders, VANISHED) == []
