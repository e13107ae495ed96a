-- name: state
-- If a request and its run were charged for fewer companies than they bought, somebody else paid for some of them, whose
-- windows began earlier. So none of them is refreshed for free.
WITH bought AS (SELECT run, at, count(*) AS companies FROM purchase GROUP BY run, at),
     charged AS (SELECT run, at, max(credits) AS credits FROM charge GROUP BY run, at),
     unsure AS (
         SELECT at FROM bought b JOIN charged USING (run, at)
         WHERE credits < companies
         AND (SELECT sum(credits) FROM charge WHERE run = b.run)
             < (SELECT sum(companies) FROM bought WHERE run = b.run)
     ),
     newest AS (SELECT company, max(at) AS paid_at FROM purchase GROUP BY company)
SELECT s.company, dataset,
       coalesce(status NOT IN ('failed', 'forbidden', 'unavailable', 'waiting')
                AND at > :stale AND at <= :latest, 0) AS is_fresh,
       coalesce(paid_at > :closing_from AND paid_at <= :closing_until AND at < paid_at + :lead
                AND paid_at NOT IN (SELECT at FROM unsure), 0) AS is_closing,
       :refresh_after_days > 0 AND is_left_out AS is_left_out,
       status = 'failed' OR coalesce(reject_count, 0) > 0 AS has_failed,
       status IN ('forbidden', 'unavailable') AS is_barred,
       nullif(record_count + reject_count, 0) AS expected_count,
       paid_at IS NOT NULL AS is_bought, coalesce(status = 'not_found', 0) AS is_not_found
FROM said s LEFT JOIN newest USING (company)

-- name: paid
SELECT company, max(at) AS at FROM purchase WHERE at <= :latest GROUP BY company HAVING max(at) > :from

-- name: counts
-- Nothing while one in eleven companies waits for its first records. After a run that stopped midway only short
-- histories are complete, which would bias the estimate for the rest.
SELECT record_count + reject_count, count(*) FROM said WHERE dataset = :financials AND record_count > 0
AND (SELECT count(*) FROM said WHERE dataset = :financials AND record_count > 0) > 10 * (
    SELECT count(*) FROM said WHERE dataset = :financials AND status = 'waiting' AND record_count IS NULL
    AND company IN (SELECT company FROM purchase)
)
GROUP BY 1 ORDER BY 1

-- name: ahead
SELECT count(*), max(at) FROM said WHERE at > ?

-- name: not_loaded
SELECT number, name FROM run WHERE position IS NULL

-- name: bought
SELECT company FROM purchase WHERE run = :run
