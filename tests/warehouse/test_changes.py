"""Changes: each event once, only from what changed, and first sights are no floods."""

from __future__ import annotations

import json

import msgspec
import pytest

from firmlake.core.company import Company
from firmlake.core.run import Run
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.kinds import KINDS
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
    land,
    lookalike,
    make_run,
    not_found,
    party,
    period,
    publish_landed,
    query,
    slow,
)

FIRST, SECOND = "20260105T120000Z-0001", "20260112T120000Z-0002"


def run_of(folders, run_id, at, dataset, *elements, failed=()):
    companies = [*dict.fromkeys(company for company, _ in elements), *failed]
    run = make_run(folders, companies, [dataset], run_id=run_id, at=at)
    answers = [
        not_found(company, dataset) if records is None else found(company, dataset, *records)
        for company, records in elements
    ]
    land(run, answer(dataset, *answers, at=at, offset=0))
    for company in failed:
        land(run, (header(dataset, [company], kind="given_up", status=None, error="x", at=at, offset=0), b""))
    publish_landed(run, at=at + MINUTE)


def two_weeks(folders, dataset, before, after):
    """The events of the second week, of a company of which the answer was first the one, then the other."""
    run_of(folders, FIRST, NOON, dataset, (ACME, before))
    run_of(folders, SECOND, NOON + 7 * DAY, dataset, (ACME, after))
    return events(folders, SECOND)


def events(folders, run_id, columns="kind, old_value, new_value"):
    where = f"WHERE run_id = '{run_id}' ORDER BY country, company_number, position"
    return query(folders, f"SELECT {columns} FROM changes {where}")


# --- companies -------------------------------------------------------------------------------------------------------


def test_the_first_sight_of_a_company_is_one_event(folders):
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2024), period(2023)]), (BOLT, None))
    assert events(folders, FIRST, "company_number, kind, position") == [(ACME.company_number, "company_appeared", 0)]


def test_a_company_that_goes_and_comes_back_is_one_event_each(folders):
    gone = two_weeks(folders, "financials", [period(2024)], None)
    run_of(folders, "third", NOON + 14 * DAY, "financials", (ACME, [period(2024)]))
    assert [gone, events(folders, "third")] == [[("company_gone", None, None)], [("company_appeared", None, None)]]


def test_a_dataset_that_is_asked_for_the_first_time_is_no_news(folders):
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2024)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "lookalikes", (ACME, [lookalike(BOLT)]))
    assert events(folders, SECOND) == []


def test_neither_the_same_answer_nor_a_failure_is_an_event(folders):
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2024)]), (BOLT, [period(2024)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, [period(2024)]), failed=[BOLT])
    assert events(folders, SECOND) == []


def test_a_company_that_returns_is_compared_with_its_last_answer(folders):
    """The accounts that came while it was away are news, the others are not, nor are its parents."""
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2023), period(2022)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, None))
    back = [period(2024), period(2023, profitability__revenue=2), period(2022)]
    run_of(folders, "third", NOON + 14 * DAY, "financials", (ACME, back))
    rows = events(folders, "third", "kind, year(end_date)")
    assert rows == [("company_appeared", None), ("new_accounts", 2024), ("period_restated", 2023)]


def test_accounts_that_come_back_after_an_empty_answer_are_not_new(folders):
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2023), period(2022)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, []))
    assert [kind for kind, *_ in events(folders, SECOND)] == ["period_removed", "period_removed"]
    back = [period(2024), period(2023, profitability__revenue=2), period(2022)]
    run_of(folders, "third", NOON + 14 * DAY, "financials", (ACME, back))
    assert events(folders, "third", "kind, year(end_date)") == [
        ("new_accounts", 2024), ("period_returned", 2023), ("period_returned", 2022), ("period_restated", 2023),
    ]  # fmt: skip


