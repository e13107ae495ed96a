-- table: The last run. It may have found everything fresh.
SELECT max_by(run_id, finished_at) AS run_id FROM own_runs
