-- view company_status
-- One row per company that a run planned to fetch, with one status for all its datasets.
--
-- status: failed (a dataset has no usable answer about the company), waiting (a dataset was not requested yet),
-- enriched (at least one dataset was answered; reason names datasets that are forbidden or unavailable), not found (the
-- service does not know the company) or not asked (no dataset was ever requested)
-- reason: Which dataset failed, is forbidden or unavailable, is waiting or has records that do not fit, and
-- why. Null: no dataset is
SELECT
    c.country, c.company_number,
    CASE
        WHEN s.failed_count > 0 THEN 'failed'
        WHEN s.waiting_count > 0 THEN 'waiting'
        WHEN s.answered_count > 0 THEN 'enriched'
        WHEN s.barred_count > 0 AND s.unknown_count = 0 THEN 'failed'
        WHEN s.country IS NOT NULL THEN 'not found'
        ELSE 'not asked'
    END AS status,
    s.reason
FROM companies c
LEFT JOIN (
    SELECT
        s.country, s.company_number,
        count(*) FILTER (s.status = 'failed') AS failed_count,
        count(*) FILTER (s.status = 'waiting') AS waiting_count,
        count(*) FILTER (s.status IN ('forbidden', 'unavailable')) AS barred_count,
        count(*) FILTER (s.status = 'not_found') AS unknown_count,
        count(*) FILTER (s.status IN ('reported', 'empty')) AS answered_count,
        string_agg(
            s.dataset || ': ' || CASE
                WHEN s.status IN ('failed', 'forbidden', 'unavailable') THEN coalesce(d.reason, s.status)
                WHEN s.status = 'waiting' THEN 'not asked, budget or credits ran out'
                ELSE s.reject_count || ' records do not fit, see rejects'
            END,
            '; ' ORDER BY s.dataset
        ) FILTER (s.status IN ('failed', 'forbidden', 'unavailable', 'waiting') OR s.reject_count > 0) AS reason
    FROM company_state s
    LEFT JOIN dead_letters d ON
        (d.country, d.company_number, d.dataset, d.run_id) = (s.country, s.company_number, s.dataset, s.run_id)
    GROUP BY s.country, s.company_number
) s USING (country, company_number)
