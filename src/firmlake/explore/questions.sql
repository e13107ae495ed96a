-- name: generation
SELECT (SELECT count(*) FROM companies) AS company_count,
       (SELECT count(*) FROM portfolio) AS account_count,
       (SELECT max(finished_at) FROM runs) AS ended_at,
       (SELECT count(*) FROM runs) AS run_count

-- name: portfolio
SELECT name, country, company_number, place, end_date, revenue_annual::DOUBLE AS revenue,
       revenue_growth::DOUBLE AS revenue_growth, net_margin::DOUBLE AS net_margin,
       total_assets::DOUBLE AS total_assets, equity_fraction::DOUBLE AS equity_fraction,
       employee_count::DOUBLE AS employees, health_indicator::DOUBLE AS health, coalesce(zone, 'no score') AS zone,
       coalesce(size_band(employee_count, total_assets), 'not stated') AS size, incomparable_because AS doubt
FROM portfolio {listed}
ORDER BY total_assets DESC NULLS LAST, country, company_number

-- name: members
SELECT m.name, p.country, p.company_number, p.total_assets::DOUBLE AS total_assets,
       p.revenue_annual::DOUBLE AS revenue, p.employee_count::DOUBLE AS employees, p.zone, g.id
FROM groups(0.5) g
LEFT JOIN parties m ON m.id = g.id
LEFT JOIN portfolio p ON p.country || p.company_number = g.id
WHERE g.head_id = $head
ORDER BY g.id <> $head, p.total_assets DESC NULLS LAST, g.id
LIMIT 500
