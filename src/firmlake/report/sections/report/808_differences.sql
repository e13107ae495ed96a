-- title: Differences between the answers and the specification
-- chapter: Runs and cost
SELECT dataset, kind, path, example, record_count AS records, count(*) OVER () AS total
FROM drift JOIN last_run USING (run_id) ORDER BY ALL LIMIT 10
