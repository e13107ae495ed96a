-- macro runs_as_of(moment)
-- example: runs_as_of(TIMESTAMP '2026-01-31')
-- One row per run, overview or plan that the warehouse held at a moment, as in generation_at.
SELECT run_id FROM (SELECT generation_at(moment) AS newest) asked
JOIN (SELECT run_id, min(generation) AS first_generation FROM loads GROUP BY run_id) ON first_generation <= newest
