-- name: signs
SELECT DISTINCT status FROM company_state UNION ALL SELECT DISTINCT kind FROM drift
UNION ALL SELECT DISTINCT effect FROM rejects UNION ALL SELECT DISTINCT related_kind FROM relationships

-- name: read
SELECT {values} FROM {dataset}
SEMI JOIN (FROM company_state WHERE run_id = ? AND dataset = '{dataset}') s USING (country, company_number)

-- name: known_countries
SELECT DISTINCT country FROM company_state WHERE status IN ('reported', 'empty')

-- name: in_all_records
SELECT DISTINCT path FROM drift WHERE dataset = ? AND kind = 'new_field' AND record_count >= ? ORDER BY path
