-- title: Coverage and freshness
-- chapter: Coverage
-- Companies by dataset and status. The age of answers is in days.
SELECT dataset, status, company_count AS companies, oldest_at::TIMESTAMP_S AS oldest_answer,
    median_age_days AS median_age
FROM freshness ORDER BY dataset, companies DESC, status
