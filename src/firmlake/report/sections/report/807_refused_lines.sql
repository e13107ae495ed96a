-- title: Lines of the list that could not be used
-- chapter: Runs and cost
-- Correct them in the list.
SELECT line::VARCHAR AS line, given, reason, count(*) OVER () AS total
FROM refused_lines r JOIN last_run USING (run_id) ORDER BY r.line LIMIT 10
