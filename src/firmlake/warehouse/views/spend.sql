-- view spend
-- One row per run: what it fetched, its credits according to the service and according to firmlake, and the
-- credits left.
--
-- unexplained_credit_count: Credits charged minus credits expected; 0 if the bill is right. Null: the service did not
-- report its charges
-- bill: Comparison with the expected credits: as expected, or how many more or fewer. Null: the service did not report
-- its charges
-- reason: Why the outcome is not done. Null: the outcome is done
-- next_step: What to do next. Null: the outcome is done
-- credits_per_company: Credits charged by companies asked for
-- failed_request_count: Number of requests without a complete, successful answer (HTTP status 200 to 299)
-- body_bytes: Size of all answers in bytes
-- credits_remaining: Credits left in the account, according to the last answer of the run that states them. Null: no
-- answer does
-- company_count: Companies accepted from the list, each counted once
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
