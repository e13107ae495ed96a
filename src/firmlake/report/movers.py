"""The report's chapter on movers: who grew and shrank, who lost equity or money, and who is late."""

# ruff: noqa: S608 - statements are put together from texts of this module

from __future__ import annotations

from firmlake.report.section import Section

__all__ = ["MOVERS"]

_NUMBER = "country || ' ' || company_number AS number, count(*) OVER () AS total"
_GROWTH = f"""
    SELECT name AS company, {_NUMBER}, revenue_growth, revenue_annual AS revenue_amount,
        revenue_annual_before AS revenue_before_amount, end_date AS accounts_to,
        if(gap_days > 0, gap_days, NULL) AS days_between
    FROM shown
    WHERE is_comparable AND revenue_growth {{}}
        AND NOT 1 + revenue_growth::DOUBLE BETWEEN 300 AND 3000
        AND NOT 1 + revenue_growth::DOUBLE BETWEEN 1 / 3000 AND 1 / 300
    ORDER BY revenue_growth {{}}, country, company_number LIMIT 8
"""

MOVERS = (
    Section(
        "Movers",
        "Grew most",
        "Annual revenue against the period before. Accounts that cannot be compared (view `quality`) and jumps by a "
        "factor of 300 to 3,000 (view `leaps`) are left out. Days between the two periods are named, if there are any.",
        _GROWTH.format("> 0", "DESC"),
    ),
    Section(
        "",
        "Shrank most",
        "Annual revenue against the period before. The same accounts are left out.",
        _GROWTH.format("< 0", ""),
    ),
    Section(
        "",
        "Negative equity",
        "Debts exceed total assets. The lowest equity ratio first; doubtful figures are left out.",
        f"""
        SELECT name AS company, {_NUMBER}, equity_fraction, equity AS equity_amount,
            total_assets AS total_assets_amount, end_date AS accounts_to
        FROM shown WHERE equity < 0 AND is_comparable ORDER BY equity_fraction, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Losses in a row",
        "Companies that made a loss in at least their two newest periods; doubtful figures are left out.",
        f"""
        SELECT name AS company, {_NUMBER}, loss_period_count AS losses, net_profit AS last_result_amount,
            equity AS equity_amount, end_date AS accounts_to
        FROM shown WHERE loss_period_count > 1 AND is_comparable
        ORDER BY losses DESC, net_profit, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Late accounts",
        "Companies whose next accounts were overdue, by their usual filing date, when this generation was published.",
        f"""
        SELECT name AS company, {_NUMBER}, overdue_days AS days_late, expected_date AS expected,
            end_date AS newest_accounts
        FROM overdue((SELECT max(published_at)::DATE FROM loads))
        ORDER BY overdue_days DESC, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Figures left out as doubtful",
        "Newest accounts that cannot be compared with the company's others. Nothing is corrected; see the views "
        "`quality` and `unit_errors`.",
        f"""
        SELECT name AS company, {_NUMBER}, end_date AS accounts_to, incomparable_because AS because,
            total_assets AS total_assets_amount
        FROM shown WHERE NOT is_comparable ORDER BY total_assets DESC NULLS LAST, country, company_number LIMIT 8
        """,
    ),
)
