-- view load_times
-- One row per load, with the time from which its content was known.
--
-- run_id: What was loaded
-- number: Number of the load
-- known_at: Time of the last answer by this load, UTC. Null: there is none
SELECT
    run_id, generation,
    row_number() OVER (ORDER BY generation) AS number,
    max(ended_at) OVER (ORDER BY generation) AS known_at
FROM (
    -- Loads other than runs, such as an overview, have the time in their name.
    SELECT
        run_id, generation,
        coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS ended_at
    FROM loads LEFT JOIN runs USING (run_id)
)
