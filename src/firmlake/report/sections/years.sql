-- table: Figures of the last ten years, over the last accounts of each company that end in the year.
SELECT year(end_date)::VARCHAR AS year,
    count(*) FILTER (is_comparable) AS companies,
    sum(revenue_annual) FILTER (is_comparable) AS revenue,
    sum(net_profit_annual) FILTER (is_comparable) AS net_profit,
    sum(total_assets) FILTER (is_comparable) AS total_assets,
    sum(employee_count) FILTER (is_comparable) AS employees,
    quantile_cont(revenue_growth::DOUBLE, [0.25, 0.5, 0.75]) AS growth,
    ratio(count(*) FILTER (net_profit < 0 AND is_comparable), count(net_profit) FILTER (is_comparable)) AS losses
FROM (
    FROM trend WHERE year(end_date) > (SELECT max(year(end_date)) FROM portfolio) - 10
    QUALIFY row_number() OVER (
        PARTITION BY country, company_number, year(end_date) ORDER BY is_comparable DESC, recency
    ) = 1
)
GROUP BY ALL