def test_another_name_or_place_is_told_and_another_language_is_not(folders):
    def week(number, language, **names):
        run_id, at = f"2026020{number}T120000Z-0001", NOON + number * 7 * DAY
        run = make_run(folders, [ACME], ["lookalikes"], run_id=run_id, at=at)
        element = found(ACME, "lookalikes")
        element["identifier"] |= names
        land(run, answer("lookalikes", element, at=at))
        publish_landed(Run(folders, msgspec.structs.replace(run.plan, language=language)), at=at + MINUTE)
        return events(folders, run_id)

    assert [kind for kind, *_ in week(1, "EN", name="Old", place="Ghent")] == ["company_appeared"]
    assert week(2, "NL", name="Oud", place="Gent") == []
    assert week(3, "NL", name="Nieuw", place="Brugge") == [
        ("company_renamed", "Oud", "Nieuw"), ("company_moved", "Gent", "Brugge"),
    ]  # fmt: skip


# --- accounts --------------------------------------------------------------------------------------------------------


def test_new_accounts_are_told_by_their_period(folders):
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2023)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, [period(2024), period(2023)]))
    rows = events(folders, SECOND, "kind, start_date::VARCHAR, end_date::VARCHAR, dup_no")
    assert rows == [("new_accounts", "2024-01-01", "2024-12-31", 0)]


def test_a_restatement_names_each_figure_with_old_and_new(folders):
    changed = period(2024, profitability__revenue=2, people__employees=None, unheardOf=1)
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2024)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, [changed]))
    ((kind, fields),) = events(folders, SECOND, "kind, fields::VARCHAR")
    assert kind == "period_restated"
    assert json.loads(fields) == [
        {"field": "revenue", "old": "1234567.89", "new": "2.00"},
        {"field": "employee_count", "old": "12", "new": None},
    ]


def test_a_filing_beside_another_is_new_and_the_other_is_as_it_was(folders):
    older, newer = period(2024), period(2024, dateReceived="2025-09-01", profitability__revenue=2)
    run_of(folders, FIRST, NOON, "financials", (ACME, [older]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, [newer, older]))
    assert events(folders, SECOND, "kind, dup_no") == [("new_accounts", 1)]
    about = "changes JOIN financials USING (country, company_number, start_date, end_date, dup_no)"
    assert query(folders, f"SELECT revenue::INT FROM {about}") == [(2,)]
    run_of(folders, "third", NOON + 14 * DAY, "financials", (ACME, [newer]))
    assert events(folders, "third", "kind, dup_no") == [("period_removed", 0)]


def test_a_filing_in_the_place_of_another_is_a_restatement_of_its_date_as_well(folders):
    newer = period(2024, dateReceived="2025-09-01")
    run_of(folders, FIRST, NOON, "financials", (ACME, [period(2024)]))
    run_of(folders, SECOND, NOON + 7 * DAY, "financials", (ACME, [newer]))
    ((kind, fields),) = events(folders, SECOND, "kind, fields::VARCHAR")
    assert (kind, [field["field"] for field in json.loads(fields)]) == ("period_restated", ["date_received"])


def test_joint_committees_are_told_by_their_numbers_whatever_their_zeros_and_order(folders):
    before, after = period(2024, jointCommitteeCodes=["0200", "124"]), period(2024, jointCommitteeCodes=["124", "200"])
    assert two_weeks(folders, "financials", [before, period(2023)], [after, period(2023)]) == []
    other = period(2024, jointCommitteeCodes=["111", "124"])
    run_of(folders, "third", NOON + 14 * DAY, "financials", (ACME, [other, period(2023, jointCommitteeCodes=[])]))
    assert events(folders, "third") == [
        ("committees_changed", "124, 200", "111, 124"), ("committees_changed", "124, 200", None),
    ]  # fmt: skip


def test_an_unknown_field_alone_is_drift_and_no_restatement(folders):
    assert two_weeks(folders, "financials", [period(2024)], [period(2024, unheardOf=1)]) == []


def test_a_period_that_is_gone_is_told(folders):
    rows = two_weeks(folders, "financials", [period(2024), period(2023)], [period(2024)])
    assert rows == [("period_removed", None, None)]


@pytest.mark.parametrize(("after", "kind"), [(8, "health_up"), *slow((6, "health_down"))])
def test_health_is_compared_between_the_newest_periods_that_state_it(folders, after, kind):
    newest, silent = period(2024, healthIndicator=after), period(2025, healthIndicator=None)
    rows = two_weeks(folders, "financials", [period(2023)], [silent, newest, period(2023)])
    assert rows[2:] == [(kind, "7", str(after))]
    assert [row[0] for row in rows[:2]] == ["new_accounts", "new_accounts"]


