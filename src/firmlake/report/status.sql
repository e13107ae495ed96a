-- name: list_runs
SELECT coalesce(l.list_name, r.list_name) AS list_name, r.run_id, outcome, coalesce(reason, '') AS reason,
       coalesce(next_step, '') AS next_step, started_at, finished_at, r.company_count, target_count,
       refused_count, request_count, credit_count, expected_credit_count, free_refresh_count,
       (SELECT coalesce(sum(record_count), 0)::BIGINT FROM drift d WHERE d.run_id = r.run_id) AS drift_count
FROM runs r LEFT JOIN company_lists l USING (run_id)
WHERE l.run_id IS NOT NULL OR r.run_id = ? ORDER BY finished_at

-- name: credits
SELECT arg_max(credits_remaining, fetched_at), max(fetched_at) FROM requests WHERE credits_remaining IS NOT NULL
