"""Fields that vanish: measured against what the same records held before, and refused where too many lost one."""

from __future__ import annotations

import msgspec
import pytest

from firmlake.core.company import Company
from firmlake.core.errors import DriftError
from firmlake.core.settings import RunSettings, Settings
from firmlake.rebuild.verify import verify
from support import ACME, BOLT, CIRC, DAY, NOON, land_run, party, period, publish_by_rules, query, slow

DELT = Company("NL", "33011433")
YEARS = range(2000, 2012)


def publish_week(folders, day, dataset, answers, **settings):
    """Publish records of companies by the rules of a run, unless too many fields vanished."""
    run = land_run(folders, day, {company: {dataset: records} for company, records in answers.items()})
    publish_by_rules(run, Settings(run=RunSettings(**settings)), NOON + day * DAY)


def publish_before(folders, dataset, answers):
    publish_week(folders, 0, dataset, answers)


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
FEW = LACKING[:3] + FULL[3:]
WITH_NULLS = [period(year, people__newHires=None) for year in YEARS]
HIRES = "people.newHires"
TEXTS = [period(year, profitability__revenue="about 1.5") for year in YEARS]
# A party cannot be told from another one without its name, so parties of a company count together.
PARTIES = [party(BOLT._replace(company_number=f"{number:08}"), name=f"P{number}") for number in range(12)]


@pytest.mark.parametrize(
    ("before", "after", "settings", "vanished"),
    [
        # Who held nothing, a service that starts to leave out nulls, and who has fewer periods have lost nothing.
        (
            {ACME: FULL, BOLT: WITH_NULLS, CIRC: FULL},
            {ACME: FEW, BOLT: LACKING, CIRC: FULL[:1], DELT: LACKING}, {}, [("financials", HIRES, 3)],
        ),
        ({ACME: FULL}, {ACME: LACKING}, {"vanished_share_max": 1.0}, [("financials", HIRES, 12)]),
        *slow(
            ({ACME: PARTIES}, {ACME: [*PARTIES[:1], party(None)]}, {}, []),
        ),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_field_that_vanished_from_few_records_or_as_a_setting_allows_is_told(
    copy_of, before, after, settings, vanished
):
    dataset = "relationships" if PARTIES in before.values() else "financials"
    folders = copy_of(publish_before, dataset, before)
    publish_week(folders, 1, dataset, after, **settings)
    told = query(folders, "SELECT dataset, path, record_count FROM drift WHERE kind = 'vanished_field' ORDER BY ALL")
    assert told == vanished
    if settings.get("vanished_share_max") == 1:
        assert all(check.agrees for check in verify(folders, lambda: NOON + DAY))


def test_values_that_no_longer_fit_replace_none_that_did(copy_of):
    """Else a service that starts to send texts would replace every figure by nothing, and be done."""
    folders = copy_of(publish_before, "financials", {ACME: FULL})
    held = query(folders, "FROM financials ORDER BY ALL"), query(folders, "SELECT count(*) FROM loads")
    with pytest.raises(DriftError, match=r"revenue, which was sent but did not fit \(a number was expected") as refused:
        publish_week(folders, 1, "financials", {ACME: TEXTS})
    assert "once a setting under contract makes the values fit" in refused.value.next_step
    assert held == (query(folders, "FROM financials ORDER BY ALL"), query(folders, "SELECT count(*) FROM loads"))
