-- table: The run before the last fetch, and when it ended; empty if there is none.
SELECT run_id, max(finished_at) AS finished_at
FROM loads JOIN runs USING (run_id)
WHERE generation < (SELECT min(generation) FROM loads JOIN last_fetch USING (run_id))
GROUP BY run_id ORDER BY max(generation) DESC LIMIT 1
