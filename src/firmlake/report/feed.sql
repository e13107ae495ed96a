-- name: alerts
SELECT rule, says, severity, list_name, country, company_number, name, state,
       evidence::MAP(VARCHAR, VARCHAR) AS evidence, doubt, opened_run, opened_at, seen_run, seen_at, closed_run,
       closed_at, closed_because, condition
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

-- name: changes
SELECT {columns} FROM described_changes
WHERE if($since IS NULL, is_last, generation > generation_at($since))
  AND (len($kinds) = 0 OR kind IN $kinds)
  AND ($country IS NULL OR (country = $country AND company_number = $number))
  AND ($has_lists OR list_id IS NULL)
ORDER BY generation DESC, country, company_number, list_id, position

-- name: stored
run_id, found_at, country, company_number, list_id, name, kind, start_date, end_date, dup_no, direction,
related_country, related_company_number, related_name, "function", old_value, new_value, fields

-- name: in_words
strftime(found_at, '%Y-%m-%d') AS found, name, subject AS number, event, about, change
