-- title: Growth and margin
-- chapter: The portfolio
-- chart: growth_by_margin
-- One point for each company, newest accounts; doubtful figures are left out. Values beyond the axis count at its edge.
SELECT
    least(greatest(revenue_growth::DOUBLE, -1), 1.5) AS growth,
    least(greatest(net_margin::DOUBLE, -0.6), 0.6) AS margin,
    coalesce(zone, 'no score') AS part,
    name || ' (' || country || ' ' || company_number || ')' ||
        format(': growth {:.1f} %, margin {:.1f} %', 100 * revenue_growth::DOUBLE,
            100 * net_margin::DOUBLE) AS about,
    count(*) OVER () AS total
FROM portfolio WHERE revenue_growth IS NOT NULL AND net_margin IS NOT NULL
ORDER BY hash(country, company_number), country, company_number LIMIT 1500
