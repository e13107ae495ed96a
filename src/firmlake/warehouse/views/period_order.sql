-- view period_order
-- One row for each financial period of a company: its place among the others, and the period before it. A period that ends
-- after the last answer in the warehouse comes after all others.
--
-- previous_start_date: First day of the previous period. Null: there is none
-- previous_end_date: Last day of the previous period: the latest that ended before this one began, or that overlaps it by
-- at most seven days, so that two versions of one year are never compared. Null: there is none
-- usual_days_to_file: Median of days_to_file over all periods of the company, see punctuality. Null: the day of receipt
-- is never stated
SELECT
    country, company_number, start_date, end_date, recency,
    previous.start_date AS previous_start_date,
    previous.end_date AS previous_end_date,
    usual_days_to_file
FROM (
    SELECT
        country, company_number, start_date, end_date,
        row_number() OVER periods AS recency,
        -- The greatest is the latest, and of those the one received last and the longest. EXCLUDE: a period of a few days
        -- would be its own predecessor.
        max({
            end_date: end_date, received: coalesce(date_received, DATE '0001-01-01'), day_count: end_date - start_date,
            start_date: start_date
        }) OVER (
            PARTITION BY country, company_number ORDER BY end_date
            RANGE BETWEEN UNBOUNDED PRECEDING AND to_days(greatest(end_date - start_date - 6, 0)) PRECEDING EXCLUDE GROUP
        ) AS previous,
        -- By windows, which DuckDB can spill: a median of a million groups takes gigabytes of memory.
        median(first_received - end_date) OVER (periods ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
            AS usual_days_to_file
    -- Computed before the window, in which the question for the last answer would be repeated.
    FROM (SELECT * EXCLUDE (recency), end_date > last_answer_day() AS is_future FROM accounts)
    WINDOW periods AS (
        PARTITION BY country, company_number
        ORDER BY is_future, end_date DESC, date_received DESC NULLS LAST, start_date
    )
)
