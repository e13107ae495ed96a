-- view company_status
-- One row for each company ever accepted from a list, with its status over all datasets that were asked for.
--
-- status: enriched (at least one dataset was answered, and none failed), not found (the service knows no such company),
-- failed (a dataset has no usable answer), waiting (a dataset was not asked for) or not asked (no dataset ever was)
-- reason: Which dataset failed, waits or has records that do not fit, and why. Null: none
SELECT
    c.country, c.company_number,
    CASE
        WHEN s.failed_count > 0 THEN 'failed'
        WHEN s.waiting_count > 0 THEN 'waiting'
        WHEN s.answered_count > 0 THEN 'enriched'
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
        count(*) FILTER (s.status IN ('reported', 'empty')) AS answered_count,
        string_agg(
            s.dataset || ': ' || CASE s.status
                WHEN 'failed' THEN coalesce(d.reason, 'failed')
                WHEN 'waiting' THEN 'not asked, budget or credits ran out'
                ELSE s.reject_count || ' records do not fit, see rejects'
            END,
            '; ' ORDER BY s.dataset
        ) FILTER (s.status IN ('failed', 'waiting') OR s.reject_count > 0) AS reason
    FROM company_state s
    LEFT JOIN dead_letters d ON
        (d.country, d.company_number, d.dataset, d.run_id) = (s.country, s.company_number, s.dataset, s.run_id)
    GROUP BY s.country, s.company_number
) s USING (country, company_number)
