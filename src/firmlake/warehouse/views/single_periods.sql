-- view single_periods
-- One row per financial period that counts in sums over time: its figures are comparable, and no newer such period of
-- the company overlaps it by more than seven days.
SELECT * EXCLUDE (first_start)
FROM (
    SELECT
        *,
        min(start_date) OVER (
            PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS first_start
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
)
WHERE first_start IS NULL OR end_date < first_start + 7
