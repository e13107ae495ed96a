-- name: run
SELECT r.run_id, outcome, coalesce(reason, '') AS reason, coalesce(next_step, '') AS next_step,
       list_name, datasets, started_at, finished_at, line_count, company_count, refused_count,
       repeated_count, fresh_count, target_count, request_count, credit_count, expected_credit_count,
       free_refresh_count,
       generation, row_counts,
       changed_company_count
FROM runs r JOIN loads USING (run_id) WHERE run_id = ?

-- name: rejects
SELECT count(*) FILTER (effect = 'record'), count(*) FILTER (effect <> 'record') FROM rejects WHERE run_id = ?

-- name: failures
SELECT country, company_number, dataset, reason, attempt_count
FROM dead_letters WHERE run_id = ? ORDER BY ALL LIMIT ?

-- name: failure_groups
SELECT dataset, reason, count(*) AS company_count,
       list_slice(list(country || ' ' || company_number ORDER BY country, company_number), 1, 3)
FROM dead_letters WHERE run_id = ? GROUP BY dataset, reason ORDER BY company_count DESC, dataset, reason LIMIT ?

-- name: statuses
SELECT dataset, status, count(*) FROM company_state WHERE run_id = ? GROUP BY ALL ORDER BY ALL

-- name: drift
SELECT dataset, kind, path, record_count FROM drift WHERE run_id = ? ORDER BY ALL
