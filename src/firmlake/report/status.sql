-- name: list_runs
SELECT coalesce(l.list_name, r.list_name) AS list_name, r.run_id, outcome, coalesce(reason, '') AS reason,
       coalesce(next_step, '') AS next_step, started_at, finished_at, r.company_count, target_count,
       refused_count, request_count, credit_count, expected_credit_count, free_refresh_count,
       (SELECT coalesce(sum(record_count), 0)::BIGINT FROM drift d WHERE d.run_id = r.run_id) AS drift_count
FROM runs r LEFT JOIN company_lists l USING (run_id)
WHERE l.run_id IS NOT NULL OR r.run_id = ? ORDER BY finished_at

-- name: credits
SELECT arg_max(credits_remaining, fetched_at), max(fetched_at) FROM requests WHERE credits_remaining IS NOT NULL

-- name: statuses
SELECT dataset, status, count(*) FROM company_state GROUP BY ALL ORDER BY ALL

-- name: ages
SELECT min(fetched_at), max(fetched_at) FROM company_state

-- name: parked
SELECT if(s.status = 'waiting' AND m.country IS NULL, ?, s.status), s.run_id, coalesce(d.reason, ''), count(*)
FROM company_state s LEFT JOIN dead_letters d USING (run_id, country, company_number, dataset)
LEFT JOIN (SELECT DISTINCT country, company_number FROM list_members) m USING (country, company_number)
WHERE s.status IN ('failed', 'forbidden', 'unavailable', 'waiting') GROUP BY ALL
UNION ALL
SELECT 'rejected records', s.run_id, coalesce(r.reason, ''), count(*)
FROM company_state s LEFT JOIN (
    SELECT run_id, country, company_number, dataset, min(concat_ws(': ', nullif(path, ''), reason)) AS reason
    FROM rejects WHERE effect = 'record' GROUP BY ALL
) r USING (run_id, country, company_number, dataset)
WHERE s.reject_count > 0 GROUP BY ALL
