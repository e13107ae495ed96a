-- macro place_by_year(of_country, of_number, of_measure)
-- example: place_by_year('BE', '0403227515', 'equity_fraction')
-- One row per year in which accounts of a company end that have the measure: its value, and its rank among the
-- values of the company's peers in that year. Peer groups and periods are chosen as in percentiles.
--
-- fiscal_year: Year in which the accounts end
-- end_date: Last day of the company's accounts in that year
-- measure: Name of the measure, as in measures: the argument of the macro
-- value: Value of the measure, as a float
-- value_rank: 1 for the highest value among the peers
-- percentile: Share of the peers with a lower value in that year, 0 to 1. Null: fewer than five companies of the
-- group have the measure
-- value_count: Companies of the peer group that have the measure in that year, this one included
WITH asked(asked_id) AS (
    SELECT company_asked(of_country, of_number)
),
own AS MATERIALIZED (
    SELECT g.* FROM asked JOIN peer_groups g ON g.country = asked_id[:2] AND g.company_number = asked_id[3:]
),
members AS MATERIALIZED (
    SELECT l.country, l.company_number FROM own JOIN peer_levels l USING (peer_group)
),
-- Only the view with the measure asked for is read, and only that column of it.
stated AS (
    SELECT country, company_number, start_date, end_date, date_received, COLUMNS(lambda name: name = of_measure)::DOUBLE AS value
    FROM query_table(
        CASE
            WHEN of_measure = 'z' THEN 'altman'
            WHEN of_measure = 'health_indicator' THEN 'accounts'
            WHEN of_measure IN (
                'total_assets', 'revenue_annual', 'equity', 'employee_count', 'revenue_growth', 'total_assets_growth',
                'employee_growth'
            ) THEN 'trend'
            WHEN of_measure IN (
                'gross_margin_fraction', 'ebitda_margin', 'ebit_margin', 'net_margin', 'return_on_assets',
                'return_on_equity', 'current_ratio', 'quick_ratio', 'cash_ratio', 'equity_fraction', 'debt_fraction',
                'debt_to_equity', 'net_debt_to_ebitda'
            ) THEN 'ratios'
            ELSE error(concat('No such measure: ', of_measure, '. The view measures names all'))
        END
    )
),
theirs AS MATERIALIZED (
    SELECT
        country, company_number, year(end_date) AS fiscal_year, max(end_date) AS end_date,
        -- Ordered as in recency.
        arg_max(value, (end_date, coalesce(date_received, DATE '0001-01-01'), -epoch(start_date))) AS value
    FROM stated
    JOIN members USING (country, company_number)
    ANTI JOIN doubtful_periods USING (country, company_number, start_date, end_date)
    WHERE value IS NOT NULL
    GROUP BY ALL
)
SELECT
    fiscal_year, mine.end_date, of_measure AS measure, mine.value,
    CASE WHEN count(*) >= 5 THEN count(*) FILTER (theirs.value < mine.value) / (count(*) - 1) END AS percentile,
    1 + count(*) FILTER (theirs.value > mine.value) AS value_rank,
    count(*) AS value_count,
    own.level, own.peer_group, own.is_widened
FROM own
JOIN theirs mine ON mine.country = own.country AND mine.company_number = own.company_number
JOIN theirs USING (fiscal_year)
GROUP BY ALL
