"""The report's chapter on the financial health of the companies."""

from __future__ import annotations

from firmlake.report.section import Section

__all__ = ["HEALTH"]

HEALTH = (
    Section(
        "Health of the portfolio",
        "Altman's Z''",
        "From the newest accounts, with the approximations described in the data dictionary. An indication, no rating.",
        """
        SELECT coalesce(zone, 'no score') AS zone, count(*) AS companies
        FROM shown s GROUP BY s.zone ORDER BY list_position(['safe', 'grey', 'distress'], s.zone) NULLS LAST
        """,
        bars="companies",
    ),
    Section(
        "",
        "Equity by total assets",
        "",
        """
        SELECT
            CASE
                WHEN equity_fraction < 0 THEN 'below 0 %'
                WHEN equity_fraction < 1 THEN format('{0} to {1} %', fifth * 20, fifth * 20 + 20)
                ELSE '100 % and more'
            END AS equity_of_assets,
            count(*) AS companies
        FROM (SELECT equity_fraction, try_cast(floor(equity_fraction * 5) AS INTEGER) AS fifth FROM shown)
        WHERE equity_fraction IS NOT NULL GROUP BY ALL ORDER BY min(equity_fraction)
        """,
        bars="companies",
    ),
    Section(
        "",
        "Grew most",
        "Annual revenue against the previous period, except for periods whose figures do not compare (see `quality`).",
        """
        SELECT company, end_date, revenue_annual, revenue_growth FROM shown
        WHERE revenue_growth > 0 ORDER BY revenue_growth DESC, country, company_number LIMIT 8
        """,
        bars="revenue_growth",
    ),
    Section(
        "",
        "Shrank most",
        "Annual revenue against the previous period.",
        """
        SELECT company, end_date, revenue_annual, revenue_growth FROM shown
        WHERE revenue_growth < 0 ORDER BY revenue_growth, country, company_number LIMIT 8
        """,
        bars="revenue_growth",
    ),
    Section(
        "",
        "Negative equity",
        "Debts exceed what the company owns.",
        """
        SELECT company, end_date, equity, total_assets, equity_fraction FROM shown
        WHERE equity < 0 ORDER BY equity_fraction, country, company_number LIMIT 8
        """,
    ),
    Section(
        "",
        "Losses in a row",
        "Two periods or more, back from the newest.",
        """
        SELECT name AS company, loss_period_count AS losses, first_end_date AS since, loss_total FROM loss_streaks
        WHERE loss_period_count > 1 ORDER BY losses DESC, loss_total, country, company_number LIMIT 8
        """,
        bars="losses",
    ),
    Section(
        "",
        "Late accounts",
        "Accounts that were due, by the company's usual filing date, before this warehouse was published.",
        """
        SELECT name AS company, end_date AS newest_accounts, expected_date AS expected, overdue_days
        FROM overdue((SELECT max(published_at)::DATE FROM loads))
        ORDER BY overdue_days DESC, country, company_number LIMIT 8
        """,
        bars="overdue_days",
    ),
)
