-- view two_newest
-- One row for each of the two newest periods of a company, as in accounts, with what portfolio and rules of alerts
-- compare.
--
-- incomparable_because: Why the figures do not compare with those of other periods. Null: they do
-- revenue_annual: Revenue, annualised
-- z: Altman's Z'', see altman. Null: a part is missing
-- usual_days_to_file: Median over all periods of the company, see punctuality
SELECT
    country, company_number, start_date, end_date, a.period_days, a.date_received,
    row_number() OVER (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    ) AS recency,
    incomparable_because(u.presumed_unit, a.period_days) AS incomparable_because,
    a.revenue,
    annualised(a.revenue, a.period_days) AS revenue_annual,
    a.ebitda, a.net_profit, a.total_assets, a.equity, a.debt, a.current_ratio, a.employee_count, a.health_indicator,
    altman_z(
        CASE WHEN a.total_assets > 0 THEN ratio(a.net_working_capital, a.total_assets) END,
        CASE WHEN a.total_assets > 0 THEN ratio(a.retained_earnings, a.total_assets) END,
        CASE WHEN a.total_assets > 0 THEN ratio(annualised(a.ebit, a.period_days), a.total_assets) END,
        CASE WHEN a.liabilities > 0 THEN ratio(a.equity, a.liabilities) END
    ) AS z,
    n.usual_days_to_file
FROM (
    -- Found first, so that only two periods are sorted.
    SELECT
        country, company_number,
        max(end_date, 2)[-1] AS earliest,
        median(date_received - end_date) AS usual_days_to_file
    FROM accounts
    GROUP BY country, company_number
) n
JOIN (
    -- Without recency, so that the periods of all companies are not sorted.
    SELECT
        country, company_number, start_date, end_date, date_received, period_days, revenue, ebitda, ebit, net_profit,
        net_working_capital, retained_earnings, total_assets, equity, debt, current_ratio, employee_count,
        health_indicator,
        coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2) AS liabilities
    FROM accounts
) a USING (country, company_number)
LEFT JOIN (
    SELECT country, company_number, start_date, end_date, presumed_unit FROM unit_errors
) u USING (country, company_number, start_date, end_date)
WHERE a.end_date >= n.earliest
QUALIFY recency <= 2
