-- name: loads
SELECT generation, run_id, published_at, coalesce(loaded_at, published_at), measurements
FROM (FROM loads UNION ALL BY NAME SELECT NULL::TIMESTAMP AS loaded_at, NULL::JSON AS measurements WHERE false)
ORDER BY generation
