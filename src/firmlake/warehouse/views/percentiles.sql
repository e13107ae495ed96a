-- macro percentiles(in_year := NULL)
-- example: percentiles(2024)
-- One row per company and measure: its rank among its peers, see peer_groups. Without a year, the newest accounts
-- are compared; with a year, for each measure the last accounts of each company that end in it and have the
-- measure. Peer groups follow from the newest accounts in both cases.
--
-- value_rank: 1 for the highest value among the peers; equal values share a rank
-- percentile: Share of the peers with a lower value, 0 to 1; equal values have the same percentile. Null: fewer
-- than five companies of the group have the measure
-- value_count: Companies of the peer group that have the measure, this one included
-- measure: Name of the measure, as in measures
WITH levels AS MATERIALIZED (
    -- Levels that no company is compared at are left out.
    FROM peer_levels SEMI JOIN peer_groups USING (peer_group)
)
SELECT
    r.country, r.company_number, r.start_date, r.end_date, r.measure, r.value, r.value_rank,
    CASE WHEN r.value_count >= 5 THEN r.lower_fraction END AS percentile,
    r.value_count, g.level, g.peer_group, g.is_widened
FROM (
    SELECT
        m.*, l.peer_group,
        -- As rank by the falling value, without sorting twice.
        1 + count(*) OVER (PARTITION BY l.peer_group, m.measure)
            - count(*) OVER (PARTITION BY l.peer_group, m.measure ORDER BY m.value) AS value_rank,
        percent_rank() OVER (PARTITION BY l.peer_group, m.measure ORDER BY m.value) AS lower_fraction,
        count(*) OVER (PARTITION BY l.peer_group, m.measure) AS value_count
    FROM (
        SELECT n.* FROM (SELECT in_year AS wanted_year) asked CROSS JOIN newest_measures n WHERE wanted_year IS NULL
        UNION ALL
        SELECT country_ AS country, number_ AS company_number, start_ AS start_date, end_ AS end_date, measure_, value_
        FROM (
            -- The columns have names that no argument has, so that the argument can stand here: it restricts what is read,
            -- which a join with it would not.
            SELECT * FROM (
                SELECT
                    country AS country_, company_number AS number_, start_date AS start_, end_date AS end_,
                    measure AS measure_, value AS value_, recency AS recency_, fiscal_year AS year_
                FROM measures
            )
            WHERE year_ = in_year
            QUALIFY row_number() OVER (PARTITION BY country_, number_, measure_ ORDER BY recency_) = 1
        )
    ) m
    JOIN levels l USING (country, company_number)
) r
JOIN peer_groups g USING (country, company_number, peer_group)
