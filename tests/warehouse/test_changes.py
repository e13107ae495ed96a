"""Changes: each event once, only from what changed, and first sights are no floods."""

from __future__ import annotations

import re

import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.tables.schemas import TABLES
from firmlake.warehouse.changes import KINDS
from support import (
    ACME,
    BOLT,
    CIRC,
    FAILED,
    found,
    lookalike,
    party,
    period,
    query,
    run_name,
    run_of,
)

FIRST, SECOND, THIRD = (run_name(7 * week) for week in range(3))


def events(folders, run_id, columns="kind, old_value, new_value", company=None):
    of_company = f" AND company_number = '{company.company_number}'" if company else ""
    where = f"WHERE run_id = '{run_id}'{of_company} ORDER BY country, company_number, position"
    return query(folders, f"SELECT {columns} FROM changes {where}")


# --- stories of one company each, told in the same three weeks -------------------------------------------------------

NO_EVENT: list[tuple[object, ...]] = []
YEARS = "kind, year(end_date)"
VALUES = "kind, old_value, new_value"
# The answers week by week, of which the last stays; then the events of the second week and of the third, by columns.
FINANCIALS = {
    "a company that goes and comes back is one event each": (
        ([period(2024)], None, [period(2024)]),
        (VALUES, [("company_gone", None, None)]),
        (VALUES, [("company_appeared", None, None)]),
    ),
    # The accounts that came while it was away are news, the others are not.
    "a company that returns is compared with its last answer": (
        ([period(2023), period(2022)], None, [period(2024), period(2023, profitability__revenue=2), period(2022)]),
        ("kind", [("company_gone",)]),
        (YEARS, [("company_appeared", None), ("new_accounts", 2024), ("period_restated", 2023)]),
    ),
    "accounts that come back after an empty answer are not new": (
        ([period(2023), period(2022)], [], [period(2024), period(2023, profitability__revenue=2), period(2022)]),
        ("kind", [("period_removed",), ("period_removed",)]),
        (
            YEARS,
            [("new_accounts", 2024), ("period_returned", 2023), ("period_returned", 2022), ("period_restated", 2023)],
        ),
    ),
    "new accounts are told by their period": (
        ([period(2023)], [period(2024), period(2023)]),
        (
            "kind, start_date::VARCHAR, end_date::VARCHAR, dup_no",
            [("new_accounts", "2024-01-01", "2024-12-31", 0)],
        ),
        (VALUES, NO_EVENT),
    ),
    "a restatement names each figure with old and new": (
        ([period(2024)], [period(2024, profitability__revenue=2, people__employees=None, unheardOf=1)]),
        (
            "kind, fields->>'$[*].field', fields->>'$[*].old', fields->>'$[*].new'",
            [("period_restated", ["revenue", "employee_count"], ["1234567.89", "12"], ["2.00", None])],
        ),
        (VALUES, NO_EVENT),
    ),
    "a filing in the place of another is a restatement of its date as well": (
        ([period(2024)], [period(2024, dateReceived="2025-09-01")]),
        ("kind, fields->>'$[*].field'", [("period_restated", ["date_received"])]),
        (VALUES, NO_EVENT),
    ),
    "a joint committee whose code has only zeros is shown as 0": (
        (
            [period(2024, jointCommitteeCodes=["200"])],
            [period(2024, jointCommitteeCodes=["0000", "200"])],
            [period(2024, jointCommitteeCodes=["0000"])],
        ),
        (VALUES, [("committees_changed", "200", "0, 200")]),
        (VALUES, [("committees_changed", "0, 200", "0")]),
    ),
    "joint committees are told by their numbers, whatever their zeros and order": (
        (
            [period(2024, jointCommitteeCodes=["0200", "124"]), period(2023)],
            [period(2024, jointCommitteeCodes=["124", "200"]), period(2023)],
            [period(2024, jointCommitteeCodes=["111", "124"]), period(2023, jointCommitteeCodes=[])],
        ),
        (VALUES, NO_EVENT),
        (VALUES, [("committees_changed", "124, 200", "111, 124"), ("committees_changed", "124, 200", None)]),
    ),
    "an unknown field alone is drift and no restatement": (
        ([period(2024)], [period(2024, unheardOf=1)]),
        (VALUES, NO_EVENT),
        (VALUES, NO_EVENT),
    ),
    "a period that is gone is told": (
        ([period(2024), period(2023)], [period(2024)]),
        (VALUES, [("period_removed", None, None)]),
        (VALUES, NO_EVENT),
    ),
    **{
        f"health is compared between the newest periods that state it, {after}": (
            ([period(2023)], [period(2025, healthIndicator=None), period(2024, healthIndicator=after), period(2023)]),
            (VALUES, [("new_accounts", None, None), ("new_accounts", None, None), (kind, "7", str(after))]),
            (VALUES, NO_EVENT),
        )
        for after, kind in ((8, "health_up"), (6, "health_down"))
    },
    "an indicator that was withdrawn, and a period that was removed, are no change of a score": (
        (
            [period(2024, healthIndicator=89), period(2023, healthIndicator=45)],
            [period(2024, healthIndicator=None), period(2023, healthIndicator=45)],
            [period(2023, healthIndicator=45)],
        ),
        (VALUES, [("period_restated", None, None)]),
        (VALUES, [("period_removed", None, None)]),
    ),
    "the health of a period is compared with that of the same period, though the one before it differs": (
        (
            [period(2024, healthIndicator=60), period(2023, healthIndicator=45)],
            [period(2024, healthIndicator=50), period(2023, healthIndicator=45)],
        ),
        (VALUES, [("period_restated", None, None), ("health_down", "60", "50")]),
        (VALUES, NO_EVENT),
    ),
    "of two periods that end on one day, the health of the one received last counts": (
        (
            [period(2024), period(2024, startDate="2024-07-01", dateReceived="2025-05-01", healthIndicator=1)],
            [period(2024), period(2024, startDate="2024-07-01", dateReceived="2025-08-01", healthIndicator=9)],
        ),
        (
            "kind, old_value, new_value, start_date::VARCHAR",
            [("period_restated", None, None, "2024-07-01"), ("health_up", "1", "9", "2024-07-01")],
        ),
        (VALUES, NO_EVENT),
    ),
}
RELATIONSHIPS = {
    "parties come and go, and move without a word": (
        (
            [party(BOLT), party(None, name="Ann"), party(None, name="Bob")],
            [party(None, name="Bob"), party(CIRC, percentage=0.5), party(BOLT)],
        ),
        (
            f"{VALUES}, direction, related_country, related_name",
            [
                ("parent_in", None, "0.500000", "parent", "FR", "FR company"),
                ("parent_out", "0.250000", None, "parent", None, "Ann"),
            ],
        ),
        (VALUES, NO_EVENT),
    ),
    "a stake is that of all rows of a party": (
        (
            [party(BOLT, percentage=0.2), party(BOLT, percentage=0.1), party(CIRC, percentage=None)],
            [party(BOLT, percentage=0.1), party(BOLT, percentage=0.3), party(CIRC, percentage=0.5)],
        ),
        (VALUES, [("stake_changed", None, "0.500000"), ("stake_changed", "0.300000", "0.400000")]),
        (VALUES, NO_EVENT),
    ),
    "stakes in another order are no change": (
        (
            [party(BOLT, percentage=0.2), party(BOLT, percentage=0.1)],
            [party(BOLT, percentage=0.1), party(BOLT, percentage=0.2)],
        ),
        (VALUES, NO_EVENT),
        (VALUES, NO_EVENT),
    ),
    "another function is told, and so is the stake in it": (
        (
            [party(BOLT), party(CIRC, function="BENEFICIAL_OWNER")],
            [
                party(BOLT, function="BENEFICIAL_OWNER", percentage=0.5),
                party(CIRC, function="BENEFICIAL_OWNER"),
                party(CIRC),
            ],
        ),
        (
            f'{VALUES}, "function"',
            [
                (
                    "function_changed",
                    "BENEFICIAL_OWNER",
                    "BENEFICIAL_OWNER, SHAREHOLDER",
                    "BENEFICIAL_OWNER, SHAREHOLDER",
                ),
                ("function_changed", "SHAREHOLDER", "BENEFICIAL_OWNER", "BENEFICIAL_OWNER"),
                ("stake_changed", None, "0.250000", "SHAREHOLDER"),
                ("stake_changed", None, "0.500000", "BENEFICIAL_OWNER"),
                ("stake_changed", "0.250000", None, "SHAREHOLDER"),
            ],
        ),
        (VALUES, NO_EVENT),
    ),
    "an entry that is said twice is one": (
        ([party(BOLT)], [party(BOLT), party(BOLT)]),
        (VALUES, NO_EVENT),
        (VALUES, NO_EVENT),
    ),
}
STORIES = {
    name: (dataset, Company("NL", f"{number:08}"), *story)
    for dataset, stories in (("financials", FINANCIALS), ("relationships", RELATIONSHIPS))
    for number, (name, story) in enumerate(stories.items(), 10_000_001)
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Three weeks of each dataset with a company for each story: a data folder by dataset."""
    made = {dataset: Folders(tmp_path_factory.mktemp(dataset)) for dataset in ("financials", "relationships")}
    for dataset, folders in made.items():
        of_dataset = [(company, answers) for of, company, answers, *_ in STORIES.values() if of == dataset]
        for week in range(3):
            shown = {company: {dataset: answers[min(week, len(answers) - 1)]} for company, answers in of_dataset}
            run_of(folders, 7 * week, shown)
    return made


@pytest.mark.parametrize("name", STORIES)
def test_of_a_company(told, name):
    dataset, company, _, second, third = STORIES[name]
    for run_id, (columns, expected) in ((SECOND, second), (THIRD, third)):
        assert events(told[dataset], run_id, columns, company) == expected


# --- what two weeks of one company differ by -------------------------------------------------------------------------


def test_the_first_sight_of_a_company_is_one_event_and_a_failure_none(folders):
    run_of(folders, 0, {ACME: {"financials": [period(2024), period(2023)]}, BOLT: None, CIRC: FAILED})
    assert events(folders, FIRST, "company_number, kind, position") == [(ACME.company_number, "company_appeared", 0)]
    run_of(folders, 7, {ACME: FAILED, BOLT: {"lookalikes": [lookalike(CIRC)]}})  # of another dataset
    assert [kind for kind, *_ in events(folders, SECOND)] == ["company_appeared"]
    run_of(folders, 14, {ACME: {"lookalikes": [lookalike(BOLT)]}})
    assert events(folders, THIRD) == []


def test_another_name_or_place_is_told_and_another_language_is_not(folders):
    def week(number, language, **names):
        element = found(ACME, "lookalikes")
        element["identifier"] |= names
        run = run_of(folders, 7 * number, {ACME: {"lookalikes": element}}, language=language)
        return events(folders, run.run_id)

    assert [kind for kind, *_ in week(1, "EN", name="Old", place="Ghent")] == ["company_appeared"]
    assert week(2, "NL", name="Oud", place="Gent") == []
    assert week(3, "NL", name="Nieuw", place="Brugge") == [
        ("company_renamed", "Oud", "Nieuw"), ("company_moved", "Gent", "Brugge"),
    ]  # fmt: skip


def test_a_filing_beside_another_is_new_and_the_other_is_as_it_was(folders):
    older, newer = period(2024), period(2024, dateReceived="2025-09-01", profitability__revenue=2)
    for week, filings in enumerate(([older], [newer, older], [newer])):
        run_of(folders, 7 * week, {ACME: {"financials": filings}})
        if week == 1:
            about = "changes JOIN financials USING (country, company_number, start_date, end_date, dup_no)"
            assert query(folders, f"SELECT revenue::INT FROM {about}") == [(2,)]
    assert events(folders, SECOND, "kind, dup_no") == [("new_accounts", 1)]
    assert events(folders, THIRD, "kind, dup_no") == [("period_removed", 0)]


def test_children_are_told_apart_from_parents(folders):
    for week, data in enumerate(
        ({"parents": [party(BOLT)], "children": []}, {"parents": [], "children": [party(BOLT)]})
    ):
        run_of(folders, 7 * week, {ACME: {"relationships": found(ACME, "relationships") | {"data": data}}})
    assert [kind for kind, *_ in events(folders, SECOND)] == ["parent_out", "child_in"]


def test_only_the_first_lookalikes_are_watched(folders):
    """How many is part of the run's plan, so that a replay gives the same events."""
    others = [Company("BE", f"040000000{number}") for number in range(4)]
    for week, order in enumerate(("0123", "1302")):
        similar = [lookalike(others[int(number)]) for number in order]
        run_of(folders, 7 * week, {ACME: {"lookalikes": similar}}, lookalikes_watched=2)
    assert events(folders, SECOND, "kind, related_company_number, old_value, new_value") == [
        ("lookalike_in", others[3].company_number, "4", "2"), ("lookalike_out", others[0].company_number, "1", "3"),
    ]  # fmt: skip


def test_the_schema_names_every_kind():
    comment = next(column.meaning for column in TABLES["company_changes"].columns if column.name == "kind")
    names = re.sub(r" \([^)]*\)", "", comment)
    assert names.replace(" or ", ", ").split(", ") == list(KINDS)


def test_a_change_says_when_it_was_found_and_the_name_that_the_company_has_today(folders):
    for week in range(3):
        run_of(folders, 7 * week, {ACME: {"financials": [period(profitability__revenue=week)]}, BOLT: None})
    asked = query(
        folders, "SELECT found_at::VARCHAR, name, kind FROM changes WHERE found_at >= DATE '2026-01-12' ORDER BY 1"
    )
    assert asked == [("2026-01-12 12:01:00", "BE name", "period_restated"),
                     ("2026-01-19 12:01:00", "BE name", "period_restated")]  # fmt: skip
    assert query(folders, "SELECT count(*) FROM company_changes") == query(folders, "SELECT count(*) FROM changes")
