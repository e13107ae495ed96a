-- name: free
SELECT coalesce(sum(free_refresh_count) FILTER (finished_at >= ?), 0)::BIGINT,
       coalesce(sum(free_refresh_count), 0)::BIGINT
FROM runs

-- name: forecast
-- An answer that is refreshed for free at `free_at` is due a whole period later. A credit is spent at the first refresh
-- outside the paid window.
WITH held AS (
    SELECT country, company_number, any_value(paid_at) AS paid_at,
           if(bool_or(s.status IN ('failed', 'forbidden', 'unavailable')), NULL,
              min(s.fetched_at)) AS fetched_at
    FROM company_state s JOIN companies c USING (country, company_number)
    WHERE paid_at IS NOT NULL
        AND ($is_whole OR (country, company_number) IN (SELECT (country, company_number) FROM subjects))
    GROUP BY ALL
),
windows AS (
    SELECT fetched_at, paid_at + $window AS end_at,
           CASE WHEN $lead > INTERVAL 0 SECOND AND paid_at + $window - $margin > $now
                     AND fetched_at < paid_at + $window - $lead AND paid_at NOT IN ({unsure})
                     AND fetched_at + $refresh > greatest(paid_at + $window - $lead, $now)
                THEN greatest(paid_at + $window - $lead, $now) END AS free_at
    FROM held
),
due AS (
    SELECT free_at, greatest(coalesce(coalesce(free_at, fetched_at) + $refresh, $now), end_at, $now) AS pay_at
    FROM windows
)
SELECT time_bucket(INTERVAL 15 MINUTE, moment), sum(credits)::INT, sum(free)::INT
FROM (
    SELECT pay_at AS moment, 1 AS credits, 0 AS free FROM due WHERE pay_at < $until
    UNION ALL
    SELECT free_at, 0, 1 FROM due WHERE free_at < $until
)
GROUP BY ALL ORDER BY ALL

-- name: left_out
-- Companies that a budget or the service's credits left out before anything was asked about them.
CREATE OR REPLACE TEMP VIEW left_out AS
FROM companies SEMI JOIN (FROM company_state WHERE status = 'waiting') USING (country, company_number)
WHERE paid_at IS NULL

-- name: never_bought
-- Those left out that the newest version of a list still names; or, of a list, those left out or never asked for.
SELECT (SELECT count(*) FROM left_out SEMI JOIN list_members USING (country, company_number) WHERE $is_whole)
    + (SELECT count(*) FROM candidates
       ANTI JOIN (FROM company_state ANTI JOIN left_out USING (country, company_number)) USING (country, company_number))

-- name: unbought
SELECT count(*) FROM unbought
ANTI JOIN (FROM companies WHERE paid_at IS NOT NULL) USING (country, company_number)
ANTI JOIN (FROM left_out SEMI JOIN list_members USING (country, company_number)) USING (country, company_number)
