-- view spend
-- One row for each run: what it asked for, its credits according to the service and to our ledger, and the credits left.
--
-- unexplained_credit_count: Credits charged beyond those our ledger expects; 0 is right. Null: the service did not say
-- bill: as expected, or how many credits more or fewer than our ledger expects. Null: the service did not say
-- reason: Why the run is not done. Null: it is done
-- next_step: What to do next. Null: the run is done
-- credits_per_company: Credits charged by companies asked for
-- failed_request_count: Requests without a complete answer of a status of success (200 to 299)
-- body_bytes: Bytes received
-- credits_remaining: What the service said was left, in its last answer of the run. Null: it did not say
-- company_count: Companies accepted
SELECT
    r.run_id, r.list_name, r.started_at, r.finished_at, r.outcome,
    r.company_count, r.fresh_count, r.target_count, r.request_count,
    r.credit_count,
    r.expected_credit_count,
    r.free_refresh_count,
    r.credit_count - r.expected_credit_count AS unexplained_credit_count,
    CASE sign(r.credit_count - r.expected_credit_count)
        WHEN 0 THEN 'as expected'
        WHEN 1 THEN (r.credit_count - r.expected_credit_count) || ' more than expected'
        WHEN -1 THEN (r.expected_credit_count - r.credit_count) || ' fewer than expected'
    END AS bill,
    ratio(r.credit_count, r.target_count) AS credits_per_company,
    q.failed_request_count,
    q.body_bytes,
    q.credits_remaining,
    r.reason,
    r.next_step
FROM runs r
LEFT JOIN (
    SELECT
        run_id,
        count(*) FILTER (error IS NOT NULL OR status NOT BETWEEN 200 AND 299) AS failed_request_count,
        sum(body_bytes)::BIGINT AS body_bytes,
        arg_max(credits_remaining, fetched_at) AS credits_remaining
    FROM requests
    GROUP BY run_id
) q USING (run_id)
