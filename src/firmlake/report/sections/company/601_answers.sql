-- title: Answers
-- chapter: Where the figures come from
-- The newest answer about each dataset.
SELECT s.dataset, s.status, s.record_count AS records, s.reject_count AS rejected_records,
    s.fetched_at::TIMESTAMP_S AS fetched_at, s.run_id AS run, d.reason
FROM (FROM company_state WHERE country = getvariable('country') AND company_number = getvariable('number')) s
LEFT JOIN dead_letters d USING (country, company_number, dataset, run_id) ORDER BY s.dataset
