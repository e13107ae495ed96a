-- macro benchmark(of_country, of_number)
-- example: benchmark('BE', '0403227515')
-- One row for each measure of a company's newest accounts: its value and its place beside the distribution of its peers, see
-- peer_groups.
--
-- value_rank: 1 for the highest value among the peers
-- percentile: Share of the peers with a lower value, 0 to 1. Null: there is no other value
WITH asked AS (
    SELECT of_country AS asked_country, of_number AS asked_number
),
placed AS MATERIALIZED (  -- otherwise DuckDB 2.0 fails where an argument is a column
    SELECT p.*, d.p10, d.p25, d.p50, d.p75, d.p90
    FROM percentiles() p
    JOIN distributions d USING (peer_group, measure)
)
SELECT
    measure, value, percentile, value_rank, value_count, p10, p25, p50, p75, p90, level, peer_group, is_widened
FROM placed
JOIN asked ON country = asked_country AND company_number = asked_number
