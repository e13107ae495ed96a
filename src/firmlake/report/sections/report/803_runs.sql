-- title: Runs
-- chapter: Runs and cost
-- The last five. Our ledger expects one credit for each company found outside its paid window.
SELECT started_at::TIMESTAMP_S AS started, list_name, outcome, company_count AS companies,
    target_count AS asked, request_count AS requests, credit_count AS credits,
    expected_credit_count AS expected_credits, free_refresh_count AS free_refreshes, bill, reason,
    next_step AS what_to_do, count(*) OVER () AS total
FROM spend SEMI JOIN own_runs USING (run_id) ORDER BY started_at DESC LIMIT 5
