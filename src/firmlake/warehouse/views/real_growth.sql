-- macro real_growth(price_table := 'no_prices')
-- example: real_growth()
-- One row per company with accounts: growth of revenue and total assets from the previous to the newest period
-- after inflation. Bring your own table of price indices: columns country, on_date and price_index, such as the
-- harmonised index of consumer prices by month (Eurostat, prc_hicp_minr). Revenue is deflated by the mean of the
-- indices dated within each period, total assets by the last index up to the end of each period. Without a table, null.
--
-- revenue_growth: Growth of annualised revenue, as in portfolio. Null: as there
-- price_growth: Growth of the mean index from the previous period to the newest. Null: the table has no index in one of
-- them
-- real_revenue_growth: Growth of annualised revenue after inflation, 0.1 is 10 %. Null: one is missing
-- real_total_assets_growth: Growth of total assets after inflation. Null: a figure or an index is missing
WITH prices AS MATERIALIZED (
    SELECT country, on_date::DATE AS on_date, price_index::DOUBLE AS price_index FROM query_table(price_table)
),
spans AS (
    SELECT DISTINCT country, start_date, end_date FROM portfolio
    UNION
    SELECT country, previous_start_date, previous_end_date FROM portfolio WHERE previous_end_date IS NOT NULL
),
levels AS MATERIALIZED (
    SELECT
        s.country, s.start_date, s.end_date,
        avg(price_index) FILTER (on_date >= s.start_date) AS mean_index,
        arg_max(price_index, on_date) AS last_index
    FROM spans s JOIN prices i ON i.country = s.country AND i.on_date <= s.end_date
    GROUP BY ALL
)
SELECT
    p.country, p.company_number, p.name, p.start_date, p.end_date, p.revenue_growth,
    growth(n.mean_index, b.mean_index) AS price_growth,
    round((1 + p.revenue_growth) / (1 + price_growth) - 1, 6) AS real_revenue_growth,
    round((1 + p.total_assets_growth) * b.last_index / nullif(n.last_index, 0) - 1, 6) AS real_total_assets_growth
FROM portfolio p
LEFT JOIN levels n ON n.country = p.country AND n.start_date = p.start_date AND n.end_date = p.end_date
LEFT JOIN levels b ON b.country = p.country AND b.start_date = p.previous_start_date AND b.end_date = p.previous_end_date
