-- view two_newest
-- One row for each of the two newest periods of a company, as in accounts, with what portfolio and rules of alerts
-- compare.
--
-- incomparable_because: Why the figures do not compare with those of other periods. Null: they do
-- revenue_annual: Revenue, annualised
-- z: Altman's Z'', see altman. Null: a part is missing
-- usual_days_to_file: Median over all periods of the company, see punctuality
SELECT
    a.* EXCLUDE (liabilities),
    n.recency,
    incomparable_because(u.presumed_unit, a.period_days) AS incomparable_because,
    annualised(a.revenue, a.period_days) AS revenue_annual,
    altman_z(
        CASE WHEN a.total_assets > 0 THEN ratio(a.net_working_capital, a.total_assets) END,
        CASE WHEN a.total_assets > 0 THEN ratio(a.retained_earnings, a.total_assets) END,
        CASE WHEN a.total_assets > 0 THEN ratio(annualised(a.ebit, a.period_days), a.total_assets) END,
        CASE WHEN a.liabilities > 0 THEN ratio(a.equity, a.liabilities) END
    ) AS z,
    n.usual_days_to_file
FROM (
    -- Found first, so that only narrow rows of all periods are sorted. By a window, which DuckDB can spill: max(x, 2) and
    -- median of a million groups take gigabytes of memory.
    SELECT
        country, company_number, start_date, end_date, recency,
        median(date_received - end_date) OVER (PARTITION BY country, company_number) AS usual_days_to_file
    FROM accounts
    QUALIFY recency <= 2
) n
JOIN (
    -- Without recency, which would sort wide rows.
    SELECT
        * EXCLUDE (recency),
        coalesce(total_assets::DECIMAL(19, 2) - equity, debt)::DECIMAL(20, 2) AS liabilities
    FROM accounts
) a USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT country, company_number, start_date, end_date, presumed_unit FROM unit_errors
) u USING (country, company_number, start_date, end_date)
