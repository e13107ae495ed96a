-- view two_newest
-- One row for each of the two newest periods of a company, as in accounts, with the figures that portfolio compares.
--
-- incomparable_because: Why the figures are not comparable with those of other periods. Null: they are comparable
-- revenue_annual: Revenue converted to a year of 365 days. Null: it is missing
-- z: Altman's Z'', see altman. Null: a part is missing
-- usual_days_to_file: Median of days_to_file over all periods of the company, see punctuality. Null: the day of receipt
-- is never stated
SELECT
    a.*,
    n.recency,
    incomparable_because(u.presumed_unit, a.period_days) AS incomparable_because,
    annualised(a.revenue, a.period_days) AS revenue_annual,
    altman_of(a.total_assets, a.net_working_capital, a.retained_earnings, a.ebit, a.equity, a.debt, a.period_days)
        AS z,
    n.usual_days_to_file
FROM (
    -- Found first, so that only narrow rows of all periods are sorted. By windows, which DuckDB can spill: max(x, 2) and
    -- median of a million groups take gigabytes of memory. In the order of recency, so that periods are sorted once.
    SELECT
        country, company_number, start_date, end_date,
        row_number() OVER periods AS recency,
        median(first_received - end_date) OVER (periods ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
            AS usual_days_to_file
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    WINDOW periods AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
    QUALIFY recency <= 2
) n
JOIN (
    -- Without recency, which would sort wide rows.
    SELECT * EXCLUDE (recency) FROM accounts
) a USING (country, company_number, start_date, end_date)
LEFT JOIN (
    SELECT country, company_number, start_date, end_date, presumed_unit FROM unit_errors
) u USING (country, company_number, start_date, end_date)
