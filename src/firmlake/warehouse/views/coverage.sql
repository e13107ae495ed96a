-- view coverage
-- One row for each company and each of the three datasets: what is held, how old it is, and why there is nothing.
--
-- status: As in company_state, or not_asked
-- reason: Why nothing, or not everything, is held. Null: everything that the service has is held
-- age_days: Days since the answer held was received, at the time of the query. Null: never answered
-- fetched_at: When the answer held was received, UTC. Null: never answered
SELECT
    c.country, c.company_number, c.name, dataset,
    coalesce(s.status, 'not_asked') AS status,
    s.record_count,
    s.reject_count,
    s.fetched_at,
    date_diff('day', s.fetched_at, now() AT TIME ZONE 'UTC') AS age_days,
    CASE
        WHEN s.status IS NULL THEN 'not asked for in any run'
        WHEN s.status = 'waiting' THEN 'not asked: budget or credits ran out'
        WHEN s.status = 'not_found' THEN 'the service knows no such company'
        WHEN s.status = 'empty' THEN 'the service has no records'
        WHEN s.status IN ('failed', 'forbidden', 'unavailable') THEN coalesce(d.reason, s.status)
        WHEN s.reject_count > 0 THEN s.reject_count || ' records do not fit, see rejects'
    END AS reason
FROM companies c
CROSS JOIN (VALUES ('financials'), ('lookalikes'), ('relationships')) AS datasets(dataset)
LEFT JOIN company_state s USING (country, company_number, dataset)
LEFT JOIN dead_letters d ON
    (d.country, d.company_number, d.dataset, d.run_id) = (s.country, s.company_number, s.dataset, s.run_id)
