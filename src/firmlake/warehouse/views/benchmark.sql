-- macro benchmark(of_country, of_number)
-- example: benchmark('BE', '0403227515')
-- One row per measure of a company's newest accounts: its value, its rank among the company's peers (see
-- peer_groups) and the distribution of the peers' values.
--
-- value_rank: 1 for the highest value among the peers
-- percentile: Share of the peers with a lower value, 0 to 1. Null: fewer than five companies of the
-- group have the measure
-- value_count: Companies of the peer group that have the measure, this one included
-- p10: 10th percentile of the values, interpolated
-- p25: 25th percentile, interpolated
-- p50: Median, interpolated
-- p75: 75th percentile, interpolated
-- p90: 90th percentile, interpolated
WITH asked(asked_id) AS (
    SELECT company_asked(of_country, of_number)
),
own AS MATERIALIZED (
    SELECT g.* FROM asked JOIN peer_groups g ON g.country = asked_id[:2] AND g.company_number = asked_id[3:]
),
theirs AS MATERIALIZED (FROM newest_measures_in((SELECT peer_group FROM own)))
SELECT
    measure, value, percentile, value_rank, value_count,
    points[1] AS p10, points[2] AS p25, points[3] AS p50, points[4] AS p75, points[5] AS p90,
    level, peer_group, is_widened
FROM (
    SELECT
        mine.measure, mine.value,
        CASE WHEN count(*) >= 5 THEN count(*) FILTER (theirs.value < mine.value) / (count(*) - 1) END AS percentile,
        1 + count(*) FILTER (theirs.value > mine.value) AS value_rank,
        count(*) AS value_count,
        quantile_cont(theirs.value, [0.1, 0.25, 0.5, 0.75, 0.9]) AS points,
        own.level, own.peer_group, own.is_widened
    FROM own
    JOIN theirs mine ON mine.country = own.country AND mine.company_number = own.company_number
    JOIN theirs ON theirs.measure = mine.measure
    GROUP BY mine.measure, mine.value, own.level, own.peer_group, own.is_widened
)
