-- view single_periods
-- One row per financial period that counts in sums over time: its figures are comparable, and no newer such period of
-- the company overlaps it by more than seven days.
SELECT * EXCLUDE (recency)
FROM accounts
ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
ANTI JOIN (
    -- The few that do not count, found by their days alone: sorting whole rows would take most of the time.
    SELECT country, company_number, start_date, end_date
    FROM (
        SELECT
            country, company_number, start_date, end_date,
            min(start_date) OVER (
                PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS first_start
        FROM (SELECT * EXCLUDE (recency) FROM accounts)
        ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
    )
    WHERE end_date >= first_start + 7
) overlapped USING (country, company_number, start_date, end_date)
