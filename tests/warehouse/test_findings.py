"""Each check finds what it is for and leaves the rest alone; nothing is corrected."""

from __future__ import annotations

import json

import pytest

from firmlake.warehouse.views import definitions

from .figures import Figures

SOUND = {
    "date_received": "2025-06-30", "total_assets": 1000, "equity": 400, "debt": 600, "long_term_debt": 350,
    "long_term_debt_financial": 200, "long_term_debt_accounts_payable": 150, "short_term_debt": 250,
    "short_term_debt_financial": 100, "short_term_debt_accounts_payable": 150, "net_working_capital": 50,
    "current_ratio": "1.2", "quick_ratio": "1", "ebitda": 10, "ebit": 5, "employee_count": 3, "new_hire_count": 0,
    "employee_male_fraction": "0.6667", "employee_female_fraction": "0.3333",
}  # fmt: skip
"""Accounts that no check minds."""

FAULTS = {
    "debt_parts": {"short_term_debt": 252, "current_ratio": "1.2"},
    "balance": {"equity": 402},
    "balance_short": {"equity": -101},
    "long_term_parts": {"long_term_debt_financial": 202},
    "short_term_parts": {"short_term_debt_accounts_payable": 152},
    "gender_sum": {"employee_female_fraction": "0.3"},
    "fraction_range": {"employee_male_fraction": "1.2", "employee_female_fraction": "-0.2"},
    "negative_amount": {"new_hire_count": -1},
    "current_ratio": {"current_ratio": "1.3"},
    "quick_ratio": {"quick_ratio": "1.22"},
    "profit_order": {"ebit": 12},
    "period_overlap": {"start": "2023-12-31"},
    "period_gap": {"start": "2024-01-05"},
    "period_length": {"start": "2024-02-01"},
    "period_reversed": {"start": "2025-01-01"},
    "received_early": {"date_received": "2024-12-30"},
    "factor_1000": {name: SOUND[name] * 1000 for name in SOUND if name.endswith(("assets", "equity", "capital"))}
    | {name: SOUND[name] * 1000 for name in SOUND if "debt" in name},
    "leap": {"total_assets": 400_000},
    "net_cash": {"net_working_capital_requirement": 100, "cash": 10},
}
"""What is wrong with the newest of two years, by the check that finds it."""

ALSO = {
    "leap": {"balance_short"},
    "period_length": {"period_gap"},
    "period_reversed": {"period_gap", "period_length"},
}
"""Checks that a fault concerns as well."""


@pytest.fixture(scope="module")
def figures():
    made = Figures()
    for company, fault in enumerate(FAULTS.values(), 1):
        first = {**SOUND, "date_received": "2024-06-30"}
        made.files(company, start="2023-01-01", end="2023-12-31", **first)
        made.files(company, **{**SOUND, **fault})
    made.files(100, **SOUND)
    made.files(100, dup_no=1, **{**SOUND, "date_received": "2025-07-01"})
    made.files(101)  # nothing is known, so nothing is wrong
    made.files(102, start="2023-01-01", end="2023-12-31", revenue=1, equity=-5, debt=7000, cash=1)
    made.files(102, revenue=300, equity=-5000, debt=7, cash=1000)
    made.files(102, start="2022-01-01", end="2022-12-31", revenue=1, equity=-5, debt=7, cash=1)
    for company, total_assets, equity in ((104, 400_000, 300_000), (105, 2_000_000, 400), (106, 2_000_000, 1)):
        made.files(company, start="2023-01-01", end="2023-12-31", total_assets=900, equity=900)
        made.files(company, total_assets=total_assets, equity=equity)
    for year, factor in ((2022, 1), (2023, 1), (2024, 100)):
        amounts = {name: SOUND[name] * factor for name in ("total_assets", "equity", "debt", "short_term_debt")}
        made.files(109, f"{year}-12-31", f"{year}-01-01", **amounts)
    made.fill("runs", run_id="r", finished_at="2026-01-05")
    made.files(110, "2026-12-31", "2026-01-01", **SOUND | {"date_received": None})
    made.files(103, employee_count=0, employee_male_fraction=0, employee_female_fraction=0)
    # 107: a longer period covers the days between two others; 108: it covers only some of them.
    for company, start in ((107, "2022-10-01"), (108, "2022-12-01")):
        made.files(company, start="2021-10-01", end="2022-09-30")
        made.files(company, start="2023-01-01", end="2023-06-30")
        made.files(company, start=start, end="2023-12-31")
    owner = {"related_kind": "company", "related_country": "NL", "function": "SHAREHOLDER", "position": 0}
    for child, parent, stake in ((200, 201, 1.01), (202, 203, 0.7), (202, 204, 0.4), (205, 205, 0.1)):
        position = parent
        made.add(
            "relationships", child, direction="parent",
            **{**owner, "position": position, "related_company_number": f"{parent:08}", "stake_fraction": stake},
        )  # fmt: skip
    for child, parent in ((206, 207), (207, 206)):
        made.add(
            "relationships", child, direction="parent",
            **{**owner, "related_company_number": f"{parent:08}", "stake_fraction": 0.5},
        )  # fmt: skip
    for child, parent in ((210, 211), (211, 212), (212, 210)):
        made.add(
            "relationships", child, direction="parent",
            **{**owner, "related_company_number": f"{parent:08}", "stake_fraction": 0.1},
        )  # fmt: skip
    made.add("companies", 208)
    made.add("company_state", 208, dataset="relationships", status="empty")
    made.add(
        "relationships", 209, direction="parent",
        **{**owner, "related_company_number": "00000208", "stake_fraction": 0.5},
    )  # fmt: skip
    return made.made()


