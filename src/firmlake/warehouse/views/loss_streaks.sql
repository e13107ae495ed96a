-- view loss_streaks
-- One row for each company whose newest period is a loss: how many periods in a row, back from the newest, are losses.
-- A period without net profit ends the streak.
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
    SELECT
        *,
        sum(CASE WHEN net_profit < 0 THEN 0 ELSE 1 END) OVER (
            PARTITION BY country, company_number ORDER BY end_date DESC, date_received DESC NULLS LAST, start_date
        ) AS others
    FROM (SELECT * EXCLUDE (recency) FROM accounts)
    LEFT JOIN (
        -- Found first, so that only periods since the newest without a loss are sorted.
        SELECT country, company_number, max(end_date) AS last_other FROM (SELECT * EXCLUDE (recency) FROM accounts)
        WHERE (net_profit < 0) IS NOT TRUE AND (end_date > last_answer_day()) IS NOT TRUE
        GROUP BY country, company_number
    ) USING (country, company_number)
    WHERE end_date >= coalesce(last_other, end_date) AND (end_date > last_answer_day()) IS NOT TRUE
)
JOIN companies c USING (country, company_number)
LEFT JOIN (SELECT country, company_number, start_date, end_date, presumed_factor FROM unit_errors) u
    USING (country, company_number, start_date, end_date)
WHERE others = 0
GROUP BY ALL
