-- table: The last run that asked for something, or else the last run.
SELECT coalesce(max_by(run_id, finished_at) FILTER (target_count > 0), max_by(run_id, finished_at)) AS run_id FROM own_runs
