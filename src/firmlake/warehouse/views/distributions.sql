-- view distributions
-- One row per peer group and measure: the distribution of the measure over the newest accounts of the group. All
-- groups of peer_levels are here, whatever their size.
--
-- value_count: Companies of the peer group that have the measure
-- p10: 10th percentile of the values, interpolated
-- p25: 25th percentile, interpolated
-- p50: Median, interpolated
-- p75: 75th percentile, interpolated
-- p90: 90th percentile, interpolated
SELECT
    l.level_no, l.level, l.peer_group, m.measure,
    count(*) AS value_count,
    quantile_cont(m.value, 0.1) AS p10,
    quantile_cont(m.value, 0.25) AS p25,
    quantile_cont(m.value, 0.5) AS p50,
    quantile_cont(m.value, 0.75) AS p75,
    quantile_cont(m.value, 0.9) AS p90
FROM newest_measures m
JOIN peer_levels l USING (country, company_number)
GROUP BY ALL
