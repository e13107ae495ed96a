"""Fields that vanish: measured against what the same records held before, and refused where too many lost one."""

from __future__ import annotations

import msgspec
import pytest

from firmlake.core.errors import DriftError
from firmlake.core.settings import RunSettings, Settings
from firmlake.rebuild.verify import verify
from support import ACME, BOLT, CIRC, DAY, NOON, land_run, lookalike, party, period, publish_by_rules, query, slow

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
HIRES, ID_OF_PARTY = "people.newHires", "identifier.companyNumber"
TEXTS = [period(year, profitability__revenue="about 1.5") for year in YEARS]
SIMILAR = [lookalike(BOLT._replace(company_number=f"{number:08}"), 0.5) for number in range(12)]
# A party cannot be told from another one without its name, so parties of a company count together.
PARTIES = [party(BOLT._replace(company_number=f"{number:08}"), name=f"P{number}") for number in range(12)]


@pytest.mark.parametrize(
    ("before", "after", "settings", "vanished"),
    [
        # Who held nothing, a service that starts to leave out nulls, and who has fewer periods have lost nothing.
        ({BOLT: WITH_NULLS, CIRC: FULL}, {ACME: LACKING, BOLT: LACKING, CIRC: FULL[:1]}, {}, []),
        ({ACME: FULL}, {ACME: LACKING}, {"vanished_share_max": 1.0}, [("financials", HIRES, 12)]),
        ({ACME: FULL}, {ACME: FEW, BOLT: FEW}, {}, [("financials", HIRES, 3)]),
        *slow(
            (
                {ACME: FULL}, {ACME: FEW}, {"vanished_records_min": 3, "vanished_share_max": 0.5},
                [("financials", HIRES, 3)],
            ),
            ({ACME: PARTIES}, {ACME: [*PARTIES[:1], party(None)]}, {}, []),
        ),
    ],
)  # fmt: skip
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


def lacking(dataset, records, *path):
    """A case: the records lose a key, and the message names it."""
    said = f"12 of 12 {dataset} records no longer have {'.'.join(path)}"
    return dataset, records, [without(one, *path) for one in records], {}, said, "vanished_share_max=1"


@pytest.mark.parametrize(
    ("dataset", "before", "after", "settings", "said", "next_step"),
    [
        lacking("financials", FULL, "people", "newHires"),
        *slow(("financials", FULL, FEW, {"vanished_records_min": 1}, "3 of 12", "")),
        # Else a service that starts to send texts would replace every figure by nothing, and be done.
        (
            "financials", FULL, TEXTS, {}, "revenue, which was sent but did not fit (a number was expected",
            "once a setting under contract makes the values fit",
        ),
        *slow(
            lacking("lookalikes", SIMILAR, "score"),
            *(lacking("relationships", PARTIES, *path.split(".")) for path in ("percentage", "name", ID_OF_PARTY)),
        ),
    ],
)  # fmt: skip
def test_where_too_many_records_lost_a_field_nothing_is_published_and_old_rows_stay(
    copy_of, dataset, before, after, settings, said, next_step
):
    folders = copy_of(publish_before, dataset, {ACME: before})
    loads = "SELECT count(*) FROM loads"
    held = [query(folders, sql) for sql in (f"FROM {dataset} ORDER BY ALL", loads)]
    with pytest.raises(DriftError) as refused:
        publish_week(folders, 1, dataset, {ACME: after}, **settings)
    assert said in refused.value.message
    assert next_step in refused.value.next_step
    assert [query(folders, sql) for sql in (f"FROM {dataset} ORDER BY ALL", loads)] == held
