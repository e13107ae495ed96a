-- name: no_hits
CREATE OR REPLACE TEMP TABLE hits AS
SELECT rule, country, company_number, evidence FROM alerts LIMIT 0

-- name: rules_differ
SELECT count(*) FROM (
    (SELECT * EXCLUDE (run_id) FROM met_rules EXCEPT SELECT * EXCLUDE (run_id, valid_from_run) FROM alert_rules)
    UNION ALL
    (SELECT * EXCLUDE (run_id, valid_from_run) FROM alert_rules EXCEPT SELECT * EXCLUDE (run_id) FROM met_rules)
)

-- name: hits
INSERT INTO hits BY NAME
SELECT {rule} AS rule, country, company_number, json_object({evidence}) AS evidence
FROM {relation} WHERE {condition} {members}

-- name: members
AND (country, company_number) IN (
    SELECT (country, company_number) FROM list_members WHERE lower(list_name) = lower({name})
)

-- name: alerts
-- Every open alert and every hit; both in one row where a company still meets a rule.
SELECT rule, country, company_number,
       coalesce(a.opened_run, {run}) AS opened_run,
       coalesce(a.opened_at, judged_at) AS opened_at,
       CASE WHEN NOT is_hit THEN 'closed'
            WHEN coalesce(a.opened_at, judged_at)::DATE = judged_at::DATE THEN 'opened'
            ELSE 'still open' END AS state,
       if(is_hit, r.says, a.says) AS says,
       if(is_hit, r.severity, a.severity) AS severity,
       if(is_hit, r.list_name, a.list_name) AS list_name,
       if(is_hit, r.condition, a.condition) AS condition,
       if(is_hit, h.evidence, a.evidence) AS evidence,
       if(is_hit, w.incomparable_because, a.doubt) AS doubt,
       if(is_hit, {run}, a.seen_run) AS seen_run,
       if(is_hit, judged_at, a.seen_at) AS seen_at,
       if(is_hit, NULL, {run}) AS closed_run,
       if(is_hit, NULL, judged_at) AS closed_at,
       CASE WHEN is_hit THEN NULL
            WHEN r.rule IS NULL THEN 'rule removed'
            WHEN (r.condition, r.list_name) IS DISTINCT FROM (a.condition, a.list_name) THEN 'rule changed'
            WHEN r.list_name IS NOT NULL AND m.company_number IS NULL THEN 'left the list'
            ELSE 'no longer true' END AS closed_because,
       a AS held
FROM hits h
FULL JOIN (FROM {current} WHERE closed_run IS NULL) a
    USING (rule, country, company_number)
CROSS JOIN moment
CROSS JOIN LATERAL (SELECT h.evidence IS NOT NULL AS is_hit)
LEFT JOIN met_rules r USING (rule)
LEFT JOIN watched w USING (country, company_number)
LEFT JOIN (SELECT DISTINCT lower(list_name) AS listed, country, company_number FROM list_members) m
    ON m.listed = lower(r.list_name)
    AND m.country = coalesce(h.country, a.country)
    AND m.company_number = coalesce(h.company_number, a.company_number)
