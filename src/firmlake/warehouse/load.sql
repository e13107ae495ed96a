-- name: state
SELECT s.country, s.company_number, s.dataset, s.status,
       if({is_answer}, s.record_count, c.record_count) AS record_count,
       if({is_answer}, s.reject_count, c.reject_count) AS reject_count,
       if({is_answer}, s.payload_hash, c.payload_hash) AS payload_hash,
       if({is_answer}, s.fetched_at, c.fetched_at) AS fetched_at,
       s.run_id,
       {is_answer} AND s.payload_hash IS DISTINCT FROM c.payload_hash AS is_changed, s.reject_count > 0 AS is_partial,
       c AS held
FROM staged_company_state s LEFT JOIN {current} c USING (country, company_number, dataset)
WHERE NOT {is_outdated}

-- name: changed
CREATE OR REPLACE TEMP TABLE changed AS
SELECT dataset, country, company_number, is_partial, held_row IS NOT NULL AS is_known
FROM merged_company_state WHERE is_changed

-- name: what_changed
-- The number of companies, the datasets with partial answers and those with companies asked for before, and whether all
-- answers changed something.
SELECT (SELECT count(*) FROM (SELECT DISTINCT country, company_number FROM changed)),
       coalesce(list(DISTINCT dataset) FILTER (is_partial), []),
       coalesce(list(DISTINCT dataset) FILTER (is_known), []),
       count(*) = (SELECT count(*) FROM staged_company_state WHERE status IN ('reported', 'empty', 'not_found'))
FROM changed

-- name: companies
SELECT s.country, s.company_number,
       if(is_older, c.name, s.name) AS name, if(is_older, c.place, s.place) AS place,
       if(is_older, c.fetched_at, s.fetched_at) AS fetched_at,
       CASE WHEN c.paid_at IS NULL OR s.paid_at >= c.paid_at + INTERVAL {days} DAY
            THEN coalesce(s.paid_at, c.paid_at)
            WHEN NOT paid_before AND (s.paid_at > c.paid_at - INTERVAL {days} DAY OR c.paid_at > {latest})
            THEN least(s.paid_at, c.paid_at)
            ELSE c.paid_at END AS paid_at,
       s.run_id,
       c AS held
FROM staged_windows s LEFT JOIN {current} c USING (country, company_number),
     LATERAL (SELECT s.fetched_at IS NULL
                     OR coalesce(c.fetched_at <= {latest}
                                 AND (s.fetched_at < c.fetched_at OR s.fetched_at > {latest}), false) AS is_older)

-- name: bought
-- Companies that cost a credit because no paid window covers them. Runs may be loaded in another order than they paid:
-- `paid_before` holds the payments that the plan knew of by runs that are not loaded yet.
SELECT count(*) FROM staged_windows s LEFT JOIN companies c USING (country, company_number)
WHERE s.paid_at IS NOT NULL
AND (s.paid_at >= c.paid_at + INTERVAL {days} DAY
     OR NOT paid_before AND (c.paid_at IS NULL OR s.paid_at < c.paid_at))

-- name: windows
CREATE OR REPLACE TEMP VIEW staged_windows AS
SELECT s.*, p.country IS NOT NULL AS paid_before FROM staged_companies s
LEFT JOIN (SELECT DISTINCT country, company_number FROM read_parquet({targets}) WHERE is_paid) p
USING (country, company_number)

-- name: refreshed
-- Companies answered in a free refresh, without those that were charged after all. Requests for free refreshes name no
-- other companies; they are found by the time of the answer, as in `loads.UNSURE`.
WITH answered AS (
    SELECT *, (country, company_number, dataset) IN (
        SELECT (country, company_number, dataset) FROM read_parquet({targets}) WHERE is_refresh
    ) AS is_refresh FROM staged_company_state
    WHERE status IN ('reported', 'empty', 'not_found')
),
charged AS (
    SELECT least(any_value(credits_charged), count(*)) AS count
    FROM answered JOIN staged_requests q USING (dataset, fetched_at)
    WHERE credits_charged > 0 GROUP BY q.request_id, q.attempt HAVING bool_and(is_refresh)
)
SELECT (SELECT count(*) FROM (SELECT DISTINCT country, company_number FROM answered WHERE is_refresh))
       - (SELECT coalesce(sum(count), 0) FROM charged)

-- name: drift
-- Each shard has counted its own records.
SELECT dataset, kind, path, first(example ORDER BY first_seen_at, example) AS example,
       sum(record_count)::BIGINT AS record_count, min(first_seen_at) AS first_seen_at, run_id
FROM staged_drift GROUP BY dataset, kind, path, run_id

-- name: run
-- Credits charged beyond our own count may be for companies that were forgotten since then.
INSERT INTO runs BY NAME
SELECT {values}, request_count, credit_count,
       greatest($expected_credits, least(coalesce(credit_count, 0), $expected_at_most)) AS expected_credit_count
FROM (
    SELECT count(*) AS request_count,
           if(bool_or(status BETWEEN 200 AND 299), sum(credits_charged), coalesce(sum(credits_charged), 0))::BIGINT
               AS credit_count
    FROM staged_requests
)
