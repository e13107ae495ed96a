-- check period_gap, note
-- There are days before a period, and after all earlier ones, that belong to no period, so accounts are missing.
SELECT country, company_number, start_date, end_date,
    {previous_end_date: previous_end_date, missing_days: first_start - previous_end_date - 1} AS evidence
FROM (
    -- A longer period that ends later may cover the days.
    SELECT *, min(start_date) OVER (PARTITION BY country, company_number ORDER BY recency) AS first_start FROM trend
)
WHERE gap_days > 0 AND first_start > previous_end_date + 1
