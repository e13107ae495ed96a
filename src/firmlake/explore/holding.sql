-- What the application asks. $list is the name of a company list; null stands for all companies.

-- name: generation
SELECT (SELECT count(*) FROM companies) AS company_count,
       (SELECT count(*) FROM portfolio) AS account_count,
       (SELECT max(finished_at) FROM runs) AS ended_at,
       (SELECT count(*) FROM runs) AS run_count

-- name: lists
SELECT list_name FROM company_lists ORDER BY ALL

-- name: listed
SELECT DISTINCT country, company_number FROM list_members WHERE list_name = $list

-- name: portfolio
-- One row for each company with accounts, with its newest figures; health also in tens.
SELECT name, country, company_number, place, end_date, revenue_annual::DOUBLE AS revenue,
       revenue_growth::DOUBLE AS revenue_growth, net_margin::DOUBLE AS net_margin,
       total_assets::DOUBLE AS total_assets, equity_fraction::DOUBLE AS equity_fraction,
       employee_count::DOUBLE AS employees, health_indicator::DOUBLE AS health, coalesce(zone, 'no score') AS zone,
       coalesce(size_band(employee_count, total_assets), 'not stated') AS size, incomparable_because AS doubt,
       coalesce((floor(health_indicator / 10) * 10)::BIGINT::VARCHAR, 'none') AS tens
FROM portfolio
WHERE $list::VARCHAR IS NULL OR (country, company_number) IN
    (SELECT (country, company_number) FROM list_members WHERE list_name = $list)
ORDER BY total_assets DESC NULLS LAST, country, company_number

-- name: find
-- Companies by a part of their name or number, those whose name begins with it first.
SELECT name, country, company_number, place
FROM companies
WHERE (contains(lower(name), lower($text))
       OR (length(regexp_replace($text, '\D', '', 'g')) >= 4
           AND contains(company_number, regexp_replace($text, '\D', '', 'g'))))
  AND ($list::VARCHAR IS NULL OR (country, company_number) IN
       (SELECT (country, company_number) FROM list_members WHERE list_name = $list))
ORDER BY NOT coalesce(starts_with(lower(name), lower($text)), false), name, country, company_number
LIMIT 200

-- name: members
-- The members of a group with their newest figures, the head first.
SELECT m.name, p.country, p.company_number, p.total_assets::DOUBLE AS total_assets,
       p.revenue_annual::DOUBLE AS revenue, p.employee_count::DOUBLE AS employees, p.zone, g.id
FROM groups(0.5) g
LEFT JOIN parties m ON m.id = g.id
LEFT JOIN portfolio p ON p.country || p.company_number = g.id
WHERE g.head_id = $head
ORDER BY g.id <> $head, p.total_assets DESC NULLS LAST, g.id
LIMIT 500

-- name: peers
SELECT * FROM peers_of($country, $number) LIMIT 200

-- name: changes
-- The newest changes that runs found, of some kinds, or of all if none is named.
SELECT found_at::DATE AS found, country, company_number, name, event, about, change
FROM described_changes
WHERE list_id IS NULL AND (len($kinds) = 0 OR kind IN $kinds)
  AND ($list::VARCHAR IS NULL OR (country, company_number) IN
       (SELECT (country, company_number) FROM list_members WHERE list_name = $list))
ORDER BY found_at DESC, country, company_number, position
LIMIT 20000
