"""What a run tells a person to look at although it ended as it should."""

from __future__ import annotations

import functools

import pytest

from firmlake.api.contract import DATASETS
from firmlake.core.company import Company
from firmlake.report.page import make_report
from firmlake.report.summary import find_doubts
from firmlake.warehouse.generations import open_warehouse
from support import (
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
    slow,
    with_views,
)

COMPANIES = [Company("BE", f"020000{number:04}") for number in range(4)]


def doubts_of(folders, dataset, *elements, with_page=True):
    """Publish a run over as many companies as there are elements, and read its doubts and its report."""
    run = make_run(folders, COMPANIES[: len(elements)], [dataset])
    land(run, answer(dataset, *elements, offset=0 if DATASETS[dataset].is_paged else None))
    publish_landed(run)
    with_views(folders)
    with open_warehouse(folders) as connection:
        doubts = [str(doubt) for doubt in find_doubts(connection, run.run_id)]
        return doubts, make_report(connection, NOON).html if with_page else ""


@pytest.mark.parametrize(("unknown", "known", "is_doubtful"), [(3, 0, True), *slow((2, 0, False), (3, 1, False))])
def test_a_country_without_a_single_known_company_is_told(unknown, known, is_doubtful, folders):
    elements = [not_found(company) for company in COMPANIES[:unknown]]
    elements += [found(company, "relationships") for company in COMPANIES[unknown : unknown + known]]
    doubts, page = doubts_of(folders, "relationships", *elements, with_page=is_doubtful)
    assert [text.partition(".")[0] for text in doubts] == (
        ["None found: the service knows none of 3 Belgian companies"] * is_doubtful
    )
    assert ("None found" in page) == is_doubtful, "the report says what the run says"


def test_decimals_of_whole_numbers_name_the_setting_that_keeps_them(folders):
    elements = [found(company, "financials", period(people__employees=12.5)) for company in COMPANIES[:2]]
    doubts, page = doubts_of(folders, "financials", *elements)
    assert doubts == [
        "Decimals: financials.employee_count is no whole number in 2 records, where it was discarded. To keep it, set "
        'contract.types = {"financials.employee_count" = "decimal"}, then `firmlake replay`'
    ]
    assert "<code>firmlake replay</code>" in page


def unreadable(record, dataset):
    """A record whose optional fields hold what no field can hold."""
    for field in DATASETS[dataset].fields.values():
        *path, key = field.path.split(".")
        inner = functools.reduce(lambda each, name: each.setdefault(name, {}), path, record)
        if not field.required:
            inner[key] = {"odd": [1]}
    return record


@pytest.mark.parametrize(
    ("dataset", "record"), [("financials", period()), ("lookalikes", lookalike()), ("relationships", party())]
)
def test_any_field_may_be_unreadable_and_the_summary_names_it(dataset, record, folders):
    element = found(COMPANIES[0], dataset, unreadable(record, dataset))
    doubts, page = doubts_of(folders, dataset, element)
    assert any(text.startswith("Not read: ") for text in doubts)
    assert "Not read: " in page


def test_codes_that_are_no_array_are_named(folders):
    records = [period(2023), period(jointCommitteeCodes="200,124")]
    doubts, _ = doubts_of(folders, "financials", found(COMPANIES[0], "financials", *records))
    assert [text.partition(";")[0] for text in doubts] == [
        "Not read: financials.joint_committee_codes in 1 of 2 values"
    ]


def test_companies_that_are_unknown_only_because_nothing_was_said_about_them_are_told(folders):
    """A passing fault looks like that, and nobody asks for them again while they are fresh."""
    run = make_run(folders, COMPANIES[:3], ["relationships"])
    told = answer("relationships", found(COMPANIES[0], "relationships"))
    land(run, told, (header("relationships", COMPANIES[1:3], kind="unknown", code="left_out"), b""))
    publish_landed(run)
    with_views(folders)
    with open_warehouse(folders) as connection:
        (doubt,) = map(str, find_doubts(connection, run.run_id))
    assert doubt.startswith("Not mentioned: the service answered, but said nothing about relationships of 2 companies")
    assert "--refresh" in doubt


def test_companies_whose_newest_accounts_are_doubtful_are_counted(folders):
    """One closed after a day, one is sound: the line names the first of those in doubt, and why."""
    short = period(2024, startDate="2024-12-31")
    elements = [
        found(company, "financials", record)
        for company, record in zip(COMPANIES, (period(2024), short, short), strict=False)
    ]
    doubts, _ = doubts_of(folders, "financials", *elements, with_page=False)
    [line] = [text for text in doubts if text.startswith("Doubtful accounts")]
    assert line.startswith("Doubtful accounts: the newest of 2 companies (such as BE 0200000001: it covers only 1 day)")
