-- name: want_all
INSERT INTO wanted SELECT company FROM said UNION SELECT company FROM purchase

-- name: state
-- If a request and its run were charged for fewer companies than they bought, somebody else paid for some of them, whose
-- windows began earlier. So none of them is refreshed for free.
WITH short AS (
         SELECT run FROM charge GROUP BY run
         HAVING sum(credits) < (SELECT count(*) FROM purchase p WHERE p.run = charge.run)
     ),
     unsure AS (
         SELECT at FROM charge JOIN short USING (run) GROUP BY run, at
         HAVING max(credits) < (SELECT count(*) FROM purchase p WHERE p.run = charge.run AND p.at = charge.at)
     ),
     newest AS (SELECT company, max(at) AS paid_at FROM wanted LEFT JOIN purchase USING (company) GROUP BY company)
SELECT s.company, dataset,
       coalesce(status NOT IN ('failed', 'forbidden', 'unavailable', 'waiting')
                AND fetched_at > :stale AND fetched_at <= :latest_fresh, 0) AS is_fresh,
       coalesce(paid_at > :closing_from AND paid_at <= :closing_until AND fetched_at < paid_at + :lead
                AND paid_at NOT IN (SELECT at FROM unsure), 0) AS is_closing,
       :refresh_after_days > 0 AND is_left_out AS is_left_out,
       status = 'failed' OR coalesce(reject_count, 0) > 0 AS has_failed,
       status IN ('forbidden', 'unavailable') AS is_barred,
       nullif(record_count + reject_count, 0) AS expected_count,
       paid_at IS NOT NULL AS is_bought, coalesce(status = 'not_found', 0) AS is_not_found
FROM newest CROSS JOIN said s USING (company)

-- name: paid
SELECT company, max(at) AS at FROM wanted CROSS JOIN purchase USING (company)
WHERE at <= :latest GROUP BY company HAVING max(at) > :closing_from

-- name: totals
-- Of companies by chance. None while one in eleven companies waits for its first records: after a run that stopped
-- midway only short histories are complete, which would bias the estimate for the rest.
SELECT record_count + reject_count FROM said WHERE dataset = :financials AND record_count > 0
AND (SELECT count(*) FROM said WHERE dataset = :financials AND record_count > 0) > 10 * (
    SELECT count(*) FROM said WHERE dataset = :financials AND status = 'waiting' AND record_count IS NULL
    AND company IN (SELECT company FROM purchase)
)
ORDER BY company * 7919 % 1000003 LIMIT 200

-- name: hits
SELECT count(*) FILTER (WHERE is_bought), count(*) FILTER (WHERE NOT is_bought AND is_not_found)
FROM (
    SELECT EXISTS (SELECT 1 FROM purchase p WHERE p.company = s.company) AS is_bought,
           max(status = 'not_found') AS is_not_found
    FROM said s GROUP BY company
)
