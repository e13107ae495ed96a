-- macro zone_migration(from_day, to_day)
-- example: zone_migration(DATE '2024-12-31', DATE '2025-12-31')
-- How many companies moved between Altman's zones from one day to another, as a matrix: one row for each zone on the
-- first day, with the number of companies in each zone on the second day. The zone on a day is that of the newest
-- accounts that ended by then. Companies without accounts on the second day are left out.
--
-- from_zone: Zone on the first day: safe, grey, distress, no score (a part is missing) or no accounts
-- company_count: Number of companies in that zone on the first day
-- safe: Of these, companies in zone safe on the second day
-- grey: Of these, companies in zone grey on the second day
-- distress: Of these, companies in zone distress on the second day
-- no_score: Number of these companies whose accounts give no score on the second day
SELECT
    from_zone,
    count(*) AS company_count,
    count(*) FILTER (to_zone = 'safe') AS safe,
    count(*) FILTER (to_zone = 'grey') AS grey,
    count(*) FILTER (to_zone = 'distress') AS distress,
    count(*) FILTER (to_zone = 'no score') AS no_score
FROM (
    SELECT
        z.country, z.company_number,
        coalesce(arg_max(z.zone, z.age) FILTER (z.end_date <= first_day), 'no accounts') AS from_zone,
        arg_max(z.zone, z.age) FILTER (z.end_date <= last_day) AS to_zone
    FROM (SELECT from_day::DATE AS first_day, to_day::DATE AS last_day) asked
    CROSS JOIN (
        -- Ordered as in recency.
        SELECT
            country, company_number, end_date, coalesce(altman_zone(altman_of(
                total_assets, net_working_capital, retained_earnings, ebit, equity, debt, period_days
            )), 'no score') AS zone,
            (end_date, coalesce(date_received, DATE '0001-01-01'), -epoch(start_date)) AS age
        FROM (SELECT * EXCLUDE (recency) FROM accounts)
    ) z
    GROUP BY ALL
)
WHERE to_zone IS NOT NULL
GROUP BY from_zone
ORDER BY from_zone
