-- name: run
SELECT r.run_id, outcome, coalesce(reason, '') AS reason, coalesce(next_step, '') AS next_step,
       list_name, datasets, started_at, finished_at, line_count, company_count, refused_count,
       repeated_count, fresh_count, target_count, request_count, credit_count, expected_credit_count,
       free_refresh_count,
       generation, row_counts,
       changed_company_count
FROM runs r JOIN loads USING (run_id) WHERE run_id = ?

-- name: rejects
SELECT count(*) FILTER (effect = 'record'), count(*) FILTER (effect <> 'record') FROM rejects WHERE run_id = ?

-- name: failures
SELECT country, company_number, dataset, reason, attempt_count
FROM dead_letters WHERE run_id = ? ORDER BY ALL LIMIT ?

-- name: failure_groups
SELECT dataset, reason, count(*) AS company_count,
       list_slice(list(country || ' ' || company_number ORDER BY country, company_number), 1, 3)
FROM dead_letters WHERE run_id = ? GROUP BY dataset, reason ORDER BY company_count DESC, dataset, reason LIMIT ?

-- name: scales
SELECT dataset, kind, path, record_count FROM drift
WHERE run_id = ? AND kind IN ('other_scale', 'withheld_value') ORDER BY ALL

-- name: unread
-- The values of each field that were discarded, apart from those for some reasons; the most frequent fields first.
SELECT dataset, regexp_replace(path, '^.*\[\]\.', '') AS field,
       if(2 * count_if(reason_code = 'ambiguous_number') >= count(*), 'ambiguous_number',
          min(reason_code) FILTER (reason_code <> 'ambiguous_number')) AS code,
       count(*) AS value_count, first(value ORDER BY country, company_number, position)
FROM rejects
WHERE run_id = ? AND effect = 'value' AND value IS NOT NULL AND NOT list_contains(?, reason_code)
GROUP BY dataset, field ORDER BY value_count DESC, dataset, field

-- name: read
SELECT {values} FROM {dataset}
SEMI JOIN (FROM company_state WHERE run_id = ? AND dataset = '{dataset}') s USING (country, company_number)

-- name: left_out
SELECT dataset, sum(record_count)::BIGINT, min(example) FROM drift
WHERE run_id = ? AND kind = 'left_out' GROUP BY ALL ORDER BY ALL

-- name: doubtful
SELECT count(*), min(country || ' ' || company_number || ': ' || incomparable_because)
FROM portfolio SEMI JOIN (FROM company_state WHERE run_id = ?) USING (country, company_number)
WHERE NOT is_comparable HAVING count(*) > 0

-- name: none_found
SELECT country, count(DISTINCT company_number) FROM company_state
WHERE country NOT IN (SELECT country FROM company_state WHERE status IN ('reported', 'empty')) AND run_id = ?
GROUP BY country HAVING count(DISTINCT company_number) FILTER (status = 'not_found') BETWEEN ? AND ?
    AND count_if(status <> 'not_found') = 0
ORDER BY country

-- name: statuses
SELECT dataset, status, count(*) FROM company_state WHERE run_id = ? GROUP BY ALL ORDER BY ALL

-- name: drift
SELECT dataset, kind, path, record_count FROM drift WHERE run_id = ? ORDER BY ALL
