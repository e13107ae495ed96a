-- check period_gap, note
-- There are days between two periods that belong to neither, so accounts are missing.
SELECT country, company_number, start_date, end_date,
    {previous_end_date: previous_end_date, missing_days: gap_days} AS evidence
FROM trend
WHERE gap_days > 0
