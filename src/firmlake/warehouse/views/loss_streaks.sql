-- view loss_streaks
-- One row per company whose newest period is a loss: how many periods in a row, back from the newest, are losses. A
-- period without net profit ends the streak. A period that a newer one overlaps by more than seven days is another version
-- of it and does not count.
--
-- loss_period_count: Number of periods in a row with a loss
-- first_end_date: Last day of the first of these periods
-- last_end_date: Last day of the newest of these periods
-- loss_total: Sum of these losses as the service states them; negative. Null: one of the periods is
-- presumably in another unit, see unit_errors
SELECT
    country, company_number, c.name,
    count(*) AS loss_period_count,
    min(end_date) AS first_end_date,
    max(end_date) AS last_end_date,
    CASE WHEN count(u.presumed_factor) = 0 THEN sum(net_profit) END AS loss_total
FROM (
    SELECT *, sum(CASE WHEN net_profit < 0 THEN 0 ELSE 1 END) OVER newest_first AS others
    FROM (
        SELECT *, min(start_date) OVER (newest_first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first_start
        FROM (SELECT * EXCLUDE (recency) FROM accounts)
        -- Found first, so that only periods of companies that end with a loss are sorted.
        SEMI JOIN (
            SELECT country, company_number FROM financials
            WHERE (end_date > last_answer_day()) IS NOT TRUE
            GROUP BY country, company_number
            HAVING max(end_date) FILTER (net_profit < 0) = max(end_date)
        ) l USING (country, company_number)
        WHERE (end_date > last_answer_day()) IS NOT TRUE
        WINDOW newest_first AS (
            PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
        )
    )
    WHERE first_start IS NULL OR end_date < first_start + 7
    WINDOW newest_first AS (
        PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
    )
)
JOIN companies c USING (country, company_number)
LEFT JOIN (SELECT country, company_number, start_date, end_date, presumed_factor FROM unit_errors) u
    USING (country, company_number, start_date, end_date)
WHERE others = 0
GROUP BY ALL
