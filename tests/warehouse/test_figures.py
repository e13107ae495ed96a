"""Views over the accounts give what one computes by hand, and nothing where something is missing."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from .figures import Figures

YEAR_2022, YEAR_2023, YEAR_2024 = (
    {"start": f"{year}-01-01", "end": f"{year}-12-31"} for year in (2022, 2023, 2024)
)  # fmt: skip


@pytest.fixture(scope="module")
def figures():
    """Companies by number, each about one rule."""
    made = Figures()
    # 1: three years, the second of them half a year long.
    made.files(1, **YEAR_2022, revenue="100.00", employee_count=10, net_profit="1.00", date_received="2023-05-31")
    made.files(1, start="2023-01-01", end="2023-06-30", revenue="60.33", employee_count=0, net_profit="-1.50")
    made.files(1, start="2023-07-01", end="2024-06-30", revenue="242.00", employee_count=8, net_profit="-2.25")
    # 2: the same period filed twice, the second answer received later; 3: the other way round.
    made.files(2, total_assets="1.00", date_received="2025-01-01")
    made.files(2, dup_no=1, total_assets="2.00", date_received="2025-02-01")
    made.files(3, total_assets="1.00", date_received="2025-02-01")
    made.files(3, dup_no=1, total_assets="2.00", date_received="2025-01-01")
    # 4: all that Z'' takes; 5: the same without retained earnings; 6: zeros everywhere.
    parts = {
        "net_working_capital": 200, "ebit": 100, "total_assets": 1000, "equity": 400, "debt": 500,
        "short_term_debt": 250, "cash": 50, "ebitda": 150, "net_profit": 80, "revenue": 2000, "gross_margin": 900,
        "long_term_debt_financial": 120, "short_term_debt_financial": 80,
    }  # fmt: skip
    made.files(4, retained_earnings=300, **parts)
    made.files(5, **parts)
    made.files(6, **dict.fromkeys((*parts, "retained_earnings", "employee_count"), 0))
    # 7: received after 100, 120 and 200 days.
    for year, received in ((2022, "2023-04-10"), (2023, "2024-04-29"), (2024, "2025-07-19")):
        made.files(7, f"{year}-12-31", f"{year}-01-01", date_received=received)
    # 8: more money than a float holds exactly.
    made.files(8, revenue="9007199254740993.01", total_assets="9007199254740993.01")
    made.files(9, employee_count=7, employee_male_fraction="0.571429", employee_female_fraction="0.428571")
    # 11: two periods end on one day; the one received last counts, though it began later.
    made.files(11, **YEAR_2022, revenue=100)
    made.files(11, start="2024-01-01", end="2024-12-31", revenue=100, date_received="2025-02-01")
    made.files(11, start="2024-01-02", end="2024-12-31", revenue=400, date_received="2025-03-01")
    made.add("companies", 10)
    made.add("company_state", 10, dataset="financials", status="not_found")
    made.add("company_state", 10, dataset="lookalikes", status="failed")
    made.connection.execute(
        "INSERT INTO dead_letters BY NAME SELECT 'NL' AS country, '00000010' AS company_number, 'r' AS run_id, "
        "'lookalikes' AS dataset, 'no_answer' AS reason_code, 'no answer' AS reason, "
        "3 AS attempt_count, now() AS failed_at"
    )
    for position, code in enumerate(("200", "0124", "200")):
        made.add(
            "financial_joint_committees", 9, start_date="2024-01-01", end_date="2024-12-31", dup_no=0,
            position=position, code=code,
        )  # fmt: skip
    return made.made()


def test_growth_compares_annual_figures_and_shows_both(figures):
    # 60.33 in 181 days is 121.66 in 365; 242.00 / 121.66 - 1 = 0.989150
    assert figures.of(1, "end_date, period_days, revenue, revenue_annual, revenue_growth, gap_days", "trend") == [
        (date(2022, 12, 31), 365, Decimal("100.00"), Decimal("100.00"), None, None),
        (date(2023, 6, 30), 181, Decimal("60.33"), Decimal("121.66"), 0.2166, 0),
        (date(2024, 6, 30), 366, Decimal("242.00"), Decimal("242.00"), 0.98915, 0),
    ]


def test_growth_from_nothing_or_from_a_loss_is_nothing(figures):
    # -1.50 in 181 days is -3.02 in 365.
    assert figures.of(1, "end_date, employee_growth, net_profit_growth", "trend")[1:] == [
        (date(2023, 6, 30), -1.0, -4.02),
        (date(2024, 6, 30), None, None),
    ]


def test_compound_growth_starts_at_the_period_nearest_to_the_years_asked_for(figures):
    # 547 days are 1.5 years: 2.42 to the power of 1 / 1.5, less one
    rows = figures.of(1, "base_end_date, span_years, revenue_cagr, employee_cagr", "cagr(1.5)")
    assert rows == [(date(2022, 12, 31), 1.5, round(2.42 ** (1 / 1.5) - 1, 6), round(0.8 ** (1 / 1.5) - 1, 6))]
    assert figures.of(1, "*", "cagr(5)") == []


def test_compound_growth_never_starts_at_the_newest_period_itself(figures):
    """Half a year off, it would be as near as any, and its growth would be nothing."""
    assert figures.of(1, "base_end_date", "cagr(0.5)") == []
    assert figures.of(4, "*", "cagr(0.5)") == []


def test_of_two_periods_that_end_on_one_day_all_views_take_the_same_for_the_newest(figures):
    assert figures.of(11, "start_date, revenue", "latest_accounts") == [(date(2024, 1, 2), Decimal("400.00"))]
    assert figures.of(11, "revenue_cagr", "cagr(2)") == [(1.0,)]
    # Received after 32 and 60 days: 46 as a rule.
    assert figures.of(11, "usual_days_to_file, expected_date", "overdue(DATE '2027-01-01')") == [
        (46, date(2026, 2, 15))
    ]
    revenue = "measure = 'revenue_annual'"
    assert figures.of(11, "value", f"(FROM percentiles(2024) WHERE {revenue})") == [(400.0,)]
    assert figures.ask(
        "SELECT value FROM place_by_year('NL', '00000011', 'revenue_annual') WHERE fiscal_year = 2024"
    ) == [(400.0,)]


@pytest.mark.parametrize("company", [2, 3])
def test_of_two_filings_the_one_received_last_is_shown(figures, company):
    expected = Decimal("2.00") if company == 2 else Decimal("1.00")
    assert figures.of(company, "total_assets, filing_count, recency", "accounts") == [(expected, 2, 1)]


def test_altmans_score_by_hand(figures):
    # 6.56 x 0.2 + 3.26 x 0.3 + 6.72 x 0.1 + 1.05 x 400 / (1000 - 400)
    columns = "x1, x2, x3, x4, z, zone, liabilities_from"
    assert figures.of(4, columns, "altman") == [(0.2, 0.3, 0.1, 0.666667, 3.662, "safe", "assets minus equity")]


def test_altmans_score_needs_no_debt_where_assets_and_equity_are_stated():
    parts = {"net_working_capital": 200, "ebit": 100, "total_assets": 1000, "equity": 800, "retained_earnings": 300}
    made = Figures()
    made.files(1, **parts, debt=0)
    made.files(2, **parts | {"equity": 1000}, debt=0)
    made.files(3, **parts | {"total_assets": -1000, "equity": -800}, debt=400, net_profit=5)
    made.made()
    assert made.of(1, "x4, z, liabilities_from", "altman") == [(4.0, 7.162, "assets minus equity")]
    assert made.of(2, "liabilities, x4, z", "altman") == [(0, None, None)], "who owes nothing has no score"
    ratios = "return_on_assets, return_on_equity, equity_fraction, debt_fraction, debt_to_equity"
    assert made.of(3, ratios, "ratios") == [(None,) * 5], "nothing is divided by less than zero"


def test_ratios_by_hand(figures):
    columns = (
        "gross_margin_fraction, ebitda_margin, ebit_margin, net_margin, return_on_assets, return_on_equity, "
        "cash_ratio, equity_fraction, debt_fraction, debt_to_equity, financial_debt, net_debt, net_debt_to_ebitda, "
        "is_equity_negative"
    )
    assert figures.of(4, columns, "ratios") == [
        (0.45, 0.075, 0.05, 0.04, 0.08, 0.2, 0.2, 0.4, 0.5, 1.25, Decimal("200.00"), Decimal("150.00"), 1.0, False)
    ]


def test_nothing_is_ever_divided_by_zero(figures):
    columns = (
        "gross_margin_fraction, return_on_assets, return_on_equity, cash_ratio, debt_to_equity, net_debt_to_ebitda"
    )
    assert figures.of(6, columns, "ratios") == [(None,) * 6]
    assert figures.of(6, "hired_fraction, revenue_per_employee", "people") == [(None, None)]


def test_money_is_exact_beyond_what_a_float_holds(figures):
    big = Decimal("9007199254740993.01")
    assert figures.of(8, "revenue, revenue_annual, total_assets", "trend") == [(big, big, big)]
    assert figures.of(8, "revenue, total_assets", "portfolio") == [(big, big)]


def test_punctuality_counts_days_after_the_end(figures):
    columns = "end_date, days_to_file, usual_days_to_file, days_later_than_usual"
    assert figures.of(7, columns, "punctuality") == [
        (date(2022, 12, 31), 100, 120, -20),
        (date(2023, 12, 31), 120, 120, 0),
        (date(2024, 12, 31), 200, 120, 80),
    ]


def test_a_correction_filed_later_does_not_make_a_company_late():
    """A company files after 100 days, and corrects its accounts two years later."""
    made = Figures()
    made.files(1, date_received="2025-04-10")
    made.files(1, dup_no=1, date_received="2027-01-01")
    made.files(2, dup_no=0)
    made.files(2, dup_no=1, date_received="2025-04-10")
    made.made()
    for company in (1, 2):
        assert made.of(company, "days_to_file, usual_days_to_file", "punctuality") == [(100, 100)]
        assert made.of(company, "days_to_file, usual_days_to_file", "portfolio") == [(100, 100)]
    assert made.of(1, "date_received, first_received", "accounts") == [(date(2027, 1, 1), date(2025, 4, 10))]


@pytest.mark.parametrize(
    ("end", "expected"),
    [("2023-02-28", "2024-02-29"), ("2024-02-29", "2025-02-28"), ("2024-12-31", "2025-12-31")],
)
def test_the_next_year_ends_with_its_month(end, expected):
    made = Figures()
    made.files(1, end, "2022-03-01", date_received=end)
    rows = made.made().ask(
        "SELECT expected_end_date, w.overdue_days FROM overdue(DATE '2026-01-01') o "
        "JOIN watched_figures(DATE '2026-01-01') w USING (company_number) WHERE o.overdue_days = w.overdue_days"
    )
    assert rows == [(date.fromisoformat(expected), (date(2026, 1, 1) - date.fromisoformat(expected)).days)]


def test_accounts_are_overdue_when_the_usual_time_after_the_next_year_has_passed(figures):
    # The next year ends on 2025-12-31; 120 days later is 2026-04-30.
    assert figures.of(7, "*", "overdue(DATE '2026-04-30')") == []
    for day in ("DATE '2026-05-02'", "'2026-05-02'", "TIMESTAMP '2026-05-02 13:00:00'"):
        assert figures.of(7, "expected_date, overdue_days", f"overdue({day})") == [(date(2026, 4, 30), 2)]


def test_days_overdue_count_to_the_day_in_utc_in_every_time_zone(figures):
    """These two zones are never on the same day."""
    found = set()
    for zone in ("Etc/GMT-14", "Etc/GMT+12"):
        figures.connection.execute(f"SET TimeZone = '{zone}'")
        found.update(figures.of(7, "overdue_days", "company_figures"))
    figures.connection.execute("RESET TimeZone")
    assert len(found) == 1
    assert found.pop() > (0,)


def test_losses_count_back_from_the_newest_period_only(figures):
    assert figures.of(1, "loss_period_count, first_end_date, loss_total", "loss_streaks") == [
        (2, date(2023, 6, 30), Decimal("-3.75"))
    ]
    assert figures.of(4, "*", "loss_streaks") == []


def test_people_are_counted_by_their_shares(figures):
    assert figures.of(9, "men_count, women_count", "people") == [(4, 3)]
    assert figures.of(1, "end_date, employee_change", "people")[1:] == [
        (date(2023, 6, 30), -10),
        (date(2024, 6, 30), 8),
    ]


def test_a_company_counts_once_for_a_code_that_its_accounts_name_twice(figures):
    assert figures.ask("FROM joint_committees ORDER BY code") == [("124", ["0124"], 1, 7), ("200", ["200"], 1, 7)]


def test_of_accounts_filed_again_the_codes_of_the_filing_shown_count():
    made = Figures()
    for filing, (received, code) in enumerate((("2025-01-01", "0111"), ("2025-03-01", "0222"))):
        made.files(1, dup_no=filing, date_received=received, employee_count=5)
        made.add(
            "financial_joint_committees", 1, start_date="2024-01-01", end_date="2024-12-31", dup_no=filing,
            position=0, code=code,
        )  # fmt: skip
    assert made.made().ask("SELECT code, company_count FROM joint_committees") == [("222", 1)]
    assert made.ask("SELECT committee FROM peer_groups") == [("222",)]


def test_zones_on_a_day_are_those_of_the_newest_accounts_as_everywhere():
    """Two periods end on one day: the one received last counts, though the other began later."""
    parts = {"net_working_capital": 200, "ebit": 100, "total_assets": 1000, "equity": 400, "retained_earnings": 300}
    made = Figures()
    made.files(1, start="2024-01-01", date_received="2025-03-01", **parts)
    made.files(1, start="2024-06-01", date_received="2025-02-01", **parts | {"net_working_capital": -900})
    assert made.made().ask("SELECT zone FROM portfolio") == [("safe",)]
    moved = made.ask("SELECT safe, distress FROM zone_migration(DATE '2023-12-31', DATE '2024-12-31')")
    assert moved == [(1, 0)]


def test_a_dataset_that_is_not_to_be_had_is_the_reason_why_nothing_is_held():
    made = Figures()
    states = {1: ("forbidden", "reported"), 2: ("unavailable", "unavailable"), 3: ("forbidden", "not_found")}
    for company, states_of in states.items():
        made.add("companies", company)
        for dataset, status in zip(("financials", "lookalikes"), states_of, strict=True):
            made.add("company_state", company, dataset=dataset, status=status)
    made.made()
    assert made.of(1, "dataset, reason", "coverage")[0] == ("financials", "forbidden")
    found = made.ask("SELECT status, reason FROM company_status ORDER BY company_number")
    assert found == [
        ("enriched", "financials: forbidden"),
        ("failed", "financials: unavailable; lookalikes: unavailable"),
        ("not found", "financials: forbidden"),
    ]


def test_coverage_says_why_nothing_is_held(figures):
    assert figures.of(10, "dataset, status, reason", "coverage") == [
        ("financials", "not_found", "the service knows no such company"),
        ("lookalikes", "failed", "no answer"),
        ("relationships", "not_asked", "not asked for in any run"),
    ]


def test_the_portfolio_shows_what_ratios_and_altman_say_of_the_newest_period(figures):
    names = (
        "equity_fraction, net_margin, gross_margin_fraction, ebitda_margin, return_on_assets, return_on_equity, "
        "quick_ratio, debt_to_equity, net_debt_to_ebitda, z, zone"
    )
    key = "country, company_number, start_date, end_date"
    made = figures.ask(f"SELECT {key}, {names} FROM portfolio ORDER BY ALL")
    shown = (
        f"SELECT {key}, {names} FROM ratios JOIN altman USING ({key}) SEMI JOIN portfolio USING ({key}) ORDER BY ALL"
    )
    assert made == figures.ask(shown)
    assert len(made) == 10


def test_a_streak_of_losses_ends_with_the_newest_period_without_one():
    made = Figures()
    for year, profit in ((2021, "-1.00"), (2022, None), (2023, "-2.00"), (2024, "-3.00")):
        made.files(1, start=f"{year}-01-01", end=f"{year}-12-31", net_profit=profit)
    # Two periods end on one day, and the one received last comes first: 2: it is a loss; 3: it is none.
    for company, received in ((2, "2025-03-01"), (3, "2025-02-01")):
        made.files(company, start="2024-01-01", end="2024-12-31", net_profit="1.00", date_received="2025-02-15")
        made.files(company, start="2024-01-02", end="2024-12-31", net_profit="-5.00", date_received=received)
        made.files(company, start="2025-01-01", end="2025-12-31", net_profit="-6.00")
    made.files(4, start="2023-01-01", end="2023-12-31", net_profit="-7.00")
    made.files(4, net_profit="-8.00")
    made.files(5, net_profit="0.00")
    rows = made.made().ask("SELECT company_number[-1:], loss_period_count, loss_total FROM loss_streaks ORDER BY ALL")
    assert rows == [(name, n, Decimal(total)) for name, n, total in [
        ("1", 2, "-5.00"), ("2", 2, "-11.00"), ("3", 1, "-6.00"), ("4", 2, "-15.00")
    ]]  # fmt: skip


def test_a_year_in_two_versions_is_one_loss():
    """Of 2024 the version received last counts; that the other one is a profit does not end the streak."""
    made = Figures()
    for company, other in ((1, -5), (2, 5)):
        made.files(company, "2023-12-31", "2023-01-01", net_profit=-10)
        made.files(company, "2024-12-31", "2024-01-01", net_profit=-20, date_received="2025-06-01")
        made.files(company, "2024-12-31", "2024-03-01", net_profit=other, date_received="2025-05-01")
    rows = made.made().ask("SELECT loss_period_count, first_end_date, loss_total FROM loss_streaks")
    assert rows == [(2, date(2023, 12, 31), Decimal(-30))] * 2


def test_losses_in_several_units_have_no_sum():
    made = Figures()
    for year, unit in ((2020, 1), (2021, 1), (2022, 1), (2023, 1000), (2024, 1)):
        amounts = {"total_assets": 5_000_000, "equity": 2_000_000, "debt": 3_000_000, "net_profit": -40_000}
        made.files(1, f"{year}-12-31", f"{year}-01-01", **{name: each / unit for name, each in amounts.items()})
    assert made.made().ask("SELECT loss_period_count, loss_total FROM loss_streaks") == [(5, None)]


# --- which periods are compared ---------------------------------------------------------------------------------------


def test_two_versions_of_one_year_are_never_compared():
    """A year of 365 days and a version of it of 275 days end on one day: growth is that against the year before."""
    made = Figures()
    made.files(1, "2024-09-30", "2023-10-01", revenue=100, employee_count=4)
    made.files(1, "2025-09-30", "2024-12-30", revenue=90, employee_count=5, date_received="2026-01-02")
    made.files(1, "2025-09-30", "2024-10-01", revenue=120, employee_count=5, date_received="2026-01-03")
    made.made()
    # 120 / 100 - 1; the shorter version: 90 * 365 / 275 = 119.45 a year, and 90 days lie before it.
    assert made.of(1, "start_date::VARCHAR, previous_end_date::VARCHAR, gap_days, revenue_growth", "trend") == [
        ("2023-10-01", None, None, None),
        ("2024-10-01", "2024-09-30", 0, 0.2),
        ("2024-12-30", "2024-09-30", 90, 0.1945),
    ]
    assert made.of(1, "gap_days, revenue_annual_before, revenue_growth", "portfolio") == [(0, Decimal("100.00"), 0.2)]
    watched = "accounts_to_before::VARCHAR, gap_days, revenue_growth"
    assert made.of(1, watched, "watched_figures(DATE '2026-01-01')") == [("2024-09-30", 0, 0.2)]
    assert made.of(1, "start_date::VARCHAR, previous_employee_count", "people")[1:] == [
        ("2024-10-01", 4), ("2024-12-30", 4)
    ]  # fmt: skip
    assert made.of(1, "base_end_date::VARCHAR, revenue_cagr", "cagr(1)") == [("2024-09-30", 0.2)]


def test_an_overlap_of_a_week_is_tolerated_and_one_of_eight_days_is_not():
    made = Figures()
    for company, start in ((1, "2023-12-25"), (2, "2023-12-24")):
        made.files(company, "2023-12-31", "2023-01-01", revenue=100)
        made.files(company, "2024-12-31", start, revenue=150)
    made.made()
    assert made.of(1, "gap_days, revenue_growth IS NOT NULL", "portfolio") == [(-7, True)]
    assert made.of(2, "gap_days, revenue_growth IS NOT NULL", "portfolio") == [(None, False)]


def test_growth_over_a_gap_is_marked_with_its_days():
    made = Figures()
    made.files(1, "2022-12-31", "2022-01-01", revenue=100)
    made.files(1, "2024-12-31", "2024-01-01", revenue=150)
    made.made()
    for view in ("trend", "portfolio", "company_figures", "watched_figures(DATE '2026-01-01')"):
        assert made.of(1, "gap_days, revenue_growth", f"(FROM {view} ORDER BY ALL DESC LIMIT 1)") == [(365, 0.5)], view


@pytest.mark.parametrize(
    ("start", "end", "because"),
    [
        ("2025-01-01", "2025-01-01", "it covers only 1 day"),
        ("2025-01-01", "2025-03-30", "it covers only 89 days"),
        ("2025-01-01", "2025-03-31", None),
        ("2025-01-01", "2024-12-31", "it ends before it begins"),
    ],
)
def test_a_period_below_90_days_is_in_doubt_and_not_converted_to_a_year(start, end, because):
    made = Figures()
    made.files(1, "2023-12-31", "2023-01-01", revenue=1000)
    made.files(1, end, start, revenue=90, total_assets=7)
    made.made()
    columns = "incomparable_because, is_comparable, revenue_annual, revenue_growth"
    annual, growth = (None, None) if because else (Decimal("365.00"), -0.635)
    assert made.of(1, columns, "portfolio") == [(because, because is None, annual, growth)]
    assert made.of(1, "doubt, revenue", "company_figures") == [(because, Decimal("90.00"))]
    assert bool(made.of(1, "*", "newest_measures")) == (because is None)


def test_a_period_that_ends_after_the_last_answer_is_not_the_newest():
    made = Figures()
    made.fill("runs", run_id="r", finished_at="2026-09-01")
    made.files(1, "2025-12-31", "2025-01-01", revenue=100, net_profit=-1)
    made.files(1, "2026-12-31", "2026-01-01", revenue=900, net_profit=5)
    made.made()
    assert made.of(1, "end_date::VARCHAR, revenue, is_comparable, loss_period_count", "portfolio") == [
        ("2025-12-31", Decimal("100.00"), True, 1)
    ]
    assert made.of(1, "recency, end_date::VARCHAR, incomparable_because", "quality") == [
        (1, "2025-12-31", None), (2, "2026-12-31", "it ends after the last answer")
    ]  # fmt: skip
    assert made.of(1, "end_date::VARCHAR, revenue_growth", "trend")[1] == ("2026-12-31", None)


def test_a_negative_total_and_two_amounts_that_leap_keep_a_period_out_of_growth():
    made = Figures()
    for year, assets, revenue in ((2022, 900, 1000), (2023, 900_000, 1_000_000), (2024, -5, 1_000_000)):
        others = dict.fromkeys(("equity", "debt", "cash", "capital"), 100)
        made.files(1, f"{year}-12-31", f"{year}-01-01", total_assets=assets, revenue=revenue, **others)
    assert made.made().of(1, "year(end_date), incomparable_because, total_assets_growth", "trend") == [
        (2022, None, None),
        (2023, "several amounts leap by about a thousand, see leaps", None),
        (2024, "a figure that cannot be negative is below zero", None),
    ]


def test_lists_tell_the_doubt_beside_the_figures():
    made = Figures()
    made.files(1, "2025-01-01", "2025-01-01", revenue=870)
    made.fill("company_lists", list_name="customers", file_name="c.csv")
    made.fill("list_members", list_name="customers", country="NL", company_number="00000001", status="accepted")
    made.made()
    assert made.ask("SELECT doubt, revenue FROM lists.customers") == [("it covers only 1 day", Decimal("870.00"))]
    uncommented = "SELECT column_name FROM duckdb_columns() WHERE schema_name = 'lists' AND comment IS NULL"
    assert made.ask(uncommented) == []
