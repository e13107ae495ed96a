"""What a run tells a person to look at although it ended as it should."""

from __future__ import annotations

import functools

import pytest

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.report.causes import find_doubts
from firmlake.report.page import make_report
from firmlake.warehouse.generations import open_warehouse
from support import (
    NOON,
    WAITING,
    header,
    land,
    land_run,
    lookalike,
    party,
    period,
    publish_landed,
    query,
    slow,
    with_views,
)

COMPANIES = [Company("BE", f"020000{number:04}") for number in range(6)]


def doubts_of(folders, answers, *unmentioned):
    """Publish a run over these companies; give its doubts and the report."""
    run = land_run(folders, 0, answers)
    if unmentioned:
        land(run, (header("relationships", unmentioned, kind="unknown", code="left_out"), b""))
    publish_landed(run)
    with_views(folders)
    with open_warehouse(folders) as connection:
        return [str(doubt) for doubt in find_doubts(connection, run.run_id)], make_report(connection, NOON)


@pytest.mark.parametrize(("unknown", "known"), [*slow((2, 0), (3, 1))])
def test_a_country_with_few_companies_or_a_known_one_is_in_no_doubt(unknown, known, folders):
    answers = {company: {"relationships": None if n < unknown else []} for n, company in enumerate(COMPANIES)}
    doubts, page = doubts_of(folders, dict(list(answers.items())[: unknown + known]))
    assert doubts == []
    assert "None found" not in page


def test_what_was_discarded_not_read_not_mentioned_or_is_doubtful_is_told_with_its_remedy(folders):
    """Two companies state halves of employees, those of two cover a day, and three Dutch ones are unknown.

    Nothing was said about the relationships of two: a passing fault looks like that, and nobody asks for them again
    while they are fresh.
    """
    half, short = period(people__employees=12.5), period(startDate="2024-12-31")
    codes = [period(2023), period(jointCommitteeCodes="200,124")]
    financials = ([half], [half], codes, [period()], [short], [short])
    asked = ([], *[WAITING] * 5)
    answers = {
        company: {"financials": periods, "relationships": parties}
        for company, periods, parties in zip(COMPANIES, financials, asked, strict=True)
    }
    answers |= dict.fromkeys([Company("NL", f"0000000{number}") for number in range(3)])
    doubts, page = doubts_of(folders, answers, *COMPANIES[1:3])
    assert (
        "Not read: financials.employee_count in 2 of 7 values (such as 12.5); discarded, and kept in extra_json. To "
        'keep them, set contract.types = {"financials.employee_count" = "decimal"}, then `firmlake replay`'
    ) in doubts
    assert "<code>firmlake replay</code>" in page
    starts = {text[:12]: text for text in doubts}
    assert starts["None found: "].startswith("None found: the service knows none of 3 Dutch companies")
    assert "None found" in page, "the report says what the run says"
    assert any(text.startswith("Not read: financials.joint_committee_codes in 1 of 7 values;") for text in doubts)
    assert starts["Not mentione"].startswith(
        "Not mentioned: the service answered, but said nothing about relationships of 2 companies"
    )
    assert "--refresh" in starts["Not mentione"]
    assert starts["Doubtful acc"].startswith(
        "Doubtful accounts: the newest of 2 companies (such as BE 0200000004: it covers only 1 day)"
    )
    assert len(doubts) == 5


def unreadable(record, dataset):
    """A record whose optional fields hold what no field can hold."""
    for field in DATASETS[dataset].fields.values():
        *path, key = field.path.split(".")
        inner = functools.reduce(lambda each, name: each.setdefault(name, {}), path, record)
        if not field.required:
            inner[key] = {"odd": [1]}
    return record


@pytest.mark.slow
def test_any_field_may_be_unreadable_and_the_summary_names_it(folders):
    records = {"financials": period(), "lookalikes": lookalike(), "relationships": party()}
    answers = {dataset: [unreadable(record, dataset)] for dataset, record in records.items()}
    doubts, page = doubts_of(folders, {COMPANIES[0]: answers})
    assert {dataset for (dataset,) in query(folders, "SELECT dataset FROM rejects")} == records.keys()
    assert any(text.startswith("Not read: ") for text in doubts)
    assert "Not read: " in page
