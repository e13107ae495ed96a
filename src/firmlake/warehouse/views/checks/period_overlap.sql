-- check period_overlap, warning
-- A period begins before the previous one has ended.
SELECT country, company_number, start_date, end_date,
    {previous_end_date: previous_end_date, overlapping_days: -gap_days} AS evidence
FROM trend
WHERE gap_days < 0
