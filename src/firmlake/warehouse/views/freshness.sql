-- view freshness
-- One row per dataset and status: how many companies have it, and how old their answers are.
--
-- status: Status of the companies, as in coverage
-- company_count: Number of companies with this status
-- oldest_at: When the oldest answer was received, UTC. Null: there is no answer
-- newest_at: When the newest answer was received, UTC. Null: there is no answer
-- median_age_days: Median age of the answers in days, at the time of the query. Null: there is no answer
SELECT
    dataset, status,
    count(*) AS company_count,
    min(fetched_at) AS oldest_at,
    max(fetched_at) AS newest_at,
    median(age_days) AS median_age_days
FROM coverage
GROUP BY ALL
