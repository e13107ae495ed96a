-- check period_gap, note
-- There are days before a period, and after all earlier ones, that belong to no period, so accounts are missing.
SELECT country, company_number, start_date, end_date,
    {previous_end_date: previous_end_date, missing_days: first_start - previous_end_date - 1} AS evidence
FROM (
    -- A longer period that ends later may cover the days.
    SELECT *, lead(end_date) OVER periods AS previous_end_date, min(start_date) OVER periods AS first_start
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    WINDOW periods AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
)
WHERE start_date > previous_end_date + 1 AND first_start > previous_end_date + 1
