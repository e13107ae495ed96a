-- name: waiting
SELECT count(DISTINCT (country, company_number)) FROM company_state WHERE status = 'waiting'

-- name: stopping
SELECT dataset, path, reason FROM rejects WHERE effect = 'stop' LIMIT 1

-- name: new_fields
SELECT DISTINCT dataset, path FROM drift WHERE kind = 'new_field' ORDER BY ALL

-- name: none_found
SELECT country, count(DISTINCT company_number) AS company_count FROM company_state
GROUP BY country HAVING bool_and(status = 'not_found') AND company_count >= ? ORDER BY country

-- name: known_countries
SELECT DISTINCT country FROM company_state WHERE status IN ('reported', 'empty')

-- name: in_all_records
SELECT DISTINCT path FROM drift WHERE dataset = ? AND kind = 'new_field' AND record_count >= ? ORDER BY path
