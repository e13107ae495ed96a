-- view coverage
-- One row per company and each of the three datasets: whether the warehouse holds data, how old it is, and why
-- there is none.
--
-- status: Status as in company_state, or not_asked if a run never planned to fetch the dataset
-- reason: Why the warehouse holds nothing, or not everything. Null: it holds everything that the service has
-- age_days: Days from the newest usable answer to the time of the query. Null: no usable answer yet
-- fetched_at: When the newest usable answer was received, UTC. Null: no usable answer yet
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
