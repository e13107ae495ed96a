-- title: What failed in the last run, and what to do
-- chapter: Runs and cost
-- The next run asks for these again; `firmlake redrive` asks only for these.
SELECT dataset, reason, count(*) AS companies, min(country || ' ' || company_number) AS for_example,
    count(*) OVER () AS total,
    CASE
        WHEN any_value(status) = 'forbidden' THEN 'Get a token that may ask for them, then redrive; or leave '
            'out the dataset (run.datasets) or the companies'
        WHEN reason_code = 'nothing_said' THEN 'The service would answer the same again: ask it what '
            'such an answer means'
        WHEN reason_code IN ('request_refused', 'country_refused') THEN 'The service refuses the '
            'request: look at its message, correct the list or the names in api.names, then redrive'
        WHEN reason_code IN ('unusable_answer', 'unreadable_element', 'unreadable_data') THEN 'The answer '
            'could not be read: it is kept in landing; ask the service about it, then redrive'
        ELSE 'The service had trouble: redrive later'
    END AS what_to_do
FROM dead_letters JOIN last_run USING (run_id)
LEFT JOIN company_state USING (run_id, country, company_number, dataset)
GROUP BY dataset, reason_code, reason ORDER BY companies DESC, dataset, reason LIMIT 10
