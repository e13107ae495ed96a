-- title: Records of accounts
-- chapter: Where the figures come from
-- Each period with the position of its record in the answer (from 0), the run that first stored it in this form, and
-- the number of its values that do not fit (table `rejects`).
SELECT f.end_date AS accounts_to, f.start_date AS accounts_from, f.date_received AS received,
    f.position AS record, f.dup_no + 1 AS filing, f.valid_from_run AS since_run, f.run_id AS last_run,
    f.fetched_at::TIMESTAMP_S AS fetched_at, coalesce(r.discarded, 0) AS discarded, count(*) OVER () AS total
FROM (FROM financials WHERE country = getvariable('country') AND company_number = getvariable('number')) f
LEFT JOIN (
    SELECT run_id, position, count(*) AS discarded FROM rejects
    WHERE country = getvariable('country') AND company_number = getvariable('number')
        AND dataset = 'financials' AND effect <> 'record'
    GROUP BY ALL
) r USING (run_id, position)
ORDER BY f.end_date DESC, f.start_date, f.dup_no LIMIT 30
