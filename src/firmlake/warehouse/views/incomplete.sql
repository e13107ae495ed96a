-- view incomplete
-- One row per list of companies, dataset and cause of missing data. A list without a row is complete.
--
-- list_name: Name of the company list. Null: the row counts all companies
-- dataset: Missing dataset. Null: none was ever requested
-- cause: budget (ours), credits (the service's ran out), outage, forbidden, gave_up (after all attempts), rejected
-- (records do not fit), not_asked or gate (see generation_quality)
-- company_count: Number of companies that lack it
-- example: The first of them, or the gate. Personal data if the company is a sole trader
SELECT list_name, dataset, cause, count(*) AS company_count, min(country || ' ' || company_number) AS example
FROM (
    SELECT
        m.list_name, m.country, m.company_number, s.dataset,
        CASE
            WHEN s.status IS NULL THEN 'not_asked'
            WHEN s.status = 'waiting' AND r.is_out_of_credits THEN 'credits'
            WHEN s.status = 'waiting' AND r.is_unanswered THEN 'outage'
            WHEN s.status = 'waiting' THEN 'budget'
            WHEN s.status = 'unavailable' THEN 'outage'
            WHEN s.status = 'forbidden' THEN 'forbidden'
            WHEN s.status = 'failed' THEN 'gave_up'
            WHEN s.reject_count > 0 THEN 'rejected'
        END AS cause
    FROM (
        SELECT DISTINCT list_name, country, company_number FROM list_members WHERE company_number IS NOT NULL
        UNION ALL
        SELECT NULL, country, company_number FROM companies
    ) m
    LEFT JOIN company_state s USING (country, company_number)
    LEFT JOIN (
        SELECT
            run_id,
            bool_or(status = 402) OR coalesce(arg_max(credits_remaining, fetched_at), 1) = 0 AS is_out_of_credits,
            coalesce(arg_max(coalesce(status, 0), fetched_at) NOT BETWEEN 200 AND 299, false) AS is_unanswered
        FROM requests
        GROUP BY run_id
    ) r ON r.run_id = s.run_id
)
WHERE cause IS NOT NULL
GROUP BY ALL
UNION ALL
SELECT
    g.list_name, NULL, 'gate',
    (
        SELECT count(DISTINCT (m.country, m.company_number)) FROM list_members m
        WHERE m.company_number IS NOT NULL AND (g.list_name IS NULL OR lower(m.list_name) = lower(g.list_name))
    ),
    g.says
FROM generation_quality g
WHERE g.is_failed AND g.generation = (SELECT max(generation) FROM generation_quality)
