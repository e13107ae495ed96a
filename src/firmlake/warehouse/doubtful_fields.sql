-- name: beyond
-- The fields of which a value above 1 was ever seen.
SELECT DISTINCT dataset, path FROM (
    SELECT dataset, kind, path FROM staged_drift UNION ALL SELECT dataset, kind, path FROM drift
) WHERE kind = 'other_scale'

-- name: counts
WITH answered AS (SELECT country, company_number FROM changed WHERE dataset = '{dataset}'),
shown AS (
    SELECT {column} AS share, replace(extra_json->>'$."{path}"', ',', '.') AS kept
    FROM {dataset} ANTI JOIN answered USING (country, company_number)
    UNION ALL
    SELECT {column}, replace(extra_json->>'$."{path}"', ',', '.')
    FROM staged_{dataset} SEMI JOIN answered USING (country, company_number)
),
left_out AS (
    SELECT count(*) AS n FROM staged_rejects SEMI JOIN answered USING (country, company_number)
    WHERE dataset = '{dataset}' AND effect = 'record' AND ends_with(path, '{path}') AND reason_code = 'beyond_one'
)
SELECT count(*) FILTER (coalesce(share, try_cast(kept AS DOUBLE)) > 1) + any_value(n),
       count(share) + count(*) FILTER (share IS NULL AND try_cast(kept AS DOUBLE) IS NOT NULL) + any_value(n)
FROM shown, left_out

-- name: rejects
CREATE TEMP VIEW staged_rejects AS FROM rejects_before_{dataset} UNION ALL BY NAME
SELECT w.*, request_id, '{dataset}' AS dataset, '{code}' AS reason_code, '{text}' AS reason, 'value' AS effect,
       '{run_id}' AS run_id
FROM ({withheld}) w JOIN (
    SELECT fetched_at, min(request_id) AS request_id FROM staged_requests
    WHERE dataset = '{dataset}' AND status BETWEEN 200 AND 299 GROUP BY fetched_at
) USING (fetched_at)

-- name: drift
CREATE TEMP VIEW staged_drift AS FROM drift_before_{dataset} UNION ALL BY NAME
SELECT '{dataset}' AS dataset, 'withheld_value' AS kind, path, min(value) AS example, count(*) AS record_count,
       min(fetched_at) AS first_seen_at, '{run_id}' AS run_id
FROM ({withheld}) GROUP BY path
