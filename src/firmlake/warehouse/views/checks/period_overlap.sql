-- check period_overlap, warning
-- A period begins before the previous one has ended.
SELECT country, company_number, start_date, end_date,
    {previous_end_date: previous_end_date, overlapping_days: previous_end_date - start_date + 1} AS evidence
FROM (
    SELECT *, lead(end_date) OVER periods AS previous_end_date
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    WINDOW periods AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
)
WHERE start_date <= previous_end_date
