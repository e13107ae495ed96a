-- title: Unexplained bills
-- chapter: Runs and cost
-- Runs for which the service charged more or less than our ledger expects. It charges less if another user or a killed
-- run bought companies before. If it charges more, ask the service before the next run.
SELECT started_at::TIMESTAMP_S AS started, run_id AS run, credit_count AS credits,
    expected_credit_count AS expected_credits, bill, count(*) OVER () AS total
FROM spend SEMI JOIN own_runs USING (run_id) WHERE unexplained_credit_count <> 0 ORDER BY started_at DESC LIMIT 10
