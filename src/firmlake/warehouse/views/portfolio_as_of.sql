-- macro portfolio_as_of(moment)
-- example: portfolio_as_of(TIMESTAMP '2030-01-01')
-- One row per company with accounts at a moment, as portfolio had it then: main figures of the newest period that the
-- warehouse held. moment is a run or a time, as in financials_as_of. Doubts are those of today.
--
-- name: Name of the company today. Null: it was never found
-- incomparable_because: Why the figures are not comparable, as far as known today. Null: they are comparable
-- revenue_annual: Revenue converted to a year of 365 days. Null: it is missing, or the period is shorter than 90 days
-- equity_fraction: Equity divided by total assets. Null: one is missing, or total assets are not above zero
-- z: Altman's Z'', see altman. Null: a part is missing
-- zone: safe (above 2.6), grey or distress (below 1.1). Null: there is no score
SELECT
    f.country, f.company_number, c.name, f.start_date, f.end_date, f.date_received, d.incomparable_because,
    f.revenue, annualised(f.revenue, f.end_date - f.start_date + 1) AS revenue_annual, f.net_profit, f.total_assets,
    f.equity, ratio(f.equity, f.total_assets) AS equity_fraction, f.debt, f.employee_count, f.health_indicator,
    altman_of(
        f.total_assets, f.net_working_capital, f.retained_earnings, f.ebit, f.equity, f.debt, f.end_date - f.start_date + 1
    ) AS z,
    altman_zone(z) AS zone
FROM (
    SELECT *, end_date > last_answer_day() AS is_future FROM financials_as_of(moment)
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number
        ORDER BY is_future, end_date DESC, date_received DESC NULLS LAST, start_date, dup_no DESC
    ) = 1
) f
LEFT JOIN companies c ON c.country = f.country AND c.company_number = f.company_number
LEFT JOIN doubtful_periods d ON
    (d.country, d.company_number, d.start_date, d.end_date) = (f.country, f.company_number, f.start_date, f.end_date)
