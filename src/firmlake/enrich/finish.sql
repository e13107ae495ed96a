-- name: stopping
SELECT dataset, path, reason FROM rejects WHERE effect = 'stop' LIMIT 1

-- name: new_fields
SELECT DISTINCT dataset, path FROM drift WHERE kind = 'new_field' ORDER BY ALL
