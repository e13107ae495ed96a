-- name: alerts
SELECT rule, says, severity, list_name, country, company_number, name, state, evidence, doubt, opened_run,
       opened_at, seen_run, seen_at, closed_run, closed_at, closed_because, condition
FROM alerts LEFT JOIN (SELECT country, company_number, name FROM companies) USING (country, company_number)
WHERE ($closed OR closed_run IS NULL) AND ($since IS NULL OR greatest(opened_at, closed_at) >= $since)
  AND (len($rules) = 0 OR rule IN $rules)
  AND ($country IS NULL OR (country = $country AND company_number = $number))
ORDER BY closed_run IS NOT NULL, closed_at DESC, list_position(['high', 'medium', 'low'], severity), opened_at DESC,
         rule, country, company_number
LIMIT $limit

-- name: counts
SELECT count(*) FILTER (is_opened), count(*) FILTER (is_opened AND severity = 'high'),
       count(*) FILTER (closed_run IS NULL), count(*) FILTER (closed_run = $run OR closed_at::DATE = day),
       (SELECT count(*) FROM alert_rules)
FROM (SELECT CASE WHEN $whole_day THEN max(finished_at)::DATE END AS day FROM runs WHERE run_id = $run)
CROSS JOIN LATERAL (SELECT *, coalesce(opened_run = $run OR opened_at::DATE = day, false) AS is_opened FROM alerts)

-- name: events
-- The columns are the fields of `Event`, in their order.
-- A load is a run, an overview (its row_counts has list_changes) or an applied plan, which finds no events.
WITH known AS (
    SELECT run_id, generation,
           coalesce(finished_at, try_strptime(run_id[:16], '%Y%m%dT%H%M%SZ')) AS found_at,
           generation = max(generation) OVER (PARTITION BY r.run_id IS NULL) AS is_last
    FROM (SELECT run_id, min(generation) AS generation,
                 bool_or(json_exists(row_counts, '$.list_changes')) AS is_overview
          FROM loads GROUP BY run_id)
    LEFT JOIN runs r USING (run_id)
    WHERE r.run_id IS NOT NULL OR is_overview
), list_names AS (
    SELECT list_id, arg_max(name, valid_from_run) AS name
    FROM (SELECT list_id, name, valid_from_run FROM service_lists
          UNION ALL SELECT list_id, name, valid_from_run FROM service_lists_history)
    GROUP BY list_id
), events AS (
    SELECT c.* EXCLUDE (related_name), NULL::BIGINT AS list_id, m.name,
           coalesce(related_name, o.name) AS related_name
    FROM company_changes c
    LEFT JOIN companies m ON m.country = c.country AND m.company_number = c.company_number
    LEFT JOIN companies o ON o.country = related_country AND o.company_number = related_company_number
    UNION ALL BY NAME
    SELECT * FROM list_changes LEFT JOIN list_names USING (list_id) WHERE $has_lists
)
SELECT run_id, found_at, country, company_number, list_id, name, kind, start_date, end_date, dup_no, direction,
       related_country, related_company_number, related_name, "function", old_value, new_value, fields
FROM events JOIN known USING (run_id)
WHERE if($since IS NULL, is_last, generation > generation_at($since))
  AND (len($kinds) = 0 OR kind IN $kinds)
  AND ($country IS NULL OR (country = $country AND company_number = $number))
ORDER BY generation DESC, country, company_number, list_id, position
