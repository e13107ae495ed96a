-- table period_order, company
-- One row per financial period of a company: its place among the others, and the period before it.
--
-- previous_start_date: First day of the previous period. Null: there is none
-- previous_end_date: Last day of the previous period: the latest that ended before this one began, or that overlaps it by
-- at most seven days, so that two versions of one year are never compared. Null: there is none
-- usual_days_to_file: Median of days_to_file over all periods of the company, see punctuality. Null: the day of receipt
-- is never stated
SELECT
    country, company_number, start_date, end_date,
    place_no - future_count + CASE WHEN is_future THEN period_count ELSE 0 END AS recency,
    previous.start_date AS previous_start_date, previous.end_date AS previous_end_date,
    usual_days_to_file
FROM (
    -- Windows of one order, which is sorted once; DuckDB can spill them, unlike a median of a million groups.
    SELECT
        country, company_number, start_date, end_date, is_future,
        row_number() OVER latest_first AS place_no,
        count(*) OVER company AS period_count,
        count(*) FILTER (is_future) OVER company AS future_count,
        first_value({start_date: start_date, end_date: end_date}) OVER (
            latest_first RANGE BETWEEN place - place_before FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS previous,
        median(first_received - end_date) OVER company AS usual_days_to_file
    FROM (
        SELECT
            *,
            end_date > last_answer_day() AS is_future,
            -- Later is greater; of periods with the same last day the one received last, then the longest.
            (end_date - DATE '0001-01-01') * 1_000_000_000_000
                + (coalesce(date_received, DATE '0001-01-01') - DATE '0001-01-01') * 100_000
                + greatest(least(period_days, 49_999), -49_999) + 50_000 AS place,
            (least(end_date - 1, start_date + 6) - DATE '0001-01-01' + 1) * 1_000_000_000_000 - 1 AS place_before
        FROM (SELECT * EXCLUDE (recency) FROM accounts)
    )
    WINDOW
        latest_first AS (PARTITION BY country, company_number ORDER BY place DESC),
        company AS (latest_first ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
)
