-- macro benchmark(of_country, of_number)
-- example: benchmark('BE', '0403227515')
-- One row for each measure of a company's newest accounts: its value, its rank among its peers (see peer_groups) and the
-- distribution of their values.
--
-- value_rank: 1 for the highest value among the peers
-- percentile: Share of the peers with a lower value, 0 to 1. Null: there is no other value
-- value_count: Companies of the peer group that state the measure, this one included
-- p10: 10th percentile of the values, interpolated
-- p25: 25th percentile, interpolated
-- p50: Median, interpolated
-- p75: 75th percentile, interpolated
-- p90: 90th percentile, interpolated
WITH asked AS (
    SELECT of_country AS asked_country, of_number AS asked_number
)
SELECT
    mine.measure, mine.value,
    count(*) FILTER (theirs.value < mine.value) / nullif(count(*) - 1, 0) AS percentile,
    1 + count(*) FILTER (theirs.value > mine.value) AS value_rank,
    count(*) AS value_count,
    quantile_cont(theirs.value, 0.1) AS p10,
    quantile_cont(theirs.value, 0.25) AS p25,
    quantile_cont(theirs.value, 0.5) AS p50,
    quantile_cont(theirs.value, 0.75) AS p75,
    quantile_cont(theirs.value, 0.9) AS p90,
    own.level, own.peer_group, own.is_widened
FROM asked
JOIN peer_groups own ON own.country = asked_country AND own.company_number = asked_number
JOIN newest_measures mine ON mine.country = asked_country AND mine.company_number = asked_number
JOIN peer_levels others ON others.peer_group = own.peer_group
JOIN newest_measures theirs
    ON theirs.country = others.country AND theirs.company_number = others.company_number AND theirs.measure = mine.measure
GROUP BY mine.measure, mine.value, own.level, own.peer_group, own.is_widened