# --- relationships ---------------------------------------------------------------------------------------------------


def test_parties_come_and_go_and_move_without_a_word(folders):
    before = [party(BOLT), party(None, name="Ann"), party(None, name="Bob")]
    rows = two_weeks(
        folders, "relationships", before, [party(None, name="Bob"), party(CIRC, percentage=0.5), party(BOLT)]
    )
    assert rows == [("parent_in", None, "0.500000"), ("parent_out", "0.250000", None)]
    assert events(folders, SECOND, "direction, related_country, related_name") == [
        ("parent", "FR", "FR company"), ("parent", None, "Ann"),
    ]  # fmt: skip


def test_a_stake_is_that_of_all_rows_of_a_party(folders):
    before = [party(BOLT, percentage=0.2), party(BOLT, percentage=0.1), party(CIRC, percentage=None)]
    after = [party(BOLT, percentage=0.1), party(BOLT, percentage=0.3), party(CIRC, percentage=0.5)]
    assert two_weeks(folders, "relationships", before, after) == [
        ("stake_changed", None, "0.500000"), ("stake_changed", "0.300000", "0.400000"),
    ]  # fmt: skip


def test_stakes_in_another_order_are_no_change(folders):
    before = [party(BOLT, percentage=0.2), party(BOLT, percentage=0.1)]
    assert two_weeks(folders, "relationships", before, before[::-1]) == []


def test_another_function_is_told_and_so_is_the_stake_in_it(folders):
    owner, other = party(BOLT), party(CIRC, function="BENEFICIAL_OWNER")
    after = [party(BOLT, function="BENEFICIAL_OWNER", percentage=0.5), other, party(CIRC)]
    assert two_weeks(folders, "relationships", [owner, other], after) == [
        ("function_changed", "BENEFICIAL_OWNER", "BENEFICIAL_OWNER, SHAREHOLDER"),
        ("function_changed", "SHAREHOLDER", "BENEFICIAL_OWNER"),
        ("stake_changed", "0.250000", "0.500000"),
    ]  # fmt: skip


def test_an_entry_that_is_said_twice_is_one(folders):
    assert two_weeks(folders, "relationships", [party(BOLT)], [party(BOLT), party(BOLT)]) == []


def test_children_are_told_apart_from_parents(folders):
    elements = [found(ACME, "relationships", party(BOLT)) for _ in range(2)]
    elements[1]["data"] = {"parents": [], "children": [party(BOLT)]}
    for run_id, at, element in zip((FIRST, SECOND), (NOON, NOON + 7 * DAY), elements, strict=True):
        run = make_run(folders, [ACME], ["relationships"], run_id=run_id, at=at)
        land(run, answer("relationships", element, at=at, offset=0))
        publish_landed(run, at=at + MINUTE)
    assert [kind for kind, *_ in events(folders, SECOND)] == ["parent_out", "child_in"]


# --- lookalikes ------------------------------------------------------------------------------------------------------


def test_only_the_first_lookalikes_are_watched(folders):
    """How many is part of the run's plan, so that a replay gives the same events."""
    others = [Company("BE", f"040000000{number}") for number in range(4)]
    for run_id, at, order in ((FIRST, NOON, "0123"), (SECOND, NOON + 7 * DAY, "1302")):
        run = make_run(folders, [ACME], ["lookalikes"], run_id=run_id, at=at)
        land(run, answer("lookalikes", found(ACME, "lookalikes", *(lookalike(others[int(n)]) for n in order)), at=at))
        publish_landed(Run(folders, msgspec.structs.replace(run.plan, lookalikes_watched=2)), at=at + MINUTE)
    assert events(folders, SECOND, "kind, related_company_number, old_value, new_value") == [
        ("lookalike_in", others[3].company_number, "4", "2"), ("lookalike_out", others[0].company_number, "1", "3"),
    ]  # fmt: skip


# --- the kinds themselves --------------------------------------------------------------------------------------------


def test_the_schema_names_every_kind():
    comment = next(column.meaning for column in TABLES["changes"].columns if column.name == "kind")
    assert comment.replace(" or ", ", ").split(", ") == list(KINDS)
