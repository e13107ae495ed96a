-- title: Last run and credits
-- chapter: Runs and cost
-- chart: tiles
SELECT
    (SELECT replace(max_by(outcome, finished_at), '_', ' ') FROM own_runs) AS "Last run",
    (SELECT strftime(max(finished_at), '%d %b %Y') FROM own_runs) AS "Ended",
    (SELECT sum(credit_count)::BIGINT FROM own_runs) AS "Credits charged by all runs",
    (SELECT sum(free_refresh_count)::BIGINT FROM own_runs) AS "Credits saved by all runs",
    (SELECT arg_max(credits_remaining, fetched_at) FROM requests) AS "Credits left",
    (SELECT count(*) FROM company_state WHERE status IN ('failed', 'forbidden', 'unavailable'))
        AS "Failed datasets"
