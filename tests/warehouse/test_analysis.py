"""Views that combine figures by a law or a published method give what one computes by hand from their descriptions."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest

from .figures import Figures, list_of, own


def test_capital_lost_by_half_and_by_a_quarter():
    made = Figures()
    for company, (equity, capital) in enumerate(((50, 100), (49, 100), (24, 100), (-1, None), (-1, 100), (60, 0)), 1):
        made.files(company, equity=equity, capital=capital)
    for table in ("financials", "companies"):
        made.connection.execute(f"UPDATE {table}_versions SET country = 'BE'")
    columns = "equity_to_capital, is_below_half, is_below_quarter, procedure"
    rows = made.made().ask(f"SELECT {columns} FROM capital_procedure ORDER BY company_number")
    assert rows == [
        (0.5, False, False, None),
        (0.49, True, False, "art. 7:228 (half) if NV"),
        (0.24, True, True, "art. 7:228 (a quarter) if NV"),
        (None, None, None, "art. 5:153 if BV"),
        (-0.01, True, True, "art. 7:228 (a quarter) if NV; art. 5:153 if BV"),
        (None, None, None, None),
    ]


def test_calendar_years_are_put_together_from_periods_that_close_in_september():
    made = Figures()
    made.files(1, "2023-09-30", "2022-10-01", revenue=365, equity=1)
    made.files(1, "2024-09-30", "2023-10-01", revenue=732, equity=2)
    made.files(1, "2025-09-30", "2024-10-01", revenue=1095, equity=3)
    made.made()
    # 2023: 273 of 365 days at 1 a day, 92 of 366 at 2; 2024: 274 days at 2, 92 of 365 at 3.
    columns = "year, days_covered, revenue, equity, closed_on::VARCHAR"
    assert made.of(1, columns, "calendar_years") == [
        (2022, 92, None, None, None),
        (2023, 365, Decimal(273 + 184), 1, "2023-09-30"),
        (2024, 366, Decimal(548 + 276), 2, "2024-09-30"),
        (2025, 273, None, 3, "2025-09-30"),
    ]
    # From 2024-04-01 on: 183 days at 2 and 182 at 3.
    ltm = made.of(1, "days_covered, revenue, equity", "last_twelve_months(DATE '2025-03-31')")
    assert ltm == [(365, Decimal(366 + 546), 2)]


def test_parts_of_periods_are_exact_and_half_a_cent_counts_away_from_zero():
    """Halves of 366 days; as a float, 774379838.305 lies below the half cent."""
    made = Figures()
    amounts = {"revenue": Decimal("1548759676.61"), "net_profit": Decimal("-0.01"), "ebitda": Decimal("0.01")}
    made.files(1, "2024-06-30", "2023-07-01", **amounts)
    made.files(1, "2025-06-30", "2024-07-01", revenue=0, net_profit=0, ebitda=0)
    rows = made.made().of(1, "revenue, net_profit, ebitda", "last_twelve_months(DATE '2024-12-30')")
    assert rows == [(Decimal("774379838.31"), Decimal("-0.01"), Decimal("0.01"))]
    # 2024-01-01 to 2024-06-30 are 182 of 366 days: 770,148,254.489...
    assert made.of(1, "year, revenue", "calendar_years")[1] == (2024, Decimal("770148254.49"))


def test_a_part_that_is_not_stated_and_a_second_version_do_not_count():
    made = Figures()
    made.files(1, "2024-06-30", "2023-07-01", revenue=100)
    made.files(1, "2025-06-30", "2024-07-01")
    made.files(2, "2024-12-31", "2024-01-01", revenue=100, date_received="2025-06-01")
    made.files(2, "2024-12-31", "2024-03-01", revenue=80, date_received="2025-05-01")
    made.made()
    assert made.of(1, "year, revenue", "calendar_years")[1] == (2024, None)
    assert made.of(2, "year, days_covered, revenue", "calendar_years") == [(2024, 366, Decimal(100))]


def test_working_capital_by_hand():
    made = Figures()
    rows = ((100, 60, 1), (40, 60, 2), (10, -5, 3), (-10, -15, 4), (-20, -15, 5), (-10, 5, 6))
    for company, (capital, requirement, _) in enumerate(rows, 1):
        made.files(company, net_working_capital=capital, net_working_capital_requirement=requirement, revenue=730,
                   cash=90, short_term_debt_financial=50, short_term_debt_accounts_payable=146,
                   long_term_debt_accounts_payable=4)  # fmt: skip
    made.files(7, net_working_capital=5)
    # 297,945.07 x 365 / 10,609,683.11 is 10.250066: the ratio is not rounded before it becomes days.
    made.files(8, "2025-12-31", "2025-01-01", revenue="10609683.11", net_working_capital_requirement="297945.07")
    made.made()
    assert made.of(8, "requirement_days", "working_capital") == [(10.3,)]
    assert made.ask("SELECT type_no FROM working_capital ORDER BY company_number") == [
        *((each[2],) for each in rows), (None,), (None,)
    ]  # fmt: skip
    columns = "net_cash, requirement_days, net_cash_stated, identity_difference, accounts_payable, payable_days"
    # 60 of 730 is 30 days; 146 of 730 is 73.
    assert made.of(1, columns, "working_capital") == [(40, 30.0, 40, 0, 150, 73.0)]
    assert made.of(2, columns, "working_capital") == [(-20, 30.0, 40, -60, 150, 73.0)]


def test_distress_scores_by_hand():
    parts = {
        "net_working_capital": 200, "ebit": 100, "total_assets": 1000, "equity": 400, "retained_earnings": 300,
        "net_profit": 80, "revenue": 2000, "current_ratio": 2, "cash_flow": 150, "debt": 600,
    }  # fmt: skip
    made = Figures()
    made.files(1, **parts)
    made.files(2, **parts | {"net_profit": -900, "equity": 50, "revenue": None})
    made.made()
    # -4.336 - 4.513 x 0.08 + 5.679 x 0.6 + 0.004 x 2 = -1.28164
    # 0.717 x 0.2 + 0.847 x 0.3 + 3.107 x 0.1 + 0.42 x 400 / 600 + 0.998 x 2 = 2.9842
    columns = "zmijewski, is_zmijewski_distress, altman_private, altman_private_zone, cash_flow_to_debt"
    assert made.of(1, columns, "distress_scores") == [(-1.2816, False, 2.9842, "safe", 0.25)]
    # -4.336 + 4.513 x 0.9 + 5.679 x 0.95 + 0.008
    assert made.of(2, columns, "distress_scores") == [(5.1288, True, None, None, 0.25)]


BEFORE = {
    "net_profit": 50, "cash_flow": 60, "total_assets": 1000, "long_term_debt": 300, "current_ratio": "1.1",
    "capital": 100, "gross_margin": 400, "revenue": 1000,
}  # fmt: skip
BETTER = {
    "net_profit": 90, "cash_flow": 95, "total_assets": 1000, "long_term_debt": 200, "current_ratio": "1.2",
    "capital": 100, "gross_margin": 500, "revenue": 1200,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "count", "score"),
    [
        ({}, 9, 9),
        ({"capital": 101}, 9, 8),
        ({"cash_flow": 90}, 9, 8),
        ({"cash_flow": -1}, 9, 7),
        ({"net_profit": -1, "cash_flow": -2}, 9, 5),  # no profit, no cash flow, no higher return, no backing
        ({"revenue": 900, "gross_margin": 300}, 9, 7),
        ({"current_ratio": None}, 8, None),
        ({"long_term_debt": 300}, 9, 8),
    ],
)
def test_piotroskis_signals_by_hand(changed, count, score):
    made = Figures()
    made.files(1, "2023-12-31", "2023-01-01", **BEFORE)
    made.files(1, **BETTER | changed)
    assert made.made().of(1, "signal_count, f_score", "piotroski") == [(count, score)]


def test_a_credit_limit_by_hand():
    made = Figures()
    sound = {"total_assets": 1000, "retained_earnings": 300, "ebit": 100, "cash_flow": 120}
    made.files(1, equity=400, net_working_capital=200, **sound)
    made.files(2, equity=-900, net_working_capital=-700, **sound)  # distress
    made.files(3, equity=400, **sound)
    made.made()
    # (10 + 40 + 20) / 3; three months and no equity: (30 + 0 + 20) / 3
    assert made.ask("SELECT credit_limit FROM credit_limits() ORDER BY company_number") == [(23,), (0,), (None,)]
    assert made.of(1, "credit_limit", "credit_limits(months := 3, equity_share := 0)") == [(17,)]


def test_the_status_of_an_sme_counts_linked_enterprises_and_partners():
    """1 (8 employees) holds 60 % of 2 (30) and 30 % of 3 (100), which holds 51 % of 4 (not held)."""
    made = Figures()
    for company, staff, assets in ((1, 8, 1_000_000), (2, 30, 3_000_000), (3, 100, 9_000_000), (5, 300, 1_000_000)):
        made.files(company, employee_count=staff, total_assets=assets, revenue=assets)
    for child, parent, stake in ((2, 1, 0.6), (3, 1, 0.3), (4, 3, 0.51)):
        own(made, child, parent, stake)
    made.made()
    columns = "own_status, status, employee_count, total_assets, linked_count, partner_count, missing_count"
    # 8 + 30 + 0.3 x 100
    assert made.of(1, columns, "sme_status()") == [("micro", "medium", 68.0, Decimal(6_700_000), 1, 1, 1)]
    assert made.of(2, columns, "sme_status()") == [("small", "medium", 68.0, Decimal(6_700_000), 1, 1, 1)]
    # 100 and 30 % of 8 + 30
    assert made.of(3, columns, "sme_status()") == [("medium", "medium", 111.4, Decimal(10_200_000), 1, 1, 1)]
    assert made.of(5, columns, "sme_status()") == [("large", "large", 300.0, Decimal(1_000_000), 0, 0, 0)]
    assert made.ask("SELECT company_number FROM sme_status('NL00000005')") == [("00000005",)]
    assert made.ask(f"SELECT {columns} FROM sme_status('NL00000003')") == made.of(3, columns, "sme_status()")


def test_linked_enterprises_hold_a_partner_together_and_of_stakes_in_each_other_the_greater_counts():
    """1 and 2 (60 % of 1) hold 15 % and 12 % of 3. 4 holds 30 % of 5, which holds 40 % of 4."""
    made = Figures()
    for company, staff in ((1, 10), (2, 20), (3, 100), (4, 10), (5, 200), (6, 10), (7, 10)):
        made.files(company, employee_count=staff, total_assets=1000)
    for child, parent, stake in ((2, 1, 0.6), (3, 1, 0.15), (3, 2, 0.12), (5, 4, 0.3), (4, 5, 0.4), (7, 6, 0.24)):
        own(made, child, parent, stake)
    made.made()
    columns = "company_number::INTEGER, employee_count, total_assets::INTEGER, partner_count"
    expected = [
        (1, 57.0, 2270, 1), (2, 57.0, 2270, 1), (3, 108.1, 1540, 1), (4, 90.0, 1400, 1), (5, 204.0, 1400, 1),
        (6, 10.0, 1000, 0), (7, 10.0, 1000, 0),
    ]  # fmt: skip
    assert made.ask(f"SELECT {columns} FROM sme_status() ORDER BY ALL") == expected
    for row in expected:
        assert made.ask(f"SELECT {columns} FROM sme_status('NL{row[0]:08}')") == [row]


def test_exposure_is_summed_by_head_of_group():
    made = Figures()
    for company in (1, 2, 3, 4):
        made.files(company)
    own(made, 1, 4, 0.6)
    own(made, 2, 4, 0.5)
    list_of(made, "customers", (1, "1.200,50"), (2, "300"), (3, "499,50"), (3, "n/a"), (None, "1000"), (4, ""))
    rows = made.made().ask("SELECT exposure_rank, head, head_company, line_count, company_count, exposure, "
                           "exposure_fraction, unread_count FROM exposure('CUSTOMERS', 'limit')")  # fmt: skip
    assert rows == [
        (1, "company 4", "NL 00000004", 3, 3, Decimal("1500.50"), 0.500167, 0),
        (2, None, None, 1, 0, Decimal("1000.00"), 0.333333, 0),
        (3, "company 3", "NL 00000003", 2, 1, Decimal("499.50"), 0.1665, 1),
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("'customer', 'limit'", "no list customer"),
        ("'customers', 'Limit'", r"customers has no column Limit; it has \[\"limit"),
    ],
)
def test_exposure_of_what_is_not_there_is_an_error_and_not_zero(call, said):
    made = Figures()
    made.files(1)
    list_of(made, "customers", (1, "10"))
    with pytest.raises(duckdb.Error, match=said):
        made.made().ask(f"FROM exposure({call})")


def test_a_line_of_totals_does_not_count_in_exposure():
    made = Figures()
    made.files(1)
    list_of(made, "customers", (1, "10"), (None, "5"), (None, "Totaal 15"), (None, "sub-total"))
    rows = made.made().ask("SELECT head, line_count, exposure FROM exposure('customers', 'limit')")
    assert rows == [("company 1", 1, Decimal(10)), (None, 1, Decimal(5))]


def test_exposure_keeps_two_persons_of_one_name_apart():
    """A person is known by name within one company, so equal names need not be the same person."""
    made = Figures()
    for company in (1, 2):
        made.files(company)
        own(made, company, stake=0.8, name="Jan Peeters")
    list_of(made, "customers", (1, "100"), (2, "50"))
    rows = made.made().ask("SELECT head, head_company, line_count, exposure FROM exposure('customers', 'limit')")
    assert rows == [("Jan Peeters", None, 1, Decimal(100)), ("Jan Peeters", None, 1, Decimal(50))]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("37,50", "37.5"), ("1.234,56", "1234.56"), ("1,234.56", "1234.56"), ("1.250", "1250"), ("0,125", "0.125"),
        ("€ 1 234,50", "1234.5"), ("(12)", "-12"), ("-3", "-3"), ("12-", "-12"), ("1.250.000", "1250000"),
        ("12345,678", "12345.678"), ("1'250.50", "1250.5"), ("EUR 5", "5"), ("n/a", None), ("", None), ("1.2.3", None),
    ],
)  # fmt: skip
def test_an_amount_is_read_as_people_write_it(empty_views, cell, expected):
    ((value,),) = empty_views.execute("SELECT amount(?)", [cell]).fetchall()
    assert value == (None if expected is None else Decimal(expected))


@pytest.fixture(scope="module")
def empty_views():
    return Figures().made().connection


def test_prospects_without_hubs():
    """7 resembles both seeds and eight others; 8 resembles one seed alone."""
    made = Figures()
    for company in range(1, 10):
        made.add("companies", company)
    for company in (1, 2, 3, 4, 5, 6, 9):
        made.add("lookalikes", company, rank=1, score=0.5, lookalike_country="NL", lookalike_company_number="00000007")
    made.add("lookalikes", 1, rank=2, score=0.9, lookalike_country="NL", lookalike_company_number="00000008")
    made.connection.execute("CREATE TABLE seeds AS FROM companies WHERE company_number IN ('00000001', '00000002')")
    made.made()
    columns = "SELECT company_number[-1:], score_sum, weighted_score"
    # 1 divided by ln(9); 0.9 divided by ln(3)
    assert made.ask(f"{columns} FROM prospects('seeds')") == [("7", 1.0, 0.45512), ("8", 0.9, 0.819215)]
    assert [each[0] for each in made.ask(f"{columns} FROM prospects('seeds', without_hubs := true)")] == ["8", "7"]


def test_real_growth_takes_inflation_out():
    made = Figures()
    made.files(1, "2023-12-31", "2023-01-01", revenue=100, total_assets=100)
    made.files(1, "2024-12-31", "2024-01-01", revenue=120, total_assets=121)
    made.connection.execute(
        "CREATE TABLE prices AS FROM (VALUES ('NL', DATE '2023-01-01', 90), ('NL', DATE '2023-07-01', 110), "
        "('NL', DATE '2024-01-01', 108), ('NL', DATE '2024-07-01', 121)) v(country, on_date, price_index)"
    )
    made.made()
    # The mean index rose from 100 to 114.5; the last one from 110 to 121.
    columns = "revenue_growth, price_growth, real_revenue_growth, real_total_assets_growth"
    assert made.of(1, columns, "real_growth('prices')") == [(0.2, 0.145, 0.048035, 0.1)]
    assert made.of(1, columns, "real_growth()") == [(0.2, None, None, None)]
