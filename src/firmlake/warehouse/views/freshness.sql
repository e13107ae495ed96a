-- view freshness
-- One row for each dataset and status: how many companies, and how old their answers are.
--
-- status: As in coverage
-- company_count: Companies
-- oldest_at: When the oldest answer among them was received, UTC. Null: none was
-- newest_at: When the newest was, UTC. Null: none was
-- median_age_days: Age in days that half of them exceed, at the moment of asking. Null: no answer
SELECT
    dataset, status,
    count(*) AS company_count,
    min(fetched_at) AS oldest_at,
    max(fetched_at) AS newest_at,
    median(age_days) AS median_age_days
FROM coverage
GROUP BY ALL