def found(figures, company):
    return {check for (check,) in figures.of(company, "check_name", "findings")}


@pytest.mark.parametrize(("company", "check"), list(enumerate(FAULTS, 1)))
def test_a_check_finds_its_fault_and_no_other_does(figures, company, check):
    assert found(figures, company) == {check} | ALSO.get(check, set())


@pytest.mark.parametrize(
    ("company", "checks"),
    [
        (100, {"filed_again"}),
        (101, set()),
        (103, set()),
        (104, {"leap"}),
        (105, {"leap"}),
        (106, {"leap"}),
        (107, {"period_overlap", "period_length"}),
        (108, {"period_overlap", "period_length", "period_gap"}),
        (109, {"factor_other"}),
        (110, {"period_future"}),
        (200, {"stake_range", "stake_sum"}),
        (202, {"stake_sum"}),
        (205, {"self_holding"}),
        (206, {"cross_holding"}),
        (207, {"cross_holding"}),
        (209, {"stake_conflict"}),
        (210, {"ownership_ring"}),
        (211, set()),
    ],
)
def test_filings_and_stakes(figures, company, checks):
    assert found(figures, company) == checks


def test_every_check_is_tried_here(figures):
    tried = {check for (check,) in figures.ask("SELECT DISTINCT check_name FROM findings")}
    assert tried == {definition.name for definition in definitions() if definition.kind == "check"}


def test_evidence_is_what_was_received(figures):
    company = 1 + list(FAULTS).index("balance")
    rows = figures.of(company, "severity, start_date::VARCHAR, end_date::VARCHAR, evidence", "findings")
    assert [(*row[:3], json.loads(row[3])) for row in rows] == [
        ("warning", "2024-01-01", "2024-12-31", {"total_assets": 1000, "debt": 600, "equity": 402, "difference": 2})
    ]


def test_accounts_in_another_unit_are_one_finding_with_what_they_would_be(figures):
    company = 1 + list(FAULTS).index("factor_1000")
    columns = "end_date::VARCHAR, presumed_unit::DOUBLE, total_assets, total_assets_presumed, equity_presumed"
    assert figures.of(company, columns, "unit_errors") == [("2023-12-31", 1000, 1000, 1_000_000, 400_000)]


def test_growth_is_not_told_where_one_of_the_periods_is_in_another_unit(figures):
    company = 1 + list(FAULTS).index("factor_1000")
    assert figures.of(company, "end_date::VARCHAR, is_comparable, total_assets_growth", "trend") == [
        ("2023-12-31", False, None), ("2024-12-31", True, None),
    ]  # fmt: skip
    assert figures.of(company, "end_date::VARCHAR, incomparable_because", "quality") == [
        ("2023-12-31", "presumably in thousands, see unit_errors"), ("2024-12-31", None),
    ]  # fmt: skip
    assert figures.of(company, "*", "cagr(1)") == []


def test_a_ring_is_told_from_its_first_company_on_and_once(figures):
    ((evidence,),) = figures.ask("SELECT evidence FROM findings WHERE check_name = 'ownership_ring'")
    assert json.loads(evidence) == {"ring": ["NL00000210", "NL00000212", "NL00000211"], "company_count": 3}
